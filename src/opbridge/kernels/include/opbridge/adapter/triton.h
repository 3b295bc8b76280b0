// Triton kernels: their arguments computed, and launched on CUDA devices, or handed to an interpreter on the CPU.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "../triton.h"
#include "cuda_driver.h"
#include "device_launch.h"
#include "expressions.h"

namespace opbridge OPBRIDGE_HIDDEN {
namespace detail {

// A parameter of a call, as it is shown to what runs kernels on the CPU.
struct TritonValue {
    const char* name;
    int32_t kind;  // 0: a tensor, 1: an integer, 2: a number, 3: a bool
    int32_t type;  // of a tensor's elements, in ONNX's numbers
    int32_t is_written;
    int64_t rank;
    const int64_t* sizes;
    void* data;
    int64_t integer;
    double number;
};

struct TritonCall {
    const char* kernel;
    const char* source;  // its file
    int64_t grid[3];
    int64_t count;
    const TritonValue* values;
};

// Returns null, or why it failed; the text is valid until the next call on this thread.
using TritonHost = const char* (*)(const TritonCall*);

inline TritonHost& triton_host() {
    static TritonHost host = nullptr;
    return host;
}

namespace triton_detail {

inline std::vector<Dim> computed(const TritonKernel& kernel, const Call& call, int32_t argument) {
    const std::string& text = call.arguments[static_cast<size_t>(argument)].attribute->text;
    return read_expressions(text, [&](const std::string& name, int64_t axis) {
        for (size_t i = 0; i < kernel.arguments; ++i) {
            const Tensor& tensor = call.arguments[i].tensor;
            if (name != kernel.argument_names[i] || axis >= tensor.rank) continue;
            return tensor.sizes ? Dim(tensor.sizes[axis]) : tensor.dims[axis];
        }
        throw std::invalid_argument("the attribute '" + text + "' names " + name + "[" + std::to_string(axis) +
                                    "], which is no size of an input");
    });
}

inline int64_t integer_of(const TritonKernel& kernel, const Call& call, const TritonParameter& parameter) {
    const Attribute& attribute = *call.arguments[static_cast<size_t>(parameter.place)].attribute;
    int64_t value = attribute.integer.known;
    if (!attribute.text.empty()) {
        const std::vector<Dim> found = computed(kernel, call, parameter.place);
        if (found.size() != 1) throw std::invalid_argument("the attribute '" + std::string(parameter.name) + "' is not one number");
        value = found[0].value();
    }
    const int bits = parameter.bytes * 8;
    const bool is_natural = parameter.kind == TritonKind::natural;
    const int64_t least = is_natural ? 0 : -(int64_t{1} << (bits - 1 < 63 ? bits - 1 : 62));
    if (bits < 64 && (value < least || value >= (int64_t{1} << (is_natural ? bits : bits - 1)))) {
        throw std::out_of_range("'" + std::string(parameter.name) + "' is " + std::to_string(value) + ", which " + std::to_string(bits) +
                                " bits do not hold. Export the model with an example of this size");
    }
    if (value % parameter.multiple != 0) {
        throw std::invalid_argument("'" + std::string(parameter.name) + "' is " + std::to_string(value) +
                                    ", but the kernel was compiled for multiples of " + std::to_string(parameter.multiple) +
                                    ". Export the model again");
    }
    return value;
}

struct Grid {
    int64_t blocks[3] = {1, 1, 1};
    bool is_empty = false;
};

inline Grid grid_of(const TritonKernel& kernel, const Call& call) {
    const std::vector<Dim> found = computed(kernel, call, kernel.grid);
    if (found.empty() || found.size() > 3) throw std::invalid_argument("the grid has not one, two or three dimensions");
    Grid grid;
    constexpr int64_t most[] = {INT32_MAX, 65535, 65535};
    for (size_t axis = 0; axis < found.size(); ++axis) {
        grid.blocks[axis] = found[axis].value();
        if (grid.blocks[axis] < 0 || grid.blocks[axis] > most[axis]) {
            throw std::out_of_range("the grid has " + std::to_string(grid.blocks[axis]) + " blocks in dimension " + std::to_string(axis) +
                                    ", and CUDA takes " + std::to_string(most[axis]));
        }
        grid.is_empty = grid.is_empty || grid.blocks[axis] == 0;
    }
    return grid;
}

inline size_t bytes_of(const Tensor& tensor) { return static_cast<size_t>(tensor.count) * size_of(tensor.type); }

// What a parameter points to.
inline void* address_of(const Call& call, const TritonParameter& parameter) {
    const size_t place = static_cast<size_t>(parameter.place);
    return parameter.kind == TritonKind::output ? call.results[place].data : call.arguments[place].tensor.data;
}

// The code of a kernel for a device.
struct LoadedTriton {
    cuda::FunctionObject* function = nullptr;
    unsigned threads = 0, shared = 0;
    size_t scratch = 0;  // pointers after the parameters
};

class TritonModules {
  public:
    const LoadedTriton& find(const TritonKernel& kernel) {
        const cuda::Driver& at = cuda::driver();
        cuda::ContextObject* context = nullptr;
        at.check(at.current_context(&context), "get the current context");
        const std::lock_guard<std::mutex> lock(mutex_);
        LoadedTriton& found = loaded_[{context, &kernel}];
        if (!found.function) load(at, kernel, found);
        return found;
    }

