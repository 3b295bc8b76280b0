// A library in place of libtorch, linked to it, that takes tensors for such on CUDA devices: a library of kernels that it registers has its
// kernels for CUDA called with tensors on the CPU. A tensor of 13 rows is on the CPU all the same, and one of 11 on another device.
#include <dlfcn.h>

#include <cstdint>
#include <cstring>
#include <map>

#define ENTRY extern "C" __attribute__((visibility("default")))

namespace {

template <class Function>
Function* real(const char* name, Function*) {
    return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}
#define REAL(name) real(#name, &name)

int guards = 0;
std::map<void*, bool> on_cuda;  // parts of libraries, by what they implement

}  // namespace

ENTRY int fake_torch_guards() { return guards; }

ENTRY int32_t aoti_torch_get_sizes(void*, int64_t**);
ENTRY int32_t aoti_torch_get_dim(void*, int64_t*);

static int64_t rows_of(void* tensor) {
    int64_t rank = 0, *sizes = nullptr;
    aoti_torch_get_dim(tensor, &rank);
    aoti_torch_get_sizes(tensor, &sizes);
    return rank ? sizes[0] : 0;
}

ENTRY int32_t aoti_torch_get_device_type(void* tensor, int32_t* type) {
    *type = rows_of(tensor) == 13 ? 0 : 1;
    return 0;
}
ENTRY int32_t aoti_torch_get_device_index(void* tensor, int32_t* index) {
    *index = rows_of(tensor) == 11 ? 1 : 0;
    return 0;
}
ENTRY int32_t aoti_torch_empty_strided(int64_t rank, const int64_t* sizes, const int64_t* strides, int32_t dtype, int32_t, int32_t,
                                       void** made) {
    return REAL(aoti_torch_empty_strided)(rank, sizes, strides, dtype, 0, 0, made);
}
ENTRY int32_t aoti_torch_get_current_cuda_stream(int32_t, void** stream) {
    *stream = reinterpret_cast<void*>(0x5eed);
    return 0;
}
ENTRY int32_t aoti_torch_create_cuda_guard(int32_t, void** guard) {
    *guard = &guards;
    ++guards;
    return 0;
}
ENTRY int32_t aoti_torch_delete_cuda_guard(void*) {
    --guards;
    return 0;
}
// The kernels for CUDA are registered as those for the CPU, and those for the CPU are left out.
ENTRY int32_t aoti_torch_library_init_impl(const char* domain, const char* key, const char* file, uint32_t line, void** made) {
    const int32_t failure = REAL(aoti_torch_library_init_impl)(domain, "CPU", file, line, made);
    on_cuda[*made] = std::strcmp(key, "CUDA") == 0;
    return failure;
}
ENTRY int32_t torch_library_impl(void* library, const char* name, void (*entry)(uint64_t*, uint64_t, uint64_t), uint64_t version) {
    return on_cuda[library] ? REAL(torch_library_impl)(library, name, entry, version) : 0;
}
