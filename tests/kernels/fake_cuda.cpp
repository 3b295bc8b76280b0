// A library in place of libcuda and libnvrtc: "compiles" device functions with the system's C++ compiler, against the emulation of CUDA's
// language, and "launches" them on the CPU. OPBRIDGE_LIBCUDA and OPBRIDGE_NVRTC name it. What it is asked is recorded.
//
// FAKE_CUDA_FOLDER: where it writes; FAKE_CUDA_CAPABILITY: that of its devices, 90 by default; FAKE_CUDA_FAILS: functions that fail.
#include <dlfcn.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#define ENTRY extern "C" __attribute__((visibility("default")))

namespace {

std::string variable(const char* name, const char* otherwise) {
    const char* value = std::getenv(name);
    return value ? value : otherwise;
}

std::string& record() {
    static auto* text = new std::string;
    return *text;
}

int answer(const char* function) {
    record() += std::string(function) + "\n";
    return (" " + variable("FAKE_CUDA_FAILS", "") + " ").find(std::string(" ") + function + " ") == std::string::npos ? 0 : 2;
}

void* current_context = nullptr;
int capture_mode = 0;

struct Program {
    std::string source;
    std::map<std::string, std::string> headers;
    std::vector<std::string> names;
    std::string log, library;
};

void replace_all(std::string& text, const std::string& from, const std::string& to) {
    for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) text.replace(at, from.size(), to);
}

}  // namespace

ENTRY const char* fake_cuda_record() { return record().c_str(); }
ENTRY void fake_cuda_clear() { record().clear(); }

ENTRY int cuInit(unsigned) { return answer("cuInit"); }
ENTRY int cuDriverGetVersion(int* version) {
    *version = std::atoi(variable("FAKE_CUDA_VERSION", "13000").c_str());
    return answer("cuDriverGetVersion");
}
ENTRY int cuGetErrorName(int, const char** name) {
    *name = "CUDA_ERROR_OUT_OF_MEMORY";
    return 0;
}
ENTRY int cuGetErrorString(int, const char** text) {
    *text = "out of memory";
    return 0;
}
ENTRY int cuCtxGetCurrent(void** context) {
    *context = current_context;
    return 0;
}
ENTRY int cuCtxSetCurrent(void* context) {
    current_context = context;
    return answer("cuCtxSetCurrent");
}
ENTRY int cuCtxGetDevice(int* device) {
    *device = 0;
    return answer("cuCtxGetDevice");
}
ENTRY int cuMemAllocAsync(void** memory, size_t bytes, void* stream) {
    char text[80];
    std::snprintf(text, sizeof text, "allocate %zu stream %p\n", bytes, stream);
    record() += text;
    *memory = std::malloc(bytes);
    return answer("cuMemAllocAsync");
}
ENTRY int cuMemFreeAsync(void* memory, void*) {
    std::free(memory);
    return answer("cuMemFreeAsync");
}
ENTRY int cuDevicePrimaryCtxRetain(void** context, int device) {
    static char contexts[8];
    *context = &contexts[device];
    return answer("cuDevicePrimaryCtxRetain");
}
ENTRY int cuDeviceGetAttribute(int* value, int attribute, int) {
    const int capability = std::atoi(variable("FAKE_CUDA_CAPABILITY", "90").c_str());
    *value = attribute == 75 ? capability / 10 : attribute == 76 ? capability % 10 : 132;
    return answer("cuDeviceGetAttribute");
}
ENTRY int cuThreadExchangeStreamCaptureMode(int* mode) {
    std::swap(*mode, capture_mode);
    return 0;
}
ENTRY int cuModuleLoadData(void** module, const void* image) {
    if (capture_mode != 2) return 900;
    const std::string library = static_cast<const char*>(image);
    *module = dlopen(library.c_str(), RTLD_LAZY | RTLD_LOCAL);  // the names of the CPU's part have no definition
    if (!*module) record() += std::string("not loaded: ") + dlerror() + "\n";
    return answer("cuModuleLoadData") ? 2 : *module ? 0 : 200;
}
ENTRY int cuModuleGetFunction(void** function, void* module, const char* name) {
    *function = dlsym(module, name);
    return answer("cuModuleGetFunction") ? 2 : *function ? 0 : 500;
}
ENTRY int cuModuleGetGlobal_v2(uint64_t* place, size_t* size, void* module, const char* name) {
    void* found = dlsym(module, name);
    *place = reinterpret_cast<uintptr_t>(found);
    *size = 0;
    return answer("cuModuleGetGlobal") ? 2 : found ? 0 : 500;
}
// A call of the emulation has ended when it returns, so that there is nothing to wait for.
ENTRY int cuMemcpyDtoHAsync_v2(void* to, uint64_t from, size_t bytes, void*) {
    if (int failure = answer("cuMemcpyDtoHAsync")) return failure;
    std::memcpy(to, reinterpret_cast<const void*>(from), bytes);
    return 0;
}
ENTRY int cuMemcpyHtoDAsync_v2(uint64_t to, const void* from, size_t bytes, void*) {
    if (int failure = answer("cuMemcpyHtoDAsync")) return failure;
    std::memcpy(reinterpret_cast<void*>(to), from, bytes);
    return 0;
}
ENTRY int cuMemsetD8Async(uint64_t to, unsigned char value, size_t bytes, void*) {
    if (int failure = answer("cuMemsetD8Async")) return failure;
    std::memset(reinterpret_cast<void*>(to), value, bytes);
    return 0;
}
ENTRY int cuStreamSynchronize(void*) { return answer("cuStreamSynchronize"); }
ENTRY int cuStreamIsCapturing(void*, int* status) {
    *status = std::atoi(variable("FAKE_CUDA_CAPTURING", "0").c_str());
    return 0;
}
ENTRY int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, void*) {
    std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes);
    return answer("cuMemcpyDtoDAsync_v2");
}
ENTRY int cuFuncSetAttribute(void*, int, int) { return answer("cuFuncSetAttribute"); }
ENTRY int cuLaunchKernel(void* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
                         void* stream, void** arguments, void**) {
    char text[160];
    std::snprintf(text, sizeof text, "launch grid %u %u %u block %u %u %u shared %u stream %p\n", gx, gy, gz, bx, by, bz, shared, stream);
    record() += text;
    if (int failure = answer("cuLaunchKernel")) return failure;
    const unsigned sizes[] = {gx, gy, gz, bx, by, bz, shared};
    return reinterpret_cast<int (*)(const unsigned*, void**)>(function)(sizes, arguments);
}