    static TritonModules& all() {
        static auto* modules = new TritonModules;
        return *modules;
    }

  private:
    static void load(const cuda::Driver& at, const TritonKernel& kernel, LoadedTriton& loaded) {
        const int capability = cuda::capability_of(at);
        const PackedImage* best = cuda::closest_image(kernel.program, capability);
        if (!best) {
            throw std::runtime_error("the library holds no code for this device, of compute capability " + std::to_string(capability / 10) +
                                     "." + std::to_string(capability % 10) + ". Export the model with --arch sm_" +
                                     std::to_string(capability));
        }
        const DeviceImage image = DeviceImage::unpacked(std::string(best->data, best->size));
        const auto number = [&](const char* name) {
            const std::string* text = image.symbol(name);
            if (!text) throw std::runtime_error("the device code has no " + std::string(name) + ". Export the model again");
            return static_cast<unsigned>(std::stoul(*text));
        };
        LoadedTriton made;
        made.threads = number(" threads");
        made.shared = number(" shared");
        made.scratch = number(" scratch");
        int device = 0;
        at.check(at.context_device(&device), "get the device");
        const int most = at.attribute(cuda::most_shared_memory, device);
        if (made.shared > static_cast<unsigned>(most)) {
            throw std::runtime_error("the kernel takes " + std::to_string(made.shared) + " bytes of shared memory, and the device has " +
                                     std::to_string(most) + " for a block. Export the model for this device, with --arch sm_" +
                                     std::to_string(capability));
        }
        const std::string* symbol = image.symbol(kernel.name);
        if (!symbol) throw std::runtime_error("the device code has no " + std::string(kernel.name) + ". Export the model again");
        at.check(at.find_function(&made.function, cuda::load_code(at, image), symbol->c_str()), "find the function " + *symbol);
        if (made.shared > 48 * 1024) {
            at.check(at.set_function_attribute(made.function, cuda::most_dynamic_shared_memory, static_cast<int>(made.shared)),
                     "reserve shared memory");
        }
        loaded = made;
    }

