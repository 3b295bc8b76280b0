// One node: its attributes, read when a session is made, and its calls.
#pragma once

#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "handover.h"
#include "operator.h"
#include "ort_attributes.h"
#include "nodes.h"
#include "ort_calls.h"

namespace opbridge OPBRIDGE_HIDDEN {
namespace ort {

using namespace detail;

class OrtRuntime final : public Runtime {
  public:
    // On the device that has an input, for a node of the CUDA execution provider.
    OrtRuntime(const OrtApi* api, OrtKernelContext* context, bool on_cuda, size_t input) : api_(api), context_(context) {
        if (!on_cuda) return;
        const OrtValue* value = nullptr;
        const OrtMemoryInfo* memory = nullptr;
        int32_t device = 0;
        call(api_, KernelContext_GetInput, static_cast<const OrtKernelContext*>(context_), input, &value);
        if (value) {
            call(api_, GetTensorMemoryInfo, value, &memory);
            call(api_, MemoryInfoGetId, memory, &device);
        }
        cuda_device_ = device;
    }
    ~OrtRuntime() {
        for (void* memory : scratch_) succeeds(api_, AllocatorFree, allocator_, memory);
        if (allocator_) function(api_, ReleaseAllocator)(allocator_);
        if (memory_) function(api_, ReleaseMemoryInfo)(memory_);
    }

    void* allocate_output(int index, Type type, const int64_t* sizes, int64_t rank) override {
        OrtValue* value = nullptr;
        call(api_, KernelContext_GetOutput, context_, static_cast<size_t>(index), sizes, static_cast<size_t>(rank), &value);
        if (value) return data_of(api_, value);
        // Nobody reads this output, so ONNX Runtime has no memory for it; the kernel writes it all the same.
        size_t bytes = size_of(type);
        for (int64_t axis = 0; axis < rank; ++axis) bytes *= static_cast<size_t>(sizes[axis]);
        return allocate_scratch(bytes);
    }

    void* allocate_scratch(size_t bytes) override {
        if (!allocator_) {
            if (cuda_device_ < 0) call(api_, CreateCpuMemoryInfo, 1, 0, &memory_);
            else call(api_, CreateMemoryInfo, "Cuda", 1, static_cast<int32_t>(cuda_device_), 0, &memory_);
            call(api_, KernelContext_GetAllocator, context_, memory_, &allocator_);
        }
        void* found = nullptr;
        call(api_, AllocatorAlloc, allocator_, bytes + 63, &found);
        scratch_.push_back(found);
        return reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(found) + 63) & ~uintptr_t{63});
    }

    void run(int64_t pieces, void (*piece)(void*, int64_t), void* data) override {
        struct Work {
            void (*piece)(void*, int64_t);
            void* data;
        } work{piece, data};
        const auto one = [](void* given, size_t index) {
            detail::take_over(given);
            const Work& work = *static_cast<Work*>(given);
            work.piece(work.data, static_cast<int64_t>(index));
            detail::hand_over(given);
        };
        detail::hand_over(&work);
        call(api_, KernelContext_ParallelFor, context_, one, static_cast<size_t>(pieces), size_t{0}, static_cast<void*>(&work));
        detail::take_over(&work);
    }

    // ONNX Runtime does not tell how many threads its pool has; no more than this work at once.
    int64_t threads() override {
        static const int64_t count = std::thread::hardware_concurrency();
        return count > 0 ? count : 1;
    }

    void* stream() override {
        void* stream = nullptr;
        return succeeds(api_, KernelContext_GetGPUComputeStream, context_, &stream) ? stream : nullptr;
    }

    int64_t cuda_device() override { return cuda_device_; }

  private:
    const OrtApi* api_;
    OrtKernelContext* context_;
    int64_t cuda_device_ = -1;
    OrtMemoryInfo* memory_ = nullptr;
    OrtAllocator* allocator_ = nullptr;
    std::vector<void*> scratch_;
};

