#include "libtorch.h"

#include <cstdlib>
#include <cstring>
#include <mutex>
#include <optional>
#include <stdexcept>

#include <dlfcn.h>

namespace opbridge {
namespace aten {

namespace {

#if defined(__APPLE__)
constexpr const char* file_name = "libtorch_cpu.dylib";
#else
constexpr const char* file_name = "libtorch_cpu.so";
#endif

Libtorch* found = nullptr;
Types found_types;

// c10::OperatorName, and c10::OperatorHandle, which has a destructor of its own (that decides how it is returned).
struct OperatorName {
    std::string name, overload;
};
struct OperatorHandle {
    void* entry;
    void* place;
    ~OperatorHandle() {}
};
struct JitOperator {
    void* entry;
    void* place;
    Run run;
};

struct Internals {
    void* (*dispatcher)();
    std::optional<OperatorHandle> (*find_op)(void* dispatcher, const OperatorName&);
    std::string (*dump_state)(const void* entry);
    std::shared_ptr<JitOperator> (*find_operator_for)(const OperatorName&);
} internals;

void* symbol(void* library, const char* name) {
    if (void* address = dlsym(library, name)) return address;
    throw std::runtime_error(std::string("this libtorch has no ") + name + "; aten nodes need torch 2.13 or newer");
}

template <class Function>
void find(void* library, Function*& function, const char* name) {
    function = reinterpret_cast<Function*>(symbol(library, name));
}

void* open(const std::string& given) {
    const char* named = std::getenv("OPBRIDGE_LIBTORCH");
    std::string path = !given.empty() ? given : named ? named : "";
    if (!path.empty()) {
        void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
        if (!library) library = dlopen((path + "/" + file_name).c_str(), RTLD_NOW | RTLD_LOCAL);
        if (!library) throw std::runtime_error("libtorch cannot be loaded from " + path + ": " + dlerror());
        return library;
    }
    if (void* library = dlopen(file_name, RTLD_NOW | RTLD_NOLOAD)) return library;
    // It may be linked into the program, or be there under another name.
    if (dlsym(RTLD_DEFAULT, "torch_call_dispatcher")) return dlopen(nullptr, RTLD_NOW);
    throw std::runtime_error(std::string("the model has nodes that PyTorch runs, and ") + file_name +
                             " is not in this process. Import torch (or load that library) first, or name its path in the environment's "
                             "OPBRIDGE_LIBTORCH or the session's config entry opbridge.libtorch");
}

void fill_types() {
    struct Name {
        int onnx;
        const char* real;
        const char* complex;
    };
    for (int32_t& type : found_types.of_onnx) type = -1;
    for (int32_t& type : found_types.complex_of_onnx) type = -1;
    const Name names[] = {{1, "float32", "complex64"},
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
                          {20, "float8_e5m2fnuz", nullptr}};
    for (const Name& each : names) {
        found_types.of_onnx[each.onnx] = found->number("dtype", each.real);
        if (each.complex) found_types.complex_of_onnx[each.onnx] = found->number("dtype", each.complex);
    }
    found_types.cpu_strided_layout = found->aoti_torch_layout_strided();
}

Libtorch* loaded(const std::string& path) {
    void* library = open(path);
    auto* made = new Libtorch();
    made->library = library;
#define OPBRIDGE_FIND(name) find(library, made->name, #name)
    OPBRIDGE_FIND(torch_call_dispatcher);
    OPBRIDGE_FIND(aoti_torch_create_tensor_from_blob);
    OPBRIDGE_FIND(aoti_torch_delete_tensor_object);
    OPBRIDGE_FIND(aoti_torch_new_tensor_handle);
    OPBRIDGE_FIND(aoti_torch_clone);
    OPBRIDGE_FIND(aoti_torch_copy_);
    OPBRIDGE_FIND(aoti_torch_is_defined);
    OPBRIDGE_FIND(aoti_torch_is_contiguous);
    OPBRIDGE_FIND(aoti_torch_get_data_ptr);
    OPBRIDGE_FIND(aoti_torch_get_dim);
    OPBRIDGE_FIND(aoti_torch_get_sizes);
    OPBRIDGE_FIND(aoti_torch_get_dtype);
    OPBRIDGE_FIND(aoti_torch_get_layout);
    OPBRIDGE_FIND(aoti_torch_get_device_type);
    OPBRIDGE_FIND(aoti_torch_layout_strided);
    OPBRIDGE_FIND(aoti_torch_grad_mode_is_enabled);
    OPBRIDGE_FIND(aoti_torch_grad_mode_set_enabled);
    OPBRIDGE_FIND(aoti_torch_abi_version);
    OPBRIDGE_FIND(aoti_torch_delete_c10_value_object);
    OPBRIDGE_FIND(torch_new_list_reserve_size);
    OPBRIDGE_FIND(torch_list_push_back);
    OPBRIDGE_FIND(torch_list_size);
    OPBRIDGE_FIND(torch_list_get_item);
    OPBRIDGE_FIND(torch_delete_list);
    OPBRIDGE_FIND(torch_new_string_handle);
    OPBRIDGE_FIND(torch_delete_string);
    OPBRIDGE_FIND(torch_new_stable_ivalue);
    OPBRIDGE_FIND(torch_delete_stable_ivalue);
    OPBRIDGE_FIND(torch_parse_device_string);
    OPBRIDGE_FIND(aoti_torch_library_init_fragment);
    OPBRIDGE_FIND(aoti_torch_library_init_impl);
    OPBRIDGE_FIND(aoti_torch_library_def);
    OPBRIDGE_FIND(torch_library_impl);
    OPBRIDGE_FIND(torch_exception_get_what_without_backtrace);
#undef OPBRIDGE_FIND
    made->omp_pause_resource_all = reinterpret_cast<int32_t (*)(int32_t)>(dlsym(library, "omp_pause_resource_all"));
    made->omp_get_max_threads = reinterpret_cast<int32_t (*)()>(dlsym(library, "omp_get_max_threads"));
    find(library, internals.dispatcher, "_ZN3c1010Dispatcher13realSingletonEv");
    find(library, internals.find_op, "_ZN3c1010Dispatcher6findOpERKNS_12OperatorNameE");
    find(library, internals.dump_state, "_ZNK3c104impl13OperatorEntry9dumpStateB5cxx11Ev");
    find(library, internals.find_operator_for, "_ZN5torch3jit15findOperatorForERKN3c1012OperatorNameE");
    return made;
}

// Whether an address is one of libtorch's functions.
bool is_code_of_libtorch(const void* address) {
    Dl_info info, own;
    return address && dladdr(address, &info) && dladdr(reinterpret_cast<void*>(found->torch_call_dispatcher), &own) &&
           info.dli_fbase == own.dli_fbase;
}

// Whether a std::function, as libstdc++ lays it out (storage, manager, invoker), is one that libtorch made.
bool is_of_libtorch(const Run& run) {
    static_assert(sizeof(Run) == 4 * sizeof(void*), "this library is written for libstdc++'s std::function");
    void* words[4];
    std::memcpy(words, &run, sizeof words);
    return is_code_of_libtorch(words[2]) && is_code_of_libtorch(words[3]);
}

std::string described(const std::string& name, const std::string& overload) { return overload.empty() ? name : name + "." + overload; }

}  // namespace

const Libtorch& load(const std::string& path) {
    static std::mutex mutex;
    const std::lock_guard<std::mutex> lock(mutex);
    if (!found) {
        found = loaded(path);
        fill_types();
    }
    return *found;
}

const Libtorch& libtorch() { return *found; }
const Types& types() { return found_types; }

void check(int32_t failure) {
    if (failure == 0) return;
    const char* words = found->torch_exception_get_what_without_backtrace();
    throw std::runtime_error(words && *words ? words : "libtorch reports an error");
}

int32_t Libtorch::number(const char* kind, const std::string& name) const {
    bool plain = !name.empty() && name.size() < 64;
    for (char letter : name) plain = plain && (std::isalnum(static_cast<unsigned char>(letter)) || letter == '_');
    for (const char* prefix : {"aoti_torch_", "torch_"}) {
        const std::string symbol_name = std::string(prefix) + kind + "_" + name;
        void* address = plain ? dlsym(library, symbol_name.c_str()) : nullptr;
        if (address) return reinterpret_cast<int32_t (*)()>(address)();
    }
    throw std::invalid_argument("torch " + version() + " has no " + kind + " '" + name + "' that a node can name");
}

std::string Libtorch::version() const {
    const uint64_t packed = aoti_torch_abi_version();
    return std::to_string(packed >> 56) + "." + std::to_string((packed >> 48) & 0xff);
}

int32_t Types::onnx_of(int32_t type, bool* is_complex) const {
    for (int32_t onnx = 0; onnx < count; ++onnx) {
        *is_complex = complex_of_onnx[onnx] == type;
        if (of_onnx[onnx] == type || *is_complex) return onnx;
    }
    return 0;
}

Operator find_operator(const std::string& name, const std::string& overload) {
    const OperatorName full{name, overload};
    const std::optional<OperatorHandle> handle = internals.find_op(internals.dispatcher(), full);
    const std::string state = handle ? internals.dump_state(handle->entry) : "";
    const std::string start = "\nschema: ";
    const size_t at = state.find(start);
    Operator result;
    if (at != std::string::npos) {
        const size_t from = at + start.size();
        result.schema = state.substr(from, state.find('\n', from) - from);
    }
    if (result.schema.empty() || result.schema[0] == '(') {
        throw std::invalid_argument("torch " + found->version() + " has no operator " + described(name, overload) +
                                    "; load the library that defines it, or install the torch that the model was exported with");
    }
    const std::shared_ptr<JitOperator> known = internals.find_operator_for(full);
    if (known && known->entry == handle->entry && known->place == handle->place && is_of_libtorch(known->run)) {
        static auto* kept = new std::vector<std::shared_ptr<JitOperator>>;  // as long as the process: kernels point into them
        static std::mutex mutex;
        const std::lock_guard<std::mutex> lock(mutex);
        kept->push_back(known);
        result.run = &known->run;
    }
    return result;
}

void clear(Stack& stack) {
    // libtorch deletes a value where it stands alone on the heap.
    for (const Opaque& value : stack) {
        void* alone = ::operator new(sizeof value);
        std::memcpy(alone, &value, sizeof value);
        found->aoti_torch_delete_c10_value_object(alone);
    }
    stack.clear();
}

}  // namespace aten
}  // namespace opbridge
