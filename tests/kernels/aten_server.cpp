// A program without Python beside libtorch: it loads a model with aten nodes through ONNX Runtime's C interface, and runs it.
//
//     aten_server libonnxruntime.so libtorch_cpu.so aten.so model.onnx [PATTERNS]      y = f(x), of four floats each
//
// libtorch's path goes by the session's options where it starts with "@", and is loaded here otherwise.
#include <cstdio>

#include "server.h"

int main(int count, char** arguments) try {
    const OrtApi* api = runtime_at(arguments[1]);
    const char* torch = arguments[2];

    OrtEnv* environment = nullptr;
    OrtSessionOptions* options = nullptr;
    OrtSession* session = nullptr;
    void* kernels = nullptr;
    call(api, CreateEnv, 4, "server", &environment);
    call(api, CreateSessionOptions, &options);
    if (*torch == '@') call(api, AddSessionConfigEntry, options, "opbridge.libtorch", torch + 1);
    else if (!dlopen(torch, RTLD_NOW)) throw std::runtime_error(dlerror());
    if (count > 5) call(api, AddSessionConfigEntry, options, "opbridge.aten", static_cast<const char*>(arguments[5]));
    call(api, RegisterCustomOpsLibrary, options, static_cast<const char*>(arguments[3]), &kernels);
    call(api, CreateSession, static_cast<const OrtEnv*>(environment), static_cast<const char*>(arguments[4]),
         static_cast<const OrtSessionOptions*>(options), &session);

    OrtMemoryInfo* memory = nullptr;
    call(api, CreateCpuMemoryInfo, 1, 0, &memory);
    float x[] = {1, 2, 3, 4};
    const int64_t sizes[] = {4};
    OrtValue *input = nullptr, *output = nullptr;
    call(api, CreateTensorWithDataAsOrtValue, static_cast<const OrtMemoryInfo*>(memory), static_cast<void*>(x), sizeof x,
         static_cast<const int64_t*>(sizes), size_t{1}, 1, &input);
    const char *input_names[] = {"x"}, *output_names[] = {"y"};
    const OrtValue* inputs[] = {input};
    call(api, Run, session, static_cast<const OrtRunOptions*>(nullptr), static_cast<const char* const*>(input_names),
         static_cast<const OrtValue* const*>(inputs), size_t{1}, static_cast<const char* const*>(output_names), size_t{1}, &output);
    void* data = nullptr;
    call(api, GetTensorMutableData, static_cast<const OrtValue*>(output), &data);
    const float* y = static_cast<const float*>(data);
    std::printf("%g %g %g %g\n", y[0], y[1], y[2], y[3]);
    return 0;
} catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
}
