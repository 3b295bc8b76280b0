// libtorch's stable C interface, as far as opbridge uses it. It is looked up by name in a libtorch that is there: no header of torch is
// needed, and a library of kernels also loads where there is no libtorch.
#pragma once

#include <cctype>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "../platform.h"
#include "shared_library.h"

namespace opbridge OPBRIDGE_HIDDEN {
namespace torch {

struct TensorObject;
struct ListObject;
struct StringObject;
struct LibraryObject;

using StableValue = uint64_t;  // how the interface passes any value

constexpr uint64_t interface_version = (uint64_t{2} << 56) | (uint64_t{13} << 48);  // of torch 2.13, whose interface this is

// The functions: FUNCTION(name, type). Those that return int32_t return zero where all went well,
// but for those that tell the number of something.
#define OPBRIDGE_LIBTORCH_FUNCTIONS(FUNCTION)                                                                                       \
    FUNCTION(aoti_torch_clone, int32_t(TensorObject*, TensorObject**))                                                              \
    FUNCTION(aoti_torch_copy_, int32_t(TensorObject*, TensorObject*, int32_t))                                                      \
    FUNCTION(aoti_torch_create_tensor_from_blob,                                                                                    \
             int32_t(void*, int64_t, const int64_t*, const int64_t*, int64_t, int32_t, int32_t, int32_t, TensorObject**))           \
    FUNCTION(aoti_torch_delete_tensor_object, int32_t(TensorObject*))                                                               \
    FUNCTION(aoti_torch_empty_strided, int32_t(int64_t, const int64_t*, const int64_t*, int32_t, int32_t, int32_t, TensorObject**)) \
    FUNCTION(aoti_torch_get_data_ptr, int32_t(TensorObject*, void**))                                                               \
    FUNCTION(aoti_torch_get_device_index, int32_t(TensorObject*, int32_t*))                                                         \
    FUNCTION(aoti_torch_get_device_type, int32_t(TensorObject*, int32_t*))                                                          \
    FUNCTION(aoti_torch_get_dim, int32_t(TensorObject*, int64_t*))                                                                  \
    FUNCTION(aoti_torch_get_dtype, int32_t(TensorObject*, int32_t*))                                                                \
    FUNCTION(aoti_torch_get_layout, int32_t(TensorObject*, int32_t*))                                                               \
    FUNCTION(aoti_torch_get_numel, int32_t(TensorObject*, int64_t*))                                                                \
    FUNCTION(aoti_torch_get_sizes, int32_t(TensorObject*, int64_t**))                                                               \
    FUNCTION(aoti_torch_is_contiguous, int32_t(TensorObject*, bool*))                                                               \
    FUNCTION(aoti_torch_is_defined, int32_t(TensorObject*, bool*))                                                                  \
    FUNCTION(aoti_torch_layout_strided, int32_t())                                                                                  \
    FUNCTION(aoti_torch_grad_mode_is_enabled, bool())                                                                               \
    FUNCTION(aoti_torch_grad_mode_set_enabled, void(bool))                                                                          \
    FUNCTION(aoti_torch_abi_version, uint64_t())                                                                                    \
    FUNCTION(aoti_torch_delete_c10_value_object, int32_t(void*))                                                                    \
    FUNCTION(torch_new_stable_ivalue, int32_t(StableValue**))                                                                       \
    FUNCTION(torch_delete_stable_ivalue, int32_t(StableValue*))                                                                     \
    FUNCTION(torch_new_list_reserve_size, int32_t(size_t, ListObject**))                                                            \
    FUNCTION(torch_list_push_back, int32_t(ListObject*, StableValue))                                                               \
    FUNCTION(torch_list_size, int32_t(ListObject*, size_t*))                                                                        \
    FUNCTION(torch_list_get_item, int32_t(ListObject*, size_t, StableValue*))                                                       \
    FUNCTION(torch_delete_list, int32_t(ListObject*))                                                                               \
    FUNCTION(torch_new_string_handle, int32_t(const char*, size_t, StringObject**))                                                 \
    FUNCTION(torch_string_length, int32_t(StringObject*, size_t*))                                                                  \
    FUNCTION(torch_string_c_str, int32_t(StringObject*, const char**))                                                              \
    FUNCTION(torch_delete_string, int32_t(StringObject*))                                                                           \
    FUNCTION(torch_parse_device_string, int32_t(const char*, uint32_t*, int32_t*))                                                  \
    FUNCTION(torch_parallel_for, int32_t(int64_t, int64_t, int64_t, void (*)(int64_t, int64_t, void*), void*))                      \
    FUNCTION(torch_get_num_threads, int32_t(uint32_t*))                                                                             \
    FUNCTION(torch_call_dispatcher, int32_t(const char*, const char*, StableValue*, uint64_t))                                      \
    FUNCTION(aoti_torch_library_init_fragment, int32_t(const char*, const char*, uint32_t, LibraryObject**))                        \
    FUNCTION(aoti_torch_library_init_impl, int32_t(const char*, const char*, const char*, uint32_t, LibraryObject**))               \
    FUNCTION(aoti_torch_library_def, int32_t(LibraryObject*, const char*))                                                          \
    FUNCTION(torch_library_def_with_tags, int32_t(LibraryObject*, const char*, const int32_t*, int32_t))                            \
    FUNCTION(torch_library_impl, int32_t(LibraryObject*, const char*, void (*)(StableValue*, uint64_t, uint64_t), uint64_t))        \
    FUNCTION(aoti_torch_delete_library_object, int32_t(LibraryObject*))                                                             \
    FUNCTION(torch_tag_pt2_compliant_tag, int32_t())                                                                                \
    FUNCTION(torch_exception_get_what_without_backtrace, const char*())

using detail::find_symbol;

struct Libtorch {
    void* library = nullptr;
#define OPBRIDGE_DECLARE(name, Type) std::add_pointer_t<Type> name = nullptr;
    OPBRIDGE_LIBTORCH_FUNCTIONS(OPBRIDGE_DECLARE)
#undef OPBRIDGE_DECLARE