    std::mutex mutex_;
    std::map<std::pair<cuda::ContextObject*, const TritonKernel*>, LoadedTriton> loaded_;
};

}  // namespace triton_detail

OPBRIDGE_ADAPTER Shapes triton_shapes(const TritonKernel& kernel, Call& call) {
    std::vector<Shape> shapes;
    for (size_t i = 0; i < kernel.parameters; ++i) {
        const TritonParameter& parameter = kernel.parameter_list[i];
        if (parameter.kind != TritonKind::output) continue;
        if (parameter.initial >= 0) shapes.push_back(shape_of(call.arguments[static_cast<size_t>(parameter.initial)].tensor));
        else shapes.push_back(Shape(triton_detail::computed(kernel, call, parameter.shape)));
    }
    return Shapes(std::move(shapes));
}

OPBRIDGE_ADAPTER void run_triton(const TritonKernel& kernel, Call& call) {
    const TritonHost host = triton_host();
    if (!host) {
        throw std::invalid_argument(
            "this Triton kernel runs on CUDA devices only. Run the model with ONNX Runtime's CUDAExecutionProvider; opbridge.verify runs "
            "it "
            "on the CPU, in Triton's interpreter");
    }
    const triton_detail::Grid grid = triton_detail::grid_of(kernel, call);
    std::vector<TritonValue> values;
    for (size_t i = 0; i < kernel.parameters; ++i) {
        const TritonParameter& parameter = kernel.parameter_list[i];
        TritonValue value{};
        value.name = parameter.name;
        const size_t place = static_cast<size_t>(parameter.place);
        if (parameter.kind == TritonKind::tensor) {
            const Tensor& tensor = call.arguments[place].tensor;
            value.type = static_cast<int32_t>(tensor.type);
            value.rank = tensor.rank;
            value.sizes = tensor.sizes;
            value.data = tensor.data;
        } else if (parameter.kind == TritonKind::output) {
            Result& result = call.results[place];
            const size_t bytes = static_cast<size_t>(result.count) * size_of(result.type);
            if (parameter.initial >= 0) std::memcpy(result.data, call.arguments[static_cast<size_t>(parameter.initial)].tensor.data, bytes);
            else std::memset(result.data, 0, bytes);
            value.type = static_cast<int32_t>(result.type);
            value.is_written = 1;
            value.rank = static_cast<int64_t>(result.sizes.size());
            value.sizes = result.sizes.data();
            value.data = result.data;
        } else if (parameter.kind == TritonKind::integer || parameter.kind == TritonKind::natural) {
            value.kind = parameter.kind == TritonKind::natural && parameter.bytes == 1 ? 3 : 1;
            value.integer = triton_detail::integer_of(kernel, call, parameter);
        } else {
            value.kind = 2;
            value.number = call.arguments[place].attribute->number;
        }
        values.push_back(value);
    }
    if (grid.is_empty) return;
    const TritonCall shown{kernel.name,
                           cuda::program_of(kernel.program).source,
                           {grid.blocks[0], grid.blocks[1], grid.blocks[2]},
                           static_cast<int64_t>(values.size()),
                           values.data()};
    if (const char* failed = host(&shown)) throw std::runtime_error(failed);
}

OPBRIDGE_ADAPTER void launch_triton(const TritonKernel& kernel, Call& call) {
    const cuda::Driver& at = cuda::driver();
    cuda::enter_context(at, call.context->cuda_device());
    auto* stream = static_cast<cuda::StreamObject*>(call.context->stream());
    const triton_detail::Grid grid = triton_detail::grid_of(kernel, call);
    std::vector<uint64_t> values(kernel.parameters + 4, 0);  // each with the bytes that it has at its beginning
    std::vector<void*> addresses;
    for (size_t i = 0; i < kernel.parameters; ++i) {
        const TritonParameter& parameter = kernel.parameter_list[i];
        if (parameter.kind == TritonKind::integer || parameter.kind == TritonKind::natural) {
            values[i] = static_cast<uint64_t>(triton_detail::integer_of(kernel, call, parameter));
        } else if (parameter.kind == TritonKind::number) {
            const double number = call.arguments[static_cast<size_t>(parameter.place)].attribute->number;
            const float narrow = static_cast<float>(number);
            if (parameter.bytes == 4) std::memcpy(&values[i], &narrow, sizeof narrow);
            else std::memcpy(&values[i], &number, sizeof number);
        } else {
            void* address = triton_detail::address_of(call, parameter);
            if (parameter.kind == TritonKind::output && parameter.initial >= 0) {
                const Tensor& from = call.arguments[static_cast<size_t>(parameter.initial)].tensor;
                const size_t bytes = triton_detail::bytes_of(from);
                if (bytes > 0) {
                    at.check(at.copy(reinterpret_cast<uint64_t>(address), reinterpret_cast<uint64_t>(from.data), bytes, stream),
                             "copy '" + std::string(parameter.name) + "'");
                }
            }
            values[i] = reinterpret_cast<uint64_t>(address);
            if (values[i] % static_cast<uint64_t>(parameter.multiple) != 0) {  // a part of a tensor that the caller has
                if (parameter.kind == TritonKind::output) {
                    throw std::invalid_argument("the address of '" + std::string(parameter.name) + "' is not a multiple of " +
                                                std::to_string(parameter.multiple) + ". Bind an output that is");
                }
                const size_t bytes = triton_detail::bytes_of(call.arguments[static_cast<size_t>(parameter.place)].tensor);
                const auto aligned = reinterpret_cast<uint64_t>(call.context->scratch<char>(static_cast<int64_t>(bytes)));
                if (bytes > 0) at.check(at.copy(aligned, values[i], bytes, stream), "copy '" + std::string(parameter.name) + "'");
                values[i] = aligned;
            }
        }
        addresses.push_back(&values[i]);
    }
    if (grid.is_empty) return;
    const triton_detail::LoadedTriton& loaded = triton_detail::TritonModules::all().find(kernel);
    for (size_t i = 0; i < loaded.scratch && i < 4; ++i) addresses.push_back(&values[kernel.parameters + i]);
    at.check(at.launch(loaded.function, static_cast<unsigned>(grid.blocks[0]), static_cast<unsigned>(grid.blocks[1]),
                       static_cast<unsigned>(grid.blocks[2]), loaded.threads, 1, 1, loaded.shared, stream, addresses.data(), nullptr),
             "launch a kernel");
}

}  // namespace detail
}  // namespace opbridge

// Has Triton kernels that are called on the CPU run by a function; null: none.
extern "C" OPBRIDGE_ENTRY void opbridge_triton_host(opbridge::detail::TritonHost host) { opbridge::detail::triton_host() = host; }
