// What a program that runs models uses of ONNX Runtime, beside what a library of kernels does.
#pragma once

#include <dlfcn.h>

#include <stdexcept>
#include <string>

#include <opbridge/adapter/ort_calls.h>

using namespace opbridge::ort;

struct OrtEnv;
struct OrtSession;
struct OrtRunOptions;
constexpr Checked<int32_t, const char*, OrtEnv**> CreateEnv{3};
constexpr Checked<const OrtEnv*, const char*, const OrtSessionOptions*, OrtSession**> CreateSession{7};
constexpr Checked<OrtSession*, const OrtRunOptions*, const char* const*, const OrtValue* const*, size_t, const char* const*, size_t,
                  OrtValue**>
    Run{9};
constexpr Checked<OrtSessionOptions**> CreateSessionOptions{10};
constexpr Checked<OrtSessionOptions*, const char*, void**> RegisterCustomOpsLibrary{29};
constexpr Checked<const OrtMemoryInfo*, void*, size_t, const int64_t*, size_t, int32_t, OrtValue**> CreateTensorWithDataAsOrtValue{49};
constexpr Checked<OrtSessionOptions*, const char*, const char*> AddSessionConfigEntry{130};

// The interface of the ONNX Runtime in a file.
inline const OrtApi* runtime_at(const char* path) {
    void* runtime = dlopen(path, RTLD_NOW);
    if (!runtime) throw std::runtime_error(dlerror());
    return connect(reinterpret_cast<const OrtApiBase* (*)()>(dlsym(runtime, "OrtGetApiBase"))());
}
