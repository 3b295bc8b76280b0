// Kernels as operators of PyTorch, through libtorch's stable C interface, which is looked up when the library is registered: it also
// loads where there is no libtorch.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#if defined(_WIN32)
#include <windows.h>
#else
#include <dlfcn.h>
#endif

#include "guarded.h"
#include "operator.h"

namespace opbridge OPBRIDGE_HIDDEN {
namespace torch {

using namespace detail;

struct TensorObject;
struct ListObject;
struct StringObject;
struct LibraryObject;

constexpr uint64_t interface_version = (uint64_t{2} << 56) | (uint64_t{13} << 48);  // of torch 2.13, whose interface this is

// Functions of the interface, which return zero where all went well.
struct Interface {
    int32_t (*aoti_torch_get_data_ptr)(TensorObject*, void**);
    int32_t (*aoti_torch_get_dim)(TensorObject*, int64_t*);
    int32_t (*aoti_torch_get_sizes)(TensorObject*, int64_t**);
    int32_t (*aoti_torch_get_numel)(TensorObject*, int64_t*);
    int32_t (*aoti_torch_get_dtype)(TensorObject*, int32_t*);
    int32_t (*aoti_torch_is_contiguous)(TensorObject*, bool*);
    int32_t (*aoti_torch_empty_strided)(int64_t, const int64_t*, const int64_t*, int32_t, int32_t, int32_t, TensorObject**);
    int32_t (*aoti_torch_copy_)(TensorObject*, TensorObject*, int32_t);
    int32_t (*aoti_torch_delete_tensor_object)(TensorObject*);
    int32_t (*torch_delete_stable_ivalue)(StableValue*);
    int32_t (*torch_list_size)(ListObject*, size_t*);
    int32_t (*torch_list_get_item)(ListObject*, size_t, StableValue*);
    int32_t (*torch_delete_list)(ListObject*);
    int32_t (*torch_string_length)(StringObject*, size_t*);
    int32_t (*torch_string_c_str)(StringObject*, const char**);
    int32_t (*torch_delete_string)(StringObject*);
    int32_t (*torch_parallel_for)(int64_t, int64_t, int64_t, void (*)(int64_t, int64_t, void*), void*);
    int32_t (*torch_get_num_threads)(uint32_t*);
    const char* (*torch_exception_get_what_without_backtrace)();
    int32_t (*aoti_torch_library_init_fragment)(const char*, const char*, uint32_t, LibraryObject**);
    int32_t (*aoti_torch_library_init_impl)(const char*, const char*, const char*, uint32_t, LibraryObject**);
    int32_t (*torch_library_def_with_tags)(LibraryObject*, const char*, const int32_t*, int32_t);
    int32_t (*torch_library_impl)(LibraryObject*, const char*, void (*)(StableValue*, uint64_t, uint64_t), uint64_t);
    int32_t (*aoti_torch_delete_library_object)(LibraryObject*);
    int32_t (*torch_tag_pt2_compliant_tag)();
    int32_t types[17] = {};  // torch's numbers by ONNX's; -1 where no kernel takes the type
};

inline Interface& interface() {
    static Interface found;
    return found;
}

inline void check(int32_t failure) {
    if (failure == 0) return;
    const char* words = interface().torch_exception_get_what_without_backtrace();
    throw std::runtime_error(words && *words ? words : "libtorch reports an error");
}

class Loader {
  public:
    explicit Loader(const char* path) {
#if defined(_WIN32)
        library_ = GetModuleHandleA(path);
#else
        library_ = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
#endif
        if (!library_) throw std::runtime_error(std::string("libtorch is not loaded from ") + path);
    }

    template <class Function>
    void find(Function*& function, const char* name) const {
#if defined(_WIN32)
        void* found = reinterpret_cast<void*>(GetProcAddress(static_cast<HMODULE>(library_), name));
#else
        void* found = dlsym(library_, name);
#endif
        if (!found) throw std::runtime_error(std::string("this libtorch has no ") + name + "; kernels need torch 2.13 or newer");
        function = reinterpret_cast<Function*>(found);
    }

