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
#include "../launch.h"
#include "cuda_driver.h"
#include "device_code.h"
#include "nvrtc.h"
#include "guarded.h"
#include "operator.h"

namespace opbridge OPBRIDGE_HIDDEN {
namespace cuda {

using namespace detail;

// A kernel's name, of the text that the C++ compiler puts it into: "... [with auto kernel = my_kernel<float>]". What is in a namespace
// without a name is found from outside of it.
inline std::string name_in(const std::string& text) {
    const std::string before = "kernel = ";
    const size_t place = text.find(before);
    size_t begin = place == std::string::npos ? 0 : place + before.size(), end = text.rfind(']');
    if (end == std::string::npos || end < begin) end = text.size();
    while (begin < end && (text[begin] == '&' || text[begin] == '(' || text[begin] == ' ')) ++begin;
    std::string name = text.substr(begin, end - begin);
    for (const char* unnamed : {"{anonymous}::", "(anonymous namespace)::", "`anonymous-namespace'::"}) {
        for (size_t at = name.find(unnamed); at != std::string::npos; at = name.find(unnamed, at)) {
            name.erase(at, std::string(unnamed).size());
        }
    }
    while (!name.empty() && name.back() == ')' && name.find('(') == std::string::npos) name.pop_back();
    return name;
}

// What the device compiler calls a function.
inline std::string expression_of(const DeviceFunction& function) {
    if (!function.type) return name_in(function.function);
    return std::string("opbridge::detail::elements<&::") + function.function + "<" + function.type + ">>";
}

// The functions of a program, each once.
inline std::vector<std::string> functions_of(int32_t program) {
    std::vector<std::string> found;
    const auto add = [&](const std::string& expression) {
        if (std::find(found.begin(), found.end(), expression) == found.end()) found.push_back(expression);
    };
    for (const Operator* op = Operator::first(); op; op = op->next) {
        for (const Instance& each : op->instances) {
            if (!each.device || each.device->program != program) continue;
            add(expression_of(*each.device));
        }
    }
    for (const LaunchedKernel* each = LaunchedKernel::first(); each; each = each->next) {
        if (each->function.program == program) add(expression_of(each->function));
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

    // Has the first index that was out of bounds in a function thrown, in a debug build. That waits for what is on the stream, so that
    // nothing is said while a graph is captured.
    void check_bounds(const DeviceFunction& function, StreamObject* stream) {
        const Driver& at = driver();
        int capturing = 0;
        at.check(at.is_capturing(stream, &capturing), "ask for the state of a stream");
        if (capturing != 0) return;
        uint64_t place = 0;
        size_t size = 0;
        {
            ContextObject* context = nullptr;
            at.check(at.current_context(&context), "get the current context");
            const std::lock_guard<std::mutex> lock(mutex_);
            at.check(at.find_global(&place, &size, modules_[{context, function.program}].module, "opbridge_fault"),
                     "find the fault of a kernel");
        }
        Fault fault{};
        at.check(at.copy_to_host(&fault, place, sizeof fault, stream), "read the fault of a kernel");
        at.check(at.synchronize(stream), "run the kernel " + expression_of(function));
        if (fault.raised == 0) return;
        at.check(at.set_bytes(place, 0, sizeof fault, stream), "reset the fault of a kernel");
        throw_out_of_bounds(fault.index, fault.size);
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

// A size of a grid or a block, as the driver takes it.
inline unsigned launch_size(const char* what, const char* axis, int64_t size, int64_t most) {
    if (size < 0 || size > most) {
        throw std::invalid_argument(std::string("a ") + what + " of " + std::to_string(size) + (*what == 'g' ? " blocks" : " threads") +
                                    " along " + axis + "; CUDA allows " + std::to_string(most));
    }
    return static_cast<unsigned>(size);
}

inline void launch(Context& context, const DeviceFunction& function, const Dim3& grid, const Dim3& block, int64_t shared_bytes,
                   void** arguments) {
    if (context.cuda_device() < 0) {
        throw std::logic_error("a kernel for CUDA devices is launched for tensors on the CPU. Launch it in the function for CUDA devices");
    }
    const unsigned sizes[6] = {launch_size("grid", "x", grid.x, 0x7fffffff), launch_size("grid", "y", grid.y, 65535),
                               launch_size("grid", "z", grid.z, 65535),      launch_size("block", "x", block.x, 1024),
                               launch_size("block", "y", block.y, 1024),     launch_size("block", "z", block.z, 64)};
    launch_size("block", "all axes", block.x * block.y * block.z, 1024);
    if (grid.x * grid.y * grid.z == 0) return;
    if (shared_bytes < 0 || shared_bytes > 0x7fffffff) {
        throw std::invalid_argument("a kernel cannot have " + std::to_string(shared_bytes) + " bytes of shared memory");
    }
    const Driver& at = driver();
    enter_context(at, context.cuda_device());
    FunctionObject* found = Modules::all().find(function);
    constexpr int64_t without_asking = 48 << 10;  // bytes of shared memory
    if (shared_bytes > without_asking) {
        at.check(at.set_function_attribute(found, most_dynamic_shared_memory, static_cast<int>(shared_bytes)),
                 "give a kernel " + std::to_string(shared_bytes) + " bytes of shared memory");
    }
    auto* stream = static_cast<StreamObject*>(context.stream());
    at.check(at.launch(found, sizes[0], sizes[1], sizes[2], sizes[3], sizes[4], sizes[5], static_cast<unsigned>(shared_bytes), stream,
                       arguments, nullptr),
             "launch a kernel");
#ifdef OPBRIDGE_CHECK_BOUNDS
    Modules::all().check_bounds(function, stream);
#endif
}

// The address of memory on a device, and the driver that has it.
inline const Driver& driver_for(Context& context) {
    const Driver& at = driver();
    enter_context(at, context.cuda_device());
    return at;
}

inline uint64_t address(const void* memory) { return reinterpret_cast<uintptr_t>(memory); }

}  // namespace cuda

namespace detail {

OPBRIDGE_ADAPTER const LaunchedKernel*& LaunchedKernel::first() {
    static const LaunchedKernel* head = nullptr;
    return head;
}

OPBRIDGE_ADAPTER void launch_kernel(Context& context, const DeviceFunction& function, const Dim3& grid, const Dim3& block,
                                    int64_t shared_bytes, void** arguments) {
    cuda::launch(context, function, grid, block, shared_bytes, arguments);
}

OPBRIDGE_ADAPTER void launch_elements(Context& context, const DeviceFunction& function, int64_t count, const void* arguments) {
    constexpr int64_t threads = 256;
    void* parameters[] = {const_cast<void*>(arguments)};
    cuda::launch(context, function, blocks_for(count, threads), threads, 0, parameters);
}

OPBRIDGE_ADAPTER void copy_to_host(Context& context, void* to, const void* from, int64_t count, size_t size) {
    if (count <= 0) return;
    const cuda::Driver& at = cuda::driver_for(context);
    auto* stream = static_cast<cuda::StreamObject*>(context.stream());
    at.check(at.copy_to_host(to, cuda::address(from), static_cast<size_t>(count) * size, stream), "copy to the host");
    at.check(at.synchronize(stream), "copy to the host");
}

OPBRIDGE_ADAPTER void copy_to_device(Context& context, void* to, const void* from, int64_t count, size_t size) {
    if (count <= 0) return;
    const cuda::Driver& at = cuda::driver_for(context);
    at.check(
        at.copy_to_device(cuda::address(to), from, static_cast<size_t>(count) * size, static_cast<cuda::StreamObject*>(context.stream())),
        "copy to the device");
}

OPBRIDGE_ADAPTER void set_zero(Context& context, void* to, int64_t count, size_t size) {
    if (count <= 0) return;
    const cuda::Driver& at = cuda::driver_for(context);
    at.check(at.set_bytes(cuda::address(to), 0, static_cast<size_t>(count) * size, static_cast<cuda::StreamObject*>(context.stream())),
             "set memory");
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