ENTRY int nvrtcVersion(int* major, int* minor) {
    *major = 13;
    *minor = 99;
    return 0;
}
ENTRY const char* nvrtcGetErrorString(int) { return "an error of NVRTC"; }
ENTRY int nvrtcCreateProgram(Program** program, const char* source, const char*, int count, const char* const* texts,
                             const char* const* names) {
    *program = new Program{source, {}, {}, "", ""};
    for (int i = 0; i < count; ++i) (*program)->headers[names[i]] = texts[i];
    return answer("nvrtcCreateProgram");
}
ENTRY int nvrtcDestroyProgram(Program** program) {
    delete *program;
    return 0;
}
ENTRY int nvrtcAddNameExpression(Program* program, const char* name) {
    program->names.push_back(name);
    return 0;
}
ENTRY int nvrtcCompileProgram(Program* program, int count, const char* const* options) {
    static int number = 0;
    const std::string folder = variable("FAKE_CUDA_FOLDER", "/tmp") + "/" + std::to_string(getpid()) + "-" + std::to_string(number++);
    if (std::system(("mkdir -p " + folder).c_str()) != 0) return 1;
    std::map<std::string, std::string> files;
    for (const auto& each : program->headers) files[each.first] = "header" + std::to_string(files.size()) + ".h";
    const auto write = [&](const std::string& name, std::string text) {
        for (const auto& each : files) replace_all(text, "#include \"" + each.first + "\"", "#include \"" + each.second + "\"");
        std::ofstream(folder + "/" + name) << text;
    };
    std::string all = program->source;
    for (const auto& each : program->headers) {
        write(files[each.first], each.second);
        all += each.second;
    }
    const bool has_barriers = all.find("__sync") != std::string::npos || all.find("__shfl") != std::string::npos;
    std::string text = std::string("#define OPBRIDGE_EMULATES_BARRIERS ") + (has_barriers ? "2" : "0") +
                       "\n#include <opbridge/device/emulation.h>\n" + program->source;
    for (size_t i = 0; i < program->names.size(); ++i) {
        text += "\nextern \"C\" int entry" + std::to_string(i) + "(const unsigned* s, void** a) try { opbridge::emulation::launch_with(&" +
                program->names[i] + ", {s[0], s[1], s[2]}, {s[3], s[4], s[5]}, s[6], a); return 0; } catch (...) { return 719; }\n";
    }
    write("program.cpp", text);
    std::string command = "g++ -std=c++17 -O1 -shared -fPIC -pthread " + variable("FAKE_CUDA_FLAGS", "");
    for (int i = 0; i < count; ++i) {
        record() += std::string("option ") + options[i] + "\n";
        if (std::strncmp(options[i], "-D", 2) == 0) command += std::string(" ") + options[i];
    }
    program->library = folder + "/program.so";
    command += " " + folder + "/program.cpp -o " + program->library + " 2>" + folder + "/log";
    const int failure = std::system(command.c_str());
    std::ifstream log(folder + "/log");
    program->log.assign(std::istreambuf_iterator<char>(log), std::istreambuf_iterator<char>());
    return answer("nvrtcCompileProgram") ? 1 : failure ? 6 : 0;
}
ENTRY int nvrtcGetLoweredName(Program* program, const char* name, const char** lowered) {
    static std::string text;
    for (size_t i = 0; i < program->names.size(); ++i) {
        if (program->names[i] == name) text = "entry" + std::to_string(i);
    }
    *lowered = text.c_str();
    return 0;
}
ENTRY int nvrtcGetProgramLogSize(Program* program, size_t* size) {
    *size = program->log.size() + 1;
    return 0;
}
ENTRY int nvrtcGetProgramLog(Program* program, char* text) {
    std::strcpy(text, program->log.c_str());
    return 0;
}
ENTRY int nvrtcGetCUBINSize(Program* program, size_t* size) {
    *size = program->library.size() + 1;
    return 0;
}
ENTRY int nvrtcGetCUBIN(Program* program, char* code) {
    std::strcpy(code, program->library.c_str());
    return 0;
}
ENTRY int nvrtcGetPTXSize(Program* program, size_t* size) { return nvrtcGetCUBINSize(program, size); }
ENTRY int nvrtcGetPTX(Program* program, char* code) { return nvrtcGetCUBIN(program, code); }