    // Finds a function that kernels or aten nodes (`user`) need. Throws std::runtime_error where this libtorch does not have it.
    template <class Function>
    void find(Function*& function, const char* name, const char* user) const {
        void* found = find_symbol(library, name);
        if (!found) throw std::runtime_error(std::string("this libtorch has no ") + name + "; " + user + " require torch 2.13 or newer");
        function = reinterpret_cast<Function*>(found);
    }

    // torch's number of a dtype, layout or memory format (`kind`); false where it does not have one of that name.
    bool find_number(const char* kind, const std::string& name, int32_t& number) const {
        bool plain = !name.empty() && name.size() < 64;
        for (char letter : name) plain = plain && (std::isalnum(static_cast<unsigned char>(letter)) || letter == '_');
        for (const char* prefix : {"aoti_torch_", "torch_"}) {
            void* found = plain ? find_symbol(library, (prefix + (kind + ("_" + name))).c_str()) : nullptr;
            if (!found) continue;
            number = reinterpret_cast<int32_t (*)()>(found)();
            return true;
        }
        return false;
    }

    // "2.15"
    std::string version() const {
        const uint64_t packed = aoti_torch_abi_version();
        return std::to_string(packed >> 56) + "." + std::to_string((packed >> 48) & 0xff);
    }
};

// torch's numbers of dtypes by ONNX's element types; -1 where there is none.
struct Dtypes {
    static constexpr int32_t count = 21;  // of ONNX's element types, from 0 to float8e5m2fnuz

    int32_t of_onnx[count];
    int32_t complex_of_onnx[count];  // complex numbers whose parts are of that type

