// Kernels launched on CUDA devices: the library's code, compiled or selected for the device, loaded once for each context.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "../element.h"
#include "cuda_driver.h"
#include "device_code.h"
#include "nvrtc.h"
#include "guarded.h"
#include "operator.h"

namespace opbridge OPBRIDGE_HIDDEN {
namespace cuda {

using namespace detail;

// What the device compiler calls a function of an element.
inline std::string expression_of(const DeviceFunction& function) {
    return std::string("opbridge::detail::elements<&::") + function.function + "<" + function.type + ">>";
}

// The functions of a program, each once.
inline std::vector<std::string> functions_of(int32_t program) {
    std::vector<std::string> found;
    for (const Operator* op = Operator::first(); op; op = op->next) {
        for (const Instance& each : op->instances) {
            if (!each.device || each.device->program != program) continue;
            const std::string expression = expression_of(*each.device);
            if (std::find(found.begin(), found.end(), expression) == found.end()) found.push_back(expression);
        }
    }
    return found;
}

inline const DeviceProgram& program_of(int32_t number) {
    const DeviceCode* code = device_code();
    if (!code || number < 0 || static_cast<size_t>(number) >= code->programs) {
        throw std::runtime_error("this library holds no code for CUDA devices. Build it with opbridge build or opbridge.load");
    }
    return code->program_list[number];
}

// The closest code that the library has of a program for a device of compute capability `device`; null where it has none.
inline const PackedImage* closest_image(int32_t program, int device) {
    const DeviceCode& code = *device_code();
    const PackedImage* best = nullptr;
    for (size_t i = 0; i < code.images; ++i) {
        const PackedImage& each = code.image_list[i];
        const Architecture architecture(each.architecture);
        if (each.program != program || !architecture.runs_on(device)) continue;
        if (!best || architecture.is_better_than(Architecture(best->architecture))) best = &each;
    }
    return best;
}

// The code of a program for a device of compute capability `device`: the closest that the library has, or else compiled now.
inline DeviceImage image_for(int32_t program, int device, int most) {
    const DeviceProgram& source = program_of(program);
    if (const PackedImage* best = closest_image(program, device)) return DeviceImage::unpacked(std::string(best->data, best->size));
    return compile(source, functions_of(program), "sm_" + std::to_string(device), most);
}

// The compute capability of the device of the current context: 90 for 9.0.
inline int capability_of(const Driver& at) {
    int device = 0;
    at.check(at.context_device(&device), "get the device");
    return at.attribute(capability_major, device) * 10 + at.attribute(capability_minor, device);
}

// Loads code into the current context.
inline ModuleObject* load_code(const Driver& at, const DeviceImage& image) {
    // While a graph is captured, loading is permitted only in the relaxed mode.
    int mode = capture_mode_relaxed;
    at.check(at.exchange_capture_mode(&mode), "set the mode of capture");
    ModuleObject* module = nullptr;
    const int failure = at.load_module(&module, image.code.c_str());
    at.check(at.exchange_capture_mode(&mode), "set the mode of capture");
    if (failure != 0) {
        throw std::runtime_error("CUDA could not load code for " + image.architecture + ": " + at.words_for(failure) +
                                 ". The driver supports CUDA " + at.version_text() +
                                 "; install a newer driver, or an NVRTC that is no newer than the driver");
    }
    return module;
}

class Modules {
  public:
    // The function for the context that is current.
    FunctionObject* find(const DeviceFunction& function) {
        const Driver& at = driver();
        ContextObject* context = nullptr;
        at.check(at.current_context(&context), "get the current context");
        const std::lock_guard<std::mutex> lock(mutex_);
        FunctionObject*& found = functions_[{context, &function}];
        if (!found) found = load(at, context, function);
        return found;
    }

    static Modules& all() {
        static auto* modules = new Modules;  // the driver may be gone before a destructor runs
        return *modules;
    }

  private:
    struct Loaded {
        ModuleObject* module = nullptr;
        DeviceImage image;
    };

    FunctionObject* load(const Driver& at, ContextObject* context, const DeviceFunction& function) {
        Loaded& loaded = modules_[{context, function.program}];
        if (!loaded.module) load_module(at, function.program, loaded);
        const std::string expression = expression_of(function);
        const std::string* symbol = loaded.image.symbol(expression);
        if (!symbol) throw std::runtime_error("the code for CUDA devices in this library has no " + expression + ". Build it again");
        FunctionObject* found = nullptr;
        at.check(at.find_function(&found, loaded.module, symbol->c_str()), "find the function " + *symbol);
        return found;
    }

    static void load_module(const Driver& at, int32_t program, Loaded& loaded) {
        DeviceImage image = image_for(program, capability_of(at), at.version / 1000);
        ModuleObject* module = load_code(at, image);
        loaded.image = std::move(image);
        loaded.image.code.clear();
        loaded.module = module;
    }

    std::mutex mutex_;
    std::map<std::pair<ContextObject*, int32_t>, Loaded> modules_;
    std::map<std::pair<ContextObject*, const DeviceFunction*>, FunctionObject*> functions_;
};

// Has a context of a device current, which a thread that has not used the runtime yet may lack.
inline void enter_context(const Driver& at, int64_t device) {
    ContextObject* context = nullptr;
    at.check(at.current_context(&context), "get the current context");
    if (context) return;
    at.check(at.primary_context(&context, static_cast<int>(device)), "get the context of device " + std::to_string(device));
    at.check(at.set_current_context(context), "set the context of device " + std::to_string(device));
}

}  // namespace cuda

namespace detail {

OPBRIDGE_ADAPTER void launch_elements(Context& context, const DeviceFunction& function, int64_t count, const void* arguments) {
    if (count == 0) return;
    const cuda::Driver& at = cuda::driver();
    cuda::enter_context(at, context.cuda_device());
    cuda::FunctionObject* found = cuda::Modules::all().find(function);
    constexpr int64_t threads = 256, most_blocks = 1 << 20;
    const int64_t blocks = std::min((count - 1) / threads + 1, most_blocks);
    void* parameters[] = {const_cast<void*>(arguments)};
    at.check(at.launch(found, static_cast<unsigned>(blocks), 1, 1, static_cast<unsigned>(threads), 1, 1, 0,
                       static_cast<cuda::StreamObject*>(context.stream()), parameters, nullptr),
             "launch a kernel");
}

}  // namespace detail
}  // namespace opbridge

extern "C" {

// Has NVRTC looked for near a file: in the packages of NVIDIA beside it.
OPBRIDGE_ENTRY void opbridge_look_near(const char* file) { opbridge::detail::RuntimeFiles::add(file); }

// Compiles a program of this library for an architecture; 0, and the packed image, which is valid until the next call on this thread. 1: an
// error, 2: there is no program of this number.
OPBRIDGE_ENTRY int32_t opbridge_compile_device(int32_t program, const char* architecture, const char** data, size_t* size) {
    using namespace opbridge;
    const detail::DeviceCode* code = detail::device_code();
    if (!code || program < 0 || static_cast<size_t>(program) >= code->programs) return 2;
    thread_local std::string packed;
    return detail::reported([&] {
        packed =
            cuda::compile(cuda::program_of(program), cuda::functions_of(program), architecture, cuda::nvrtc_detail::newest_major).packed();
        *data = packed.data();
        *size = packed.size();
    });
}
}