  private:
    void* library_;
};

inline void load(const char* path) {
    Interface& at = interface();
    const Loader loader(path);
#define OPBRIDGE_FIND(name) loader.find(at.name, #name)
    OPBRIDGE_FIND(aoti_torch_get_data_ptr);
    OPBRIDGE_FIND(aoti_torch_get_dim);
    OPBRIDGE_FIND(aoti_torch_get_sizes);
    OPBRIDGE_FIND(aoti_torch_get_numel);
    OPBRIDGE_FIND(aoti_torch_get_dtype);
    OPBRIDGE_FIND(aoti_torch_is_contiguous);
    OPBRIDGE_FIND(aoti_torch_empty_strided);
    OPBRIDGE_FIND(aoti_torch_copy_);
    OPBRIDGE_FIND(aoti_torch_delete_tensor_object);
    OPBRIDGE_FIND(torch_delete_stable_ivalue);
    OPBRIDGE_FIND(torch_list_size);
    OPBRIDGE_FIND(torch_list_get_item);
    OPBRIDGE_FIND(torch_delete_list);
    OPBRIDGE_FIND(torch_string_length);
    OPBRIDGE_FIND(torch_string_c_str);
    OPBRIDGE_FIND(torch_delete_string);
    OPBRIDGE_FIND(torch_parallel_for);
    OPBRIDGE_FIND(torch_get_num_threads);
    OPBRIDGE_FIND(torch_exception_get_what_without_backtrace);
    OPBRIDGE_FIND(aoti_torch_library_init_fragment);
    OPBRIDGE_FIND(aoti_torch_library_init_impl);
    OPBRIDGE_FIND(torch_library_def_with_tags);
    OPBRIDGE_FIND(torch_library_impl);
    OPBRIDGE_FIND(aoti_torch_delete_library_object);
    OPBRIDGE_FIND(torch_tag_pt2_compliant_tag);
#undef OPBRIDGE_FIND
    for (int32_t& type : at.types) type = -1;
    for (Type type : {Type::float32, Type::uint8, Type::int8, Type::uint16, Type::int16, Type::int32, Type::int64, Type::boolean,
                      Type::float16, Type::float64, Type::uint32, Type::uint64, Type::bfloat16}) {
        int32_t (*number)() = nullptr;
        loader.find(number, (std::string("aoti_torch_dtype_") + opbridge::name_of(type)).c_str());
        at.types[static_cast<int32_t>(type)] = number();
    }
}

inline Type type_numbered(int32_t number) {
    for (int32_t type = 0; type < 17; ++type) {
        if (interface().types[type] == number) return static_cast<Type>(type);
    }
    return Type::any;
}

// A tensor that is ours to delete.
class Owned {
  public:
    explicit Owned(TensorObject* tensor = nullptr) : tensor_(tensor) {}
    Owned(Owned&& other) noexcept : tensor_(other.release()) {}
    Owned& operator=(Owned&& other) noexcept {
        std::swap(tensor_, other.tensor_);
        return *this;
    }
    ~Owned() {
        if (tensor_) interface().aoti_torch_delete_tensor_object(tensor_);
    }
    TensorObject* get() const { return tensor_; }
    TensorObject* release() {
        TensorObject* tensor = tensor_;
        tensor_ = nullptr;
        return tensor;
    }

  private:
    TensorObject* tensor_;
};

// An empty row-major tensor on the CPU.
inline Owned empty(const int64_t* sizes, int64_t rank, int32_t type) {
    std::vector<int64_t> strides(static_cast<size_t>(rank));
    int64_t step = 1;
    for (int64_t axis = rank - 1; axis >= 0; --axis) {
        strides[static_cast<size_t>(axis)] = step;
        step *= sizes[axis] > 1 ? sizes[axis] : 1;
    }
    TensorObject* made = nullptr;
    check(interface().aoti_torch_empty_strided(rank, sizes, strides.data(), type, 0, 0, &made));
    return Owned(made);
}

class TorchRuntime final : public Runtime {
  public:
    std::vector<Owned> results;

    ~TorchRuntime() {
        for (void* memory : scratch_) std::free(memory);
    }

    void* allocate_output(int index, Type type, const int64_t* sizes, int64_t rank) override {
        if (results.size() <= static_cast<size_t>(index)) results.resize(static_cast<size_t>(index) + 1);
        Owned& result = results[static_cast<size_t>(index)];
        result = empty(sizes, rank, interface().types[static_cast<int32_t>(type)]);
        void* data = nullptr;
        check(interface().aoti_torch_get_data_ptr(result.get(), &data));
        return data;
    }

