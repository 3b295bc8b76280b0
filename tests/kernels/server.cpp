// A program without Python: it loads a library of kernels and a model through ONNX Runtime's C interface, and runs the model.
//
//     server libonnxruntime.so libkernels.so model.onnx      y = my_add(a, b), of three floats each
#include <cstdio>

#include "server.h"

int main(int, char** arguments) try {
    const OrtApi* api = runtime_at(arguments[1]);

    OrtEnv* environment = nullptr;
    OrtSessionOptions* options = nullptr;
    OrtSession* session = nullptr;
    void* kernels = nullptr;
    call(api, CreateEnv, 4, "server", &environment);
    call(api, CreateSessionOptions, &options);
    call(api, RegisterCustomOpsLibrary, options, static_cast<const char*>(arguments[2]), &kernels);
    call(api, CreateSession, static_cast<const OrtEnv*>(environment), static_cast<const char*>(arguments[3]),
         static_cast<const OrtSessionOptions*>(options), &session);

    OrtMemoryInfo* memory = nullptr;
    call(api, CreateCpuMemoryInfo, 1, 0, &memory);
    float a[] = {1, 2, 3}, b[] = {10, 20, 30};
    const int64_t sizes[] = {3};
    OrtValue *inputs[2] = {}, *output = nullptr;
    for (int i = 0; i < 2; ++i) {
        call(api, CreateTensorWithDataAsOrtValue, static_cast<const OrtMemoryInfo*>(memory), static_cast<void*>(i == 0 ? a : b), sizeof a,
             static_cast<const int64_t*>(sizes), size_t{1}, 1, &inputs[i]);
    }
    const char *input_names[] = {"a", "b"}, *output_names[] = {"y"};
    call(api, Run, session, static_cast<const OrtRunOptions*>(nullptr), static_cast<const char* const*>(input_names),
         static_cast<const OrtValue* const*>(inputs), size_t{2}, static_cast<const char* const*>(output_names), size_t{1}, &output);
    void* data = nullptr;
    call(api, GetTensorMutableData, static_cast<const OrtValue*>(output), &data);
    const float* y = static_cast<const float*>(data);
    std::printf("%g %g %g\n", y[0], y[1], y[2]);
    return 0;
} catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
}
