// libtorch, found in the process or at a given path: its stable C interface, and what of an operator that interface does not tell.
//
// The C interface passes no `Scalar`, no complex number and no results of several types. Every operator is also known to libtorch's
// interpreter, which calls it through a std::function<void(Stack&)>, whatever its types: that is `Operator::run`. It is reached through
// exported C++ functions and two facts about classes that headers tell and no symbol does:
//     c10::OperatorHandle         begins with a pointer to the dispatcher's c10::impl::OperatorEntry
//     torch::jit::Operator        begins with an OperatorHandle, followed by that std::function, for an operator of the dispatcher
// Both are checked when an operator is looked up, so that another layout is an error there, and not a crash. They were run on
// libtorch 2.13.0 and 2.15.0, Linux x86-64.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace opbridge {
namespace aten {

// A value as the C interface passes it.
using Stable = uint64_t;

struct TensorObject;
struct ListObject;
struct StringObject;
struct LibraryObject;

// A value of the interpreter's stack, which only libtorch looks into.
struct Opaque {
    uint64_t words[2];
};
using Stack = std::vector<Opaque>;
using Run = std::function<void(Stack&)>;

constexpr Stable nothing = 0;  // None, and an absent tensor

struct Libtorch {
    // Functions of the C interface, which return zero where all went well.
    int32_t (*torch_call_dispatcher)(const char*, const char*, Stable*, uint64_t);
    int32_t (*aoti_torch_create_tensor_from_blob)(void*, int64_t, const int64_t*, const int64_t*, int64_t, int32_t, int32_t, int32_t,
                                                  TensorObject**);
    int32_t (*aoti_torch_delete_tensor_object)(TensorObject*);
    int32_t (*aoti_torch_new_tensor_handle)(TensorObject*, TensorObject**);
    int32_t (*aoti_torch_clone)(TensorObject*, TensorObject**);
    int32_t (*aoti_torch_copy_)(TensorObject*, TensorObject*, int32_t);
    int32_t (*aoti_torch_is_defined)(TensorObject*, bool*);
    int32_t (*aoti_torch_is_contiguous)(TensorObject*, bool*);
    int32_t (*aoti_torch_get_data_ptr)(TensorObject*, void**);
    int32_t (*aoti_torch_get_dim)(TensorObject*, int64_t*);
    int32_t (*aoti_torch_get_sizes)(TensorObject*, int64_t**);
    int32_t (*aoti_torch_get_dtype)(TensorObject*, int32_t*);
    int32_t (*aoti_torch_get_layout)(TensorObject*, int32_t*);
    int32_t (*aoti_torch_get_device_type)(TensorObject*, int32_t*);
    int32_t (*aoti_torch_layout_strided)();
    bool (*aoti_torch_grad_mode_is_enabled)();
    void (*aoti_torch_grad_mode_set_enabled)(bool);
    uint64_t (*aoti_torch_abi_version)();
    int32_t (*aoti_torch_delete_c10_value_object)(void*);
    int32_t (*torch_new_list_reserve_size)(size_t, ListObject**);
    int32_t (*torch_list_push_back)(ListObject*, Stable);
    int32_t (*torch_list_size)(ListObject*, size_t*);
    int32_t (*torch_list_get_item)(ListObject*, size_t, Stable*);
    int32_t (*torch_delete_list)(ListObject*);
    int32_t (*torch_new_string_handle)(const char*, size_t, StringObject**);
    int32_t (*torch_delete_string)(StringObject*);
    int32_t (*torch_new_stable_ivalue)(Stable**);
    int32_t (*torch_delete_stable_ivalue)(Stable*);
    int32_t (*torch_parse_device_string)(const char*, uint32_t*, int32_t*);
    int32_t (*aoti_torch_library_init_fragment)(const char*, const char*, uint32_t, LibraryObject**);
    int32_t (*aoti_torch_library_init_impl)(const char*, const char*, const char*, uint32_t, LibraryObject**);
    int32_t (*aoti_torch_library_def)(LibraryObject*, const char*);
    int32_t (*torch_library_impl)(LibraryObject*, const char*, void (*)(Stable*, uint64_t, uint64_t), uint64_t);
    const char* (*torch_exception_get_what_without_backtrace)();

    // torch's number of a dtype, layout or memory format; throws std::invalid_argument for a name that it does not have.
    int32_t number(const char* kind, const std::string& name) const;

    // "2.15"
    std::string version() const;

    // Of the OpenMP library that this libtorch uses; null where it has none.
    int32_t (*omp_pause_resource_all)(int32_t);
    int32_t (*omp_get_max_threads)();

    void* library;
};

// The numbers of torch's dtypes by ONNX's element types, and the other way round; -1 and 0 for what the other one does not have.
struct Types {
    static constexpr int32_t count = 21;  // of ONNX's element types, from 0 to float8e5m2fnuz

    int32_t of_onnx[count];
    int32_t complex_of_onnx[count];  // complex numbers whose parts are of that type
    int32_t cpu_strided_layout;

    int32_t onnx_of(int32_t type, bool* is_complex) const;
};

// The version of the interface that this library was written for: that of torch 2.13.
constexpr uint64_t interface_version = (uint64_t{2} << 56) | (uint64_t{13} << 48);

// Finds libtorch: the library at `path`, else that of the environment's OPBRIDGE_LIBTORCH, else the one in the process. The first one
// that is found is used from then on. Throws std::runtime_error where there is none, with what to do.
const Libtorch& load(const std::string& path);

// What `load` has found.
const Libtorch& libtorch();
const Types& types();

// Throws std::runtime_error, in torch's words, where a function of the interface failed.
void check(int32_t failure);

// An operator of the dispatcher.
struct Operator {
    std::string schema;         // as torch prints it
    const Run* run = nullptr;   // null where this libtorch is laid out in another way
};

// Throws std::invalid_argument where libtorch has none of that name.
Operator find_operator(const std::string& name, const std::string& overload);

// Destroys what is left on a stack.
void clear(Stack& stack);

}  // namespace aten
}  // namespace opbridge
