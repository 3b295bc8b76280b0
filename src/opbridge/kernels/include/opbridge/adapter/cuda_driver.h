// CUDA's driver, as far as opbridge uses it; found in libcuda when a kernel is first launched.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "../platform.h"
#include "shared_library.h"

namespace opbridge OPBRIDGE_HIDDEN {
namespace cuda {

struct ContextObject;
struct ModuleObject;
struct FunctionObject;
struct StreamObject;

constexpr int capability_major = 75, capability_minor = 76, multiprocessors = 16, most_shared_memory = 97;  // CUdevice_attribute
constexpr int most_dynamic_shared_memory = 8;                                                              // CUfunction_attribute
constexpr int capture_mode_relaxed = 2;

// The functions: FUNCTION(name here, name in libcuda, type). They return zero where all went well.
#define OPBRIDGE_CUDA_FUNCTIONS(FUNCTION)                                                             \
    FUNCTION(init, cuInit, int(unsigned))                                                             \
    FUNCTION(driver_version, cuDriverGetVersion, int(int*))                                           \
    FUNCTION(error_name, cuGetErrorName, int(int, const char**))                                      \
    FUNCTION(error_string, cuGetErrorString, int(int, const char**))                                  \
    FUNCTION(current_context, cuCtxGetCurrent, int(ContextObject**))                                  \
    FUNCTION(set_current_context, cuCtxSetCurrent, int(ContextObject*))                               \
    FUNCTION(context_device, cuCtxGetDevice, int(int*))                                               \
    FUNCTION(primary_context, cuDevicePrimaryCtxRetain, int(ContextObject**, int))                    \
    FUNCTION(device_attribute, cuDeviceGetAttribute, int(int*, int, int))                             \
    FUNCTION(exchange_capture_mode, cuThreadExchangeStreamCaptureMode, int(int*))                     \
    FUNCTION(load_module, cuModuleLoadData, int(ModuleObject**, const void*))                         \
    FUNCTION(find_function, cuModuleGetFunction, int(FunctionObject**, ModuleObject*, const char*))   \
    FUNCTION(find_global, cuModuleGetGlobal_v2, int(uint64_t*, size_t*, ModuleObject*, const char*))  \
    FUNCTION(copy, cuMemcpyDtoDAsync_v2, int(uint64_t, uint64_t, size_t, StreamObject*))              \
    FUNCTION(copy_to_host, cuMemcpyDtoHAsync_v2, int(void*, uint64_t, size_t, StreamObject*))         \
    FUNCTION(copy_to_device, cuMemcpyHtoDAsync_v2, int(uint64_t, const void*, size_t, StreamObject*)) \
    FUNCTION(set_bytes, cuMemsetD8Async, int(uint64_t, unsigned char, size_t, StreamObject*))         \
    FUNCTION(synchronize, cuStreamSynchronize, int(StreamObject*))                                    \
    FUNCTION(is_capturing, cuStreamIsCapturing, int(StreamObject*, int*))                             \
    FUNCTION(set_function_attribute, cuFuncSetAttribute, int(FunctionObject*, int, int))              \
    FUNCTION(launch, cuLaunchKernel,                                                                  \
             int(FunctionObject*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, StreamObject*, void**, void**))

struct Driver {
#define OPBRIDGE_DECLARE(name, symbol, Type) std::add_pointer_t<Type> name = nullptr;
    OPBRIDGE_CUDA_FUNCTIONS(OPBRIDGE_DECLARE)
#undef OPBRIDGE_DECLARE
    int version = 0;  // 13000: the newest CUDA that the driver supports

    // Throws std::runtime_error where a function of the driver failed while something was done.
    void check(int failure, const std::string& what) const {
        if (failure != 0) throw std::runtime_error("CUDA could not " + what + ": " + words_for(failure));
    }

    std::string words_for(int failure) const {
        const char *name = nullptr, *text = nullptr;
        if (error_name(failure, &name) != 0 || !name) return "error " + std::to_string(failure);
        return std::string(name) + (error_string(failure, &text) == 0 && text ? std::string(" (") + text + ")" : "");
    }

    std::string version_text() const { return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10); }

    int attribute(int number, int device) const {
        int value = 0;
        check(device_attribute(&value, number, device), "read an attribute of the device");
        return value;
    }
};

// Finds the driver. Throws std::runtime_error where there is none.
inline Driver find_driver() {
    const char* named = std::getenv("OPBRIDGE_LIBCUDA");
#if defined(_WIN32)
    const char* usual = "nvcuda.dll";
#else
    const char* usual = "libcuda.so.1";
#endif
    const char* name = named && *named ? named : usual;
    void* library = detail::load_library(name);
    if (!library) {
        throw std::runtime_error(std::string("the CUDA driver's library ") + name +
                                 " was not found. Install NVIDIA's driver, or set OPBRIDGE_LIBCUDA to the library's path");
    }
    Driver found;
    const auto symbol = [&](const char* name) {
        void* address = detail::find_symbol(library, name);
        if (!address) {
            throw std::runtime_error(std::string("the CUDA driver has no function ") + name + ". Install a newer driver");
        }
        return address;
    };
#define OPBRIDGE_FIND(name, symbol_name, Type) found.name = reinterpret_cast<decltype(found.name)>(symbol(#symbol_name));
    OPBRIDGE_CUDA_FUNCTIONS(OPBRIDGE_FIND)
#undef OPBRIDGE_FIND
    found.check(found.init(0), "be initialized");
    found.check(found.driver_version(&found.version), "read the driver's version");
    return found;
}

// The driver; found once, and asked for again where there was none.
inline const Driver& driver() {
    static const Driver found = find_driver();
    return found;
}

}  // namespace cuda
}  // namespace opbridge