    void* allocate_scratch(size_t bytes) override {
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
            const Work& work = *static_cast<Work*>(given);
            for (int64_t i = begin; i < end; ++i) work.piece(work.data, i);
        };
        check(interface().torch_parallel_for(0, pieces, 1, some, &work));
    }

    int64_t threads() override {
        uint32_t count = 1;
        check(interface().torch_get_num_threads(&count));
        return count;
    }

  private:
    std::vector<void*> scratch_;
};

// Takes the values of a call off libtorch's stack. What is on it is the callee's to delete.
class Taker {
  public:
    Tensor tensor(StableValue value) {
        Owned owned(reinterpret_cast<TensorObject*>(value));
        const Interface& at = interface();
        Tensor tensor;
        int32_t type = 0;
        bool contiguous = false;
        int64_t* sizes = nullptr;
        check(at.aoti_torch_get_dtype(owned.get(), &type));
        check(at.aoti_torch_get_dim(owned.get(), &tensor.rank));
        check(at.aoti_torch_get_sizes(owned.get(), &sizes));
        check(at.aoti_torch_get_numel(owned.get(), &tensor.count));
        check(at.aoti_torch_is_contiguous(owned.get(), &contiguous));
        tensor.type = type_numbered(type);
        if (!contiguous) {
            Owned copy = empty(sizes, tensor.rank, type);
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
        const Interface& at = interface();
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
        const Interface& at = interface();
        auto* list = reinterpret_cast<ListObject*>(value);
        const std::unique_ptr<ListObject, void (*)(ListObject*)> owned(list, [](ListObject* list) { interface().torch_delete_list(list); });
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

    std::vector<Owned> owned_;
};

// One call from libtorch.
inline void run(const Operator& op, StableValue* stack) {
    const Schema& schema = op.schema;
    Call call;
    Taker taker;
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
            check(interface().torch_delete_stable_ivalue(held));
        }
        argument.given = true;
        if (declared.kind == Kind::tensor) argument.tensor = taker.tensor(value);
        else if (declared.kind == Kind::tensors)
            taker.each(value, [&](StableValue item) { argument.tensors.push_back(taker.tensor(item)); });
        else taker.attribute(value, declared.kind, attributes[i]);
    }
    TorchRuntime runtime;
    op.run(call, runtime);
    for (size_t i = 0; i < schema.returns; ++i) stack[i] = reinterpret_cast<StableValue>(runtime.results[i].release());
}

}  // namespace torch

namespace detail {

// What libtorch calls. Its caller turns an exception into Python's, by its message.
OPBRIDGE_ADAPTER void enter_from_torch(const Operator& op, StableValue* stack) {
    std::string error;
    const auto report = [&](Thrown, const char* message) { error = op.error_message(message); };
    if (!guarded([&] { torch::run(op, stack); }, report)) throw std::runtime_error(error);
}

}  // namespace detail

namespace torch {

inline std::vector<LibraryObject*>& registered() {
    static std::vector<LibraryObject*> libraries;
    return libraries;
}

// Defines the library's operators in libtorch.
inline void register_operators() {
    const Interface& at = interface();
    const int32_t tag = at.torch_tag_pt2_compliant_tag();
    for (const Operator* op = Operator::first(); op; op = op->next) {
        if (!op->problem.empty()) throw std::invalid_argument(op->problem);
        const char* domain = op->schema.domain.c_str();
        LibraryObject* library = nullptr;
        check(at.aoti_torch_library_init_fragment(domain, "opbridge", 0, &library));
        registered().push_back(library);
        check(at.torch_library_def_with_tags(library, op->schema.text.c_str(), &tag, 1));
        LibraryObject* implementation = nullptr;
        check(at.aoti_torch_library_init_impl(domain, "CPU", "opbridge", 0, &implementation));
        registered().push_back(implementation);
        check(at.torch_library_impl(implementation, op->schema.operator_name().c_str(), op->torch_entry, interface_version));
    }
}

inline void unregister_operators() {
    while (!registered().empty()) {
        interface().aoti_torch_delete_library_object(registered().back());
        registered().pop_back();
    }
}

}  // namespace torch
}  // namespace opbridge
