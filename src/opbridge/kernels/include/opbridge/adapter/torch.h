// Kernels as operators of PyTorch, through libtorch's stable C interface.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include "guarded.h"
#include "handover.h"
#include "libtorch.h"
#include "operator.h"
#include "torch_cuda.h"

namespace opbridge OPBRIDGE_HIDDEN {
namespace torch {

using namespace detail;

// Finds the interface in the libtorch at a path, which is loaded.
inline void load(const char* path) {
#if defined(_WIN32)
    void* library = GetModuleHandleA(path);
#else
    void* library = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
#endif
    if (!library) throw std::runtime_error(std::string("libtorch is not loaded from ") + path);
    connect(library, "kernels");
    RuntimeFiles::add(path);
}

// An empty row-major tensor on a device: of torch's number for the CPU, or for CUDA.
inline OwnedTensor empty(const int64_t* sizes, int64_t rank, int32_t dtype, const TorchDevice& device) {
    const std::vector<int64_t> strides = row_major_strides(sizes, static_cast<size_t>(rank));
    TensorObject* made = nullptr;
    check(libtorch().aoti_torch_empty_strided(rank, sizes, strides.data(), dtype, device.type, device.index, &made));
    return OwnedTensor(made);
}

class TorchRuntime final : public Runtime {
  public:
    std::vector<OwnedTensor> results;

    explicit TorchRuntime(const TorchDevice& device) : device_(device) {}

    ~TorchRuntime() {
        for (void* memory : scratch_) std::free(memory);
    }

    void* allocate_output(int index, Type type, const int64_t* sizes, int64_t rank) override {
        if (results.size() <= static_cast<size_t>(index)) results.resize(static_cast<size_t>(index) + 1);
        OwnedTensor& result = results[static_cast<size_t>(index)];
        result = empty(sizes, rank, dtypes().of_onnx[static_cast<int32_t>(type)], device_);
        void* data = nullptr;
        check(libtorch().aoti_torch_get_data_ptr(result.get(), &data));
        return data;
    }

    void* allocate_scratch(size_t bytes) override {
        if (device_.is_cuda()) return allocate_scratch_on_cuda(bytes);
        void* found = std::malloc(bytes + 63);
        if (!found) throw std::bad_alloc();
        scratch_.push_back(found);
        return reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(found) + 63) & ~uintptr_t{63});
    }

    void run(int64_t pieces, void (*piece)(void*, int64_t), void* data) override {
        struct Work {
            void (*piece)(void*, int64_t);
            void* data;
        } work{piece, data};
        const auto some = [](int64_t begin, int64_t end, void* given) {
            detail::take_over(given);
            const Work& work = *static_cast<Work*>(given);
            for (int64_t i = begin; i < end; ++i) work.piece(work.data, i);
            detail::hand_over(given);
        };
        detail::hand_over(&work);
        check(libtorch().torch_parallel_for(0, pieces, 1, some, &work));
        detail::take_over(&work);
    }

    int64_t threads() override {
        uint32_t count = 1;
        check(libtorch().torch_get_num_threads(&count));
        return count;
    }

    void* stream() override { return device_.is_cuda() ? cuda_functions().stream_of(device_) : nullptr; }
    int64_t cuda_device() override { return device_.is_cuda() ? device_.index : -1; }

  private:
    // A tensor's memory: its allocator has it wait for what is on the stream before it is used again.
    void* allocate_scratch_on_cuda(size_t bytes) {
        const int64_t sizes[] = {static_cast<int64_t>(bytes)};
        scratch_on_cuda_.push_back(empty(sizes, 1, dtypes().of_onnx[static_cast<int32_t>(Type::uint8)], device_));
        void* data = nullptr;
        check(libtorch().aoti_torch_get_data_ptr(scratch_on_cuda_.back().get(), &data));
        return data;
    }

    TorchDevice device_;
    std::vector<void*> scratch_;
    std::vector<OwnedTensor> scratch_on_cuda_;
};

// Reads the arguments of a call from libtorch's stack. What is on it is the callee's to delete.
class StackReader {
  public:
    // With `on_cuda`, some tensor is on a CUDA device; otherwise all are on the CPU.
    explicit StackReader(bool on_cuda) : on_cuda_(on_cuda) {}

