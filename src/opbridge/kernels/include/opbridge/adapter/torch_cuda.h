// PyTorch's CUDA devices, through libtorch's stable C interface: which one has a tensor, its stream, and the one that is current.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

#include "libtorch.h"
#include "shared_library.h"

namespace opbridge OPBRIDGE_HIDDEN {
namespace torch {

// A device: the CPU, or torch's number of a kind of devices and that of one of them.
struct TorchDevice {
    int32_t type = 0;
    int32_t index = 0;

    static TorchDevice of(TensorObject* tensor) {
        TorchDevice found;
        check(libtorch().aoti_torch_get_device_type(tensor, &found.type));
        if (found.type != 0) check(libtorch().aoti_torch_get_device_index(tensor, &found.index));
        return found;
    }

    bool is_cuda() const { return type != 0; }
    std::string name() const { return type == 0 ? "cpu" : "cuda:" + std::to_string(index); }
};

struct CudaGuardObject;
class CudaGuard;

// What only a libtorch with CUDA has.
struct CudaFunctions {
    int32_t (*aoti_torch_get_current_cuda_stream)(int32_t, void**) = nullptr;
    int32_t (*aoti_torch_create_cuda_guard)(int32_t, CudaGuardObject**) = nullptr;
    int32_t (*aoti_torch_delete_cuda_guard)(CudaGuardObject*) = nullptr;

    void* stream_of(const TorchDevice& device) const {
        void* stream = nullptr;
        check(aoti_torch_get_current_cuda_stream(device.index, &stream));
        return stream;
    }

    CudaGuard guard_for(const TorchDevice& device) const;
};

// The library beside libtorch_cpu, which a libtorch with CUDA has loaded.
inline CudaFunctions find_cuda_functions() {
    const Libtorch& at = libtorch();
    std::string path = detail::file_of(reinterpret_cast<const void*>(at.aoti_torch_get_device_type));
    const std::string own = "torch_cpu";
    const size_t place = path.rfind(own);
    void* library = nullptr;
    if (place != std::string::npos) library = detail::loaded_library(path.replace(place, own.size(), "torch_cuda").c_str());
    CudaFunctions found;
    const auto find = [&](auto& function, const char* name) {
        void* address = find_symbol(library ? library : at.library, name);
        if (!address) throw std::runtime_error(std::string("this libtorch has no ") + name + "; install a build of torch with CUDA");
        function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(address);
    };
    find(found.aoti_torch_get_current_cuda_stream, "aoti_torch_get_current_cuda_stream");
    find(found.aoti_torch_create_cuda_guard, "aoti_torch_create_cuda_guard");
    find(found.aoti_torch_delete_cuda_guard, "aoti_torch_delete_cuda_guard");
    return found;
}

inline const CudaFunctions& cuda_functions() {
    static const CudaFunctions found = find_cuda_functions();
    return found;
}

// Has a device be the current one as long as it lives.
class CudaGuard {
  public:
    explicit CudaGuard(CudaGuardObject* guard = nullptr) : guard_(guard) {}
    CudaGuard(CudaGuard&& other) noexcept : guard_(std::exchange(other.guard_, nullptr)) {}
    CudaGuard& operator=(CudaGuard&& other) noexcept {
        std::swap(guard_, other.guard_);
        return *this;
    }
    ~CudaGuard() {
        if (guard_) cuda_functions().aoti_torch_delete_cuda_guard(guard_);
    }

  private:
    CudaGuardObject* guard_;
};

inline CudaGuard CudaFunctions::guard_for(const TorchDevice& device) const {
    CudaGuardObject* guard = nullptr;
    check(aoti_torch_create_cuda_guard(device.index, &guard));
    return CudaGuard(guard);
}

}  // namespace torch
}  // namespace opbridge