    // ONNX's element type for one of torch's dtypes, of the parts where it is complex; 0 where there is none.
    int32_t onnx_of(int32_t dtype, bool* is_complex) const {
        for (int32_t onnx = 0; onnx < count; ++onnx) {
            *is_complex = complex_of_onnx[onnx] == dtype;
            if (of_onnx[onnx] == dtype || *is_complex) return onnx;
        }
        return 0;
    }
};

namespace loaded {

inline Libtorch libtorch;
inline Dtypes dtypes;

}  // namespace loaded

// What `connect` has found.
inline const Libtorch& libtorch() { return loaded::libtorch; }
inline const Dtypes& dtypes() { return loaded::dtypes; }

// Looks everything up in a loaded libtorch, for kernels or aten nodes (`user`). Throws std::runtime_error where something is not there, and
// then changes nothing.
inline void connect(void* library, const char* user) {
    struct Names {
        int32_t onnx;
        const char* real;
        const char* complex;
    };
    constexpr Names all[] = {
        {1, "float32", "complex64"},
        {2, "uint8", nullptr},
        {3, "int8", nullptr},
        {4, "uint16", nullptr},
        {5, "int16", nullptr},
        {6, "int32", nullptr},
        {7, "int64", nullptr},
        {9, "bool", nullptr},
        {10, "float16", "complex32"},
        {11, "float64", "complex128"},
        {12, "uint32", nullptr},
        {13, "uint64", nullptr},
        {16, "bfloat16", nullptr},
        {17, "float8_e4m3fn", nullptr},
        {18, "float8_e4m3fnuz", nullptr},
        {19, "float8_e5m2", nullptr},
        {20, "float8_e5m2fnuz", nullptr},
    };
    Libtorch found;
    Dtypes types;
    found.library = library;
#define OPBRIDGE_FIND(name, Type) found.find(found.name, #name, user);
    OPBRIDGE_LIBTORCH_FUNCTIONS(OPBRIDGE_FIND)
#undef OPBRIDGE_FIND
    const auto number = [&](const char* name) {
        int32_t result = 0;
        if (found.find_number("dtype", name, result)) return result;
        throw std::runtime_error(std::string("this libtorch has no dtype ") + name + "; " + user + " require torch 2.13 or newer");
    };
    for (int32_t onnx = 0; onnx < Dtypes::count; ++onnx) types.of_onnx[onnx] = types.complex_of_onnx[onnx] = -1;
    for (const Names& each : all) {
        types.of_onnx[each.onnx] = number(each.real);
        if (each.complex) types.complex_of_onnx[each.onnx] = number(each.complex);
    }
    loaded::libtorch = found;
    loaded::dtypes = types;
}

// Throws std::runtime_error, with torch's message, where a function of the interface failed.
inline void check(int32_t failure) {
    if (failure == 0) return;
    const char* message = libtorch().torch_exception_get_what_without_backtrace();
    throw std::runtime_error(message && *message ? message : "libtorch reports an error");
}

// A tensor that is ours to delete.
class OwnedTensor {
  public:
    explicit OwnedTensor(TensorObject* tensor = nullptr) : tensor_(tensor) {}
    OwnedTensor(OwnedTensor&& other) noexcept : tensor_(other.release()) {}
    OwnedTensor& operator=(OwnedTensor&& other) noexcept {
        std::swap(tensor_, other.tensor_);
        return *this;
    }
    ~OwnedTensor() {
        if (tensor_) libtorch().aoti_torch_delete_tensor_object(tensor_);
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

inline std::vector<int64_t> row_major_strides(const int64_t* sizes, size_t rank) {
    std::vector<int64_t> strides(rank);
    int64_t step = 1;
    for (size_t axis = rank; axis-- > 0;) {
        strides[axis] = step;
        step *= sizes[axis] > 1 ? sizes[axis] : 1;
    }
    return strides;
}

}  // namespace torch
}  // namespace opbridge
