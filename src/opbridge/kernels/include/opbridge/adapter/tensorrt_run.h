// One call of a kernel in TensorRT: its tensors, its outputs' memory, and scratch memory in the order of the stream.
#pragma once

#include <cstdint>
#include <deque>
#include <stdexcept>
#include <string>
#include <vector>

#include "cuda_driver.h"
#include "nodes.h"
#include "operator.h"
#include "shared_library.h"
#include "tensorrt_api.h"

namespace opbridge OPBRIDGE_HIDDEN {
namespace tensorrt {

using namespace detail;

inline Type type_of(DataType type) {
    switch (type) {
        case DataType::kFLOAT: return Type::float32;
        case DataType::kHALF: return Type::float16;
        case DataType::kBF16: return Type::bfloat16;
        case DataType::kINT8: return Type::int8;
        case DataType::kINT32: return Type::int32;
        case DataType::kINT64: return Type::int64;
        default: return Type::any;
    }
}

// TensorRT's number of a type; false for those that its plug-ins do not support, bool among them.
inline bool to_tensorrt(Type type, DataType& found) {
    for (int32_t number = 0; number <= static_cast<int32_t>(DataType::kINT64); ++number) {
        found = static_cast<DataType>(number);
        if (type != Type::any && type_of(found) == type) return true;
    }
    return false;
}

// Sets the tensors of a call. read(input, tensor) describes an input; false: it was left out.
template <class Read>
void set_tensors(const Schema& schema, const InputLayout& layout, Call& call, size_t given, Read&& read) {
    layout.each(schema, given, [&](size_t index, size_t input, size_t length) {
        Argument& argument = call.arguments[index];
        const ArgumentSchema& declared = schema.arguments[index];
        if (declared.kind == Kind::tensor) {
            argument.given = input < given && read(input, argument.tensor);
            if (!argument.given && !declared.optional) throw std::invalid_argument("the input '" + declared.name + "' is missing");
            return;
        }
        argument.given = true;
        argument.tensors.resize(length);
        for (size_t i = 0; i < length; ++i) {
            if (!read(input + i, argument.tensors[i]))
                throw std::invalid_argument("a tensor of the list '" + declared.name + "' is missing");
        }
    });
}

// A tensor without sizes is one that was left out.
inline bool describe(const PluginTensorDesc& from, const void* data, Tensor& to) {
    if (from.dims.nbDims < 0) return false;
    to.type = type_of(from.type);
    to.rank = from.dims.nbDims;
    to.sizes = from.dims.d;
    to.count = 1;
    for (int64_t axis = 0; axis < to.rank; ++axis) to.count *= from.dims.d[axis];
    to.data = const_cast<void*>(data);
    return true;
}

inline Shape shape_of(const Dims& dims) { return Shape(dims.d, dims.nbDims); }

// Memory of the device that is allocated and freed in the order of a stream's work.
struct StreamMemory {
    int (*allocate)(uintptr_t* memory, size_t bytes, cuda::StreamObject* stream) = nullptr;
    int (*free)(uintptr_t memory, cuda::StreamObject* stream) = nullptr;

    static const StreamMemory& find() {
        static const StreamMemory found = [] {
            const char* named = std::getenv("OPBRIDGE_LIBCUDA");
#if defined(_WIN32)
            const char* usual = "nvcuda.dll";
#else
            const char* usual = "libcuda.so.1";
#endif
            void* library = load_library(named && *named ? named : usual);
            StreamMemory memory;
            memory.allocate = reinterpret_cast<decltype(memory.allocate)>(library ? find_symbol(library, "cuMemAllocAsync") : nullptr);
            memory.free = reinterpret_cast<decltype(memory.free)>(library ? find_symbol(library, "cuMemFreeAsync") : nullptr);
            return memory;
        }();
        if (!found.allocate || !found.free) {
            throw std::runtime_error(
                "this kernel needs scratch memory, and the CUDA driver has no cuMemAllocAsync. Install a newer driver");
        }
        return found;
    }
};

class TensorRtRuntime final : public Runtime {
  public:
    TensorRtRuntime(const PluginTensorDesc* described, void* const* outputs, size_t count, cudaStream_t stream)
        : described_(described), outputs_(outputs), count_(count), stream_(reinterpret_cast<cuda::StreamObject*>(stream)) {
        const cuda::Driver& at = cuda::driver();
        cuda::ContextObject* context = nullptr;
        at.check(at.current_context(&context), "get the current context");
        int device = 0;
        if (context) at.check(at.context_device(&device), "get the device");
        device_ = device;
    }
    ~TensorRtRuntime() {
        for (uintptr_t memory : scratch_) StreamMemory::find().free(memory, stream_);
    }
    TensorRtRuntime(const TensorRtRuntime&) = delete;
    TensorRtRuntime& operator=(const TensorRtRuntime&) = delete;

    // TensorRT has computed the sizes before, by the expressions that it was given.
    void* allocate_output(int index, Type type, const int64_t* sizes, int64_t rank) override {
        const auto place = static_cast<size_t>(index);
        if (place >= count_) throw std::logic_error("the node has fewer outputs than the operator returns tensors here");
        const Shape found(sizes, rank), expected = shape_of(described_[place].dims);
        if (found != expected || type_of(described_[place].type) != type) {
            throw std::logic_error("output " + std::to_string(index) + " is " + opbridge::name_of(type) + " " + to_string(found) +
                                   ", but TensorRT expects " + opbridge::name_of(type_of(described_[place].type)) + " " +
                                   to_string(expected));
        }
        return outputs_[place];
    }

    void* allocate_scratch(size_t bytes) override {
        uintptr_t memory = 0;
        cuda::driver().check(StreamMemory::find().allocate(&memory, bytes, stream_), "allocate scratch memory");
        scratch_.push_back(memory);
        return reinterpret_cast<void*>(memory);
    }

    // Has the elements of the tensors that the host reads copied there, after what is on the stream has been done.
    void copy_to_host(const Operator& op, Call& call) {
        const cuda::Driver& at = cuda::driver();
        for (size_t i = 0; i < call.arguments.size(); ++i) {
            Tensor& tensor = call.arguments[i].tensor;
            if (!op.reads_on_host(i) || !call.arguments[i].given || tensor.count == 0) continue;
            std::vector<char>& copy = copies_.emplace_back(static_cast<size_t>(tensor.count) * size_of(tensor.type));
            at.check(at.copy_to_host(copy.data(), reinterpret_cast<uintptr_t>(tensor.data), copy.size(), stream_),
                     "copy the input '" + op.schema.arguments[i].name + "' to the host");
            tensor.data = copy.data();
        }
        if (!copies_.empty()) at.check(at.synchronize(stream_), "copy inputs to the host");
    }

    void run(int64_t pieces, void (*piece)(void*, int64_t), void* data) override {
        for (int64_t i = 0; i < pieces; ++i) piece(data, i);
    }

    int64_t threads() override { return 1; }
    void* stream() override { return stream_; }
    int64_t cuda_device() override { return device_; }

  private:
    const PluginTensorDesc* described_;
    void* const* outputs_;
    size_t count_;
    cuda::StreamObject* stream_;
    int64_t device_ = 0;
    std::vector<uintptr_t> scratch_;
    std::deque<std::vector<char>> copies_;
};

}  // namespace tensorrt
}  // namespace opbridge