inline Attribute read_attribute(const OrtApi* api, const OrtKernelInfo* info, const ArgumentSchema& declared) {
    const char* name = declared.name.c_str();
    Attribute value;
    switch (declared.kind) {
        case Kind::integer:
        case Kind::boolean: value.given = read(api, info, name, value.integer.known); break;
        case Kind::number: {
            float number = 0;
            std::vector<double> numbers;
            value.given = succeeds(api, KernelInfoGetAttribute_float, info, name, &number);
            value.number = number;
            if (!value.given && read(api, info, name, numbers) && numbers.size() == 1) {
                value.given = true;
                value.number = numbers[0];
            }
            break;
        }
        case Kind::text: value.given = read(api, info, name, value.text); break;
        case Kind::integers: value.given = read(api, info, name, value.integers); break;
        default: {
            // In this order: ONNX Runtime reads a tensor as an empty list.
            std::vector<float> numbers;
            value.given = read(api, info, name, value.numbers);
            if (value.given) break;
            value.given = read(api, info, name, numbers);
            value.numbers.assign(numbers.begin(), numbers.end());
        }
    }
    return value;
}

struct Kernel {
    const OrtApi* api;
    const Operator* op;
    bool on_cuda;
    std::vector<Attribute> attributes;
    InputLayout layout;

    Kernel(const OrtApi* api, const Operator* op, const OrtKernelInfo* info, bool on_cuda) : api(api), op(op), on_cuda(on_cuda) {
        for (const ArgumentSchema& declared : op->schema.arguments) {
            attributes.push_back(is_tensor(declared.kind) ? Attribute() : with_default(read_attribute(api, info, declared), declared));
        }
        layout = InputLayout::read(op->schema, [&](const char* name, int64_t* length) { return read(api, info, name, *length); });
    }

    void compute(OrtKernelContext* context) const {
        const Schema& schema = op->schema;
        Call call;
        call.arguments.resize(schema.arguments.size());
        size_t given = 0;
        ort::call(api, KernelContext_GetInputCount, context, &given);
        std::vector<std::vector<int64_t>> copies;
        size_t on_device = given;  // the first input that is on the device of the node
        const auto read = [&](size_t input, Tensor& tensor) {
            const OrtValue* value = nullptr;
            if (input < given) ort::call(api, KernelContext_GetInput, context, input, &value);
            if (!value) return false;
            std::vector<int64_t> copy;
            const TensorDescription found = describe_tensor(api, value, copy);
            if (!copy.empty()) copies.push_back(std::move(copy));
            tensor.type = static_cast<Type>(found.type);
            tensor.rank = static_cast<int64_t>(found.rank);
            tensor.sizes = found.sizes;
            tensor.count = 1;
            for (size_t axis = 0; axis < found.rank; ++axis) tensor.count *= found.sizes[axis];
            tensor.data = data_of(api, value);
            return true;
        };
        layout.each(schema, given, [&](size_t index, size_t input, size_t length) {
            Argument& argument = call.arguments[index];
            const ArgumentSchema& declared = schema.arguments[index];
            if (declared.kind == Kind::tensor) {
                argument.given = read(input, argument.tensor);
                if (argument.given && on_device == given && !op->reads_on_host(index)) on_device = input;
                if (!argument.given && !declared.optional) throw std::invalid_argument("the input '" + declared.name + "' is missing");
                return;
            }
            argument.given = true;
            argument.tensors.resize(length);
            if (length > 0 && on_device == given) on_device = input;
            for (size_t i = 0; i < length; ++i) {
                if (!read(input + i, argument.tensors[i]))
                    throw std::invalid_argument("a tensor of the list '" + declared.name + "' is missing");
            }
        });
        for (size_t i = 0; i < call.arguments.size(); ++i) {
            if (is_tensor(schema.arguments[i].kind)) continue;
            call.arguments[i].given = attributes[i].given;
            call.arguments[i].attribute = &attributes[i];
        }
        OrtRuntime runtime(api, context, on_cuda, on_device == given ? 0 : on_device);
        op->run(call, runtime);
        if (!schema.returns_list) return;
        size_t outputs = 0;
        ort::call(api, KernelContext_GetOutputCount, context, &outputs);
        if (outputs != call.results.size()) {
            throw std::invalid_argument("the node has " + std::to_string(outputs) + " outputs, and the operator returns " +
                                        std::to_string(call.results.size()) + " tensors here");
        }
    }
};

}  // namespace ort
}  // namespace opbridge