    // The device of the tensors that have been read.
    const TorchDevice& device() const { return device_; }

    // With `on_host`, its elements are on the CPU then, wherever they are.
    Tensor tensor(StableValue value, bool on_host) {
        OwnedTensor owned(reinterpret_cast<TensorObject*>(value));
        const Libtorch& at = libtorch();
        if (on_cuda_ && !on_host) check_device(owned.get());
        Tensor tensor;
        int32_t type = 0;
        bool contiguous = false;
        int64_t* sizes = nullptr;
        check(at.aoti_torch_get_dtype(owned.get(), &type));
        check(at.aoti_torch_get_dim(owned.get(), &tensor.rank));
        check(at.aoti_torch_get_sizes(owned.get(), &sizes));
        check(at.aoti_torch_get_numel(owned.get(), &tensor.count));
        check(at.aoti_torch_is_contiguous(owned.get(), &contiguous));
        bool is_complex = false;
        const int32_t onnx = dtypes().onnx_of(type, &is_complex);
        tensor.type = is_complex ? Type::any : static_cast<Type>(onnx);
        const bool to_host = on_cuda_ && on_host && TorchDevice::of(owned.get()).is_cuda();
        if (!contiguous || to_host) {
            OwnedTensor copy = empty(sizes, tensor.rank, type, on_host ? TorchDevice() : device_);
            check(at.aoti_torch_copy_(copy.get(), owned.get(), 0));
            owned = std::move(copy);
            check(at.aoti_torch_get_sizes(owned.get(), &sizes));
        }
        tensor.sizes = sizes;
        check(at.aoti_torch_get_data_ptr(owned.get(), &tensor.data));
        owned_.push_back(std::move(owned));
        return tensor;
    }

    void attribute(StableValue value, Kind kind, Attribute& result) {
        const Libtorch& at = libtorch();
        result.given = true;
        switch (kind) {
            case Kind::integer: result.integer = static_cast<int64_t>(value); break;
            case Kind::boolean: result.integer = (value & 1) != 0; break;
            case Kind::number: result.number = number(value); break;
            case Kind::text: {
                auto* object = reinterpret_cast<StringObject*>(value);
                const char* data = nullptr;
                size_t length = 0;
                check(at.torch_string_length(object, &length));
                check(at.torch_string_c_str(object, &data));
                result.text.assign(data, length);
                check(at.torch_delete_string(object));
                break;
            }
            case Kind::integers: each(value, [&](StableValue item) { result.integers.push_back(static_cast<int64_t>(item)); }); break;
            default: each(value, [&](StableValue item) { result.numbers.push_back(number(item)); });
        }
    }

    template <class Body>
    void each(StableValue value, Body&& body) {
        const Libtorch& at = libtorch();
        auto* list = reinterpret_cast<ListObject*>(value);
        const std::unique_ptr<ListObject, void (*)(ListObject*)> owned(list, [](ListObject* list) { libtorch().torch_delete_list(list); });
        size_t size = 0;
        check(at.torch_list_size(list, &size));
        for (size_t i = 0; i < size; ++i) {
            StableValue item = 0;
            check(at.torch_list_get_item(list, i, &item));
            body(item);
        }
    }

  private:
    static double number(StableValue value) {
        double result;
        std::memcpy(&result, &value, sizeof result);
        return result;
    }

    // The first tensor's device becomes the current one until the call ends; the others must be there too.
    void check_device(TensorObject* tensor) {
        const TorchDevice found = TorchDevice::of(tensor);
        if (!has_device_) {
            has_device_ = true;
            device_ = found;
            if (found.is_cuda()) guard_ = cuda_functions().guard_for(found);
        } else if (found.type != device_.type || found.index != device_.index) {
            throw std::invalid_argument("the tensors are on " + device_.name() + " and on " + found.name() + ". Move them to one device");
        }
    }

    bool on_cuda_;
    bool has_device_ = false;
    TorchDevice device_;
    CudaGuard guard_;
    std::vector<OwnedTensor> owned_;
};

// The tensors from a place on, as a list of libtorch's, which is the caller's to delete.
inline ListObject* list_of(std::vector<OwnedTensor>& tensors, size_t begin) {
    const Libtorch& at = libtorch();
    ListObject* list = nullptr;
    check(at.torch_new_list_reserve_size(tensors.size() - begin, &list));
    std::unique_ptr<ListObject, void (*)(ListObject*)> owned(list, [](ListObject* list) { libtorch().torch_delete_list(list); });
    for (size_t i = begin; i < tensors.size(); ++i) {
        check(at.torch_list_push_back(list, reinterpret_cast<StableValue>(tensors[i].release())));
    }
    return owned.release();
}

// One call from libtorch.
inline void run(const Operator& op, StableValue* stack, bool on_cuda) {
    const Schema& schema = op.schema;
    Call call;
    StackReader reader(on_cuda);
    call.arguments.resize(schema.arguments.size());
    std::vector<Attribute> attributes(schema.arguments.size());
    for (size_t i = 0; i < schema.arguments.size(); ++i) {
        const ArgumentSchema& declared = schema.arguments[i];
        Argument& argument = call.arguments[i];
        argument.attribute = &attributes[i];
        StableValue value = stack[i];
        if (declared.optional) {
            auto* held = reinterpret_cast<StableValue*>(value);
            if (!held) continue;
            value = *held;
            check(libtorch().torch_delete_stable_ivalue(held));
        }
        argument.given = true;
        if (declared.kind == Kind::tensor) argument.tensor = reader.tensor(value, op.reads_on_host(i));
        else if (declared.kind == Kind::tensors)
            reader.each(value, [&](StableValue item) { argument.tensors.push_back(reader.tensor(item, false)); });
        else reader.attribute(value, declared.kind, attributes[i]);
    }
    TorchRuntime runtime(reader.device());
    op.run(call, runtime);
    const size_t single = schema.single_returns();
    for (size_t i = 0; i < single; ++i) stack[i] = reinterpret_cast<StableValue>(runtime.results[i].release());
    if (schema.returns_list) stack[single] = reinterpret_cast<StableValue>(list_of(runtime.results, single));
}

}  // namespace torch

namespace detail {

// What libtorch calls. Its caller turns an exception into Python's, by its message.
OPBRIDGE_ADAPTER void enter_from_torch(const Operator& op, uint64_t* stack, bool on_cuda) {
    std::string error;
    const auto report = [&](Thrown, const char* message) { error = op.error_message(message); };
    if (!guarded([&] { torch::run(op, stack, on_cuda); }, report)) throw std::runtime_error(error);
}

}  // namespace detail

namespace torch {

inline std::vector<LibraryObject*>& registered() {
    static std::vector<LibraryObject*> libraries;
    return libraries;
}

// Defines the library's operators in libtorch.
inline void register_operators() {
    const Libtorch& at = libtorch();
    const int32_t tag = at.torch_tag_pt2_compliant_tag();
    for (const Operator* op = Operator::first(); op; op = op->next) {
        if (!op->problem.empty()) throw std::invalid_argument(op->problem);
        const char* domain = op->schema.domain.c_str();
        LibraryObject* library = nullptr;
        check(at.aoti_torch_library_init_fragment(domain, "opbridge", 0, &library));
        registered().push_back(library);
        check(at.torch_library_def_with_tags(library, op->schema.text.c_str(), &tag, 1));
        const auto implement = [&](const char* key, TorchEntry entry) {
            LibraryObject* implementation = nullptr;
            check(at.aoti_torch_library_init_impl(domain, key, "opbridge", 0, &implementation));
            registered().push_back(implementation);
            check(at.torch_library_impl(implementation, op->schema.operator_name().c_str(), entry, interface_version));
        };
        implement("CPU", op->torch_entries.cpu);
        if (op->has_launch()) implement("CUDA", op->torch_entries.cuda);
    }
}

inline void unregister_operators() {
    while (!registered().empty()) {
        libtorch().aoti_torch_delete_library_object(registered().back());
        registered().pop_back();
    }
}

}  // namespace torch
}  // namespace opbridge
