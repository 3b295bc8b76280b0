// launch: kernels of CUDA's language, `__global__` functions, launched from a function of the host.
//
// my_op.cu, beside my_op.cpp, is what NVRTC is given. my_op.cpp declares what it launches, and registers a function that launches it:
//
//     template <class T>
//     __global__ void softmax_rows(const T* x, T* y, int64_t columns);
//
//     template <class T>
//     void softmax_on_cuda(Input<T, 2> x, Output<T, 2> y, Context& context) {
//         launch<softmax_rows<T>>(context, x.size(0), 256, 256 * sizeof(float), x.data(), y.data(), x.size(1));
//     }
//
//     OPBRIDGE_CPU_CUDA_KERNEL("mylib::softmax(Tensor x) -> Tensor", softmax_on_cpu, softmax_on_cuda, softmax_shape, floating);
#pragma once

#include <cstdint>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "device/traits.h"
#include "platform.h"
#include "views.h"

// The number of a source among those of its library which have functions for a device; `opbridge build` gives it.
#ifndef OPBRIDGE_DEVICE_PROGRAM
#define OPBRIDGE_DEVICE_PROGRAM -1
#endif

// The C++ compiler reads declarations of functions for a device.
#ifndef __CUDACC__
#ifndef __global__
#define __global__
#endif
#ifndef __device__
#define __device__
#endif
#ifndef __host__
#define __host__
#endif
#endif

namespace opbridge OPBRIDGE_HIDDEN {

// The sizes of a grid, in blocks, or those of a block, in threads.
struct Dim3 {
    int64_t x, y, z;

    template <class N, std::enable_if_t<std::is_integral_v<N>, int> = 0>
    Dim3(N x) : x(static_cast<int64_t>(x)), y(1), z(1) {}
    Dim3(int64_t x, int64_t y, int64_t z = 1) : x(x), y(y), z(z) {}
};

namespace detail {

// A function as the device compiler knows it: a kernel as the C++ compiler spells it, or, with a type, the instance of a template that is a
// function of an element.
struct DeviceFunction {
    int32_t program;
    const char* function;
    const char* type;
};

OPBRIDGE_ADAPTER void launch_kernel(Context& context, const DeviceFunction& function, const Dim3& grid, const Dim3& block,
                                    int64_t shared_bytes, void** arguments);
OPBRIDGE_ADAPTER void copy_to_host(Context& context, void* to, const void* from, int64_t count, size_t size);
OPBRIDGE_ADAPTER void copy_to_device(Context& context, void* to, const void* from, int64_t count, size_t size);
OPBRIDGE_ADAPTER void set_zero(Context& context, void* to, int64_t count, size_t size);

// A kernel that the library launches, so that all of them are compiled together.
struct LaunchedKernel {
    DeviceFunction function;
    const LaunchedKernel* next;

    explicit LaunchedKernel(const DeviceFunction& function) : function(function), next(first()) { first() = this; }

    static const LaunchedKernel*& first();
};

// A text with the name of a kernel in it, after "kernel = ".
template <auto kernel>
constexpr const char* spelled() {
#if defined(_MSC_VER)
    return __FUNCSIG__;
#else
    return __PRETTY_FUNCTION__;
#endif
}

template <auto kernel, int program>
struct KernelOf {
    inline static const LaunchedKernel launched{{program, spelled<kernel>(), nullptr}};
};

template <class Kernel>
struct LaunchOf {
    static_assert(!std::is_same_v<Kernel, Kernel>, "launch<kernel> takes a __global__ function, void kernel(...)");
};

template <class... P>
struct LaunchOf<void (*)(P...)> {
    static_assert((std::is_trivially_copyable_v<std::remove_cv_t<std::remove_reference_t<P>>> && ...),
                  "the parameters of a __global__ function are pointers, numbers, and structs of these");

    template <auto kernel, int program, class... A>
    static void run(Context& context, const Dim3& grid, const Dim3& block, int64_t shared_bytes, const A&... arguments) {
        static_assert(sizeof...(A) == sizeof...(P),
                      "launch<kernel>(context, grid, block, shared_bytes, ...) takes an argument for each parameter of the kernel");
        std::tuple<std::remove_cv_t<P>...> values(static_cast<P>(arguments)...);
        launch_with(context, KernelOf<kernel, program>::launched.function, grid, block, shared_bytes, values,
                    std::index_sequence_for<P...>());
    }

  private:
    template <class Values, size_t... index>
    static void launch_with(Context& context, const DeviceFunction& function, const Dim3& grid, const Dim3& block, int64_t shared_bytes,
                            Values& values, std::index_sequence<index...>) {
        void* addresses[] = {const_cast<void*>(static_cast<const void*>(&std::get<index>(values)))..., nullptr};
        launch_kernel(context, function, grid, block, shared_bytes, addresses);
    }
};

}  // namespace detail

// Launches a kernel on the stream of a call, with `shared_bytes` of dynamic shared memory; nothing where the grid is empty. Throws
// std::invalid_argument for sizes that CUDA does not allow, and std::runtime_error where the kernel does not compile or cannot be launched.
template <auto kernel, int program = OPBRIDGE_DEVICE_PROGRAM, class... A>
void launch(Context& context, const Dim3& grid, const Dim3& block, int64_t shared_bytes, const A&... arguments) {
    detail::LaunchOf<decltype(kernel)>::template run<kernel, program>(context, grid, block, shared_bytes, arguments...);
}

// Blocks of `block` threads for `count` elements, at most as many as CUDA allows: the kernel has to go on with element
// `thread_index() + thread_count()`.
inline int64_t blocks_for(int64_t count, int64_t block) {
    const int64_t blocks = count / block + (count % block != 0), most = int64_t{1} << 20;
    return blocks < most ? blocks : most;
}

// Elements from the device, after all that is on the stream has been done.
template <class T>
std::vector<T> copy_to_host(Context& context, const T* from, int64_t count) {
    std::vector<T> found(static_cast<size_t>(count));
    detail::copy_to_host(context, found.data(), from, count, sizeof(T));
    return found;
}

// Elements to the device.
template <class T>
void copy_to_device(Context& context, const T* from, int64_t count, T* to) {
    detail::copy_to_device(context, to, from, count, sizeof(T));
}

// Zeros on the device.
template <class T>
void set_zero(Context& context, T* to, int64_t count) {
    detail::set_zero(context, to, count, sizeof(T));
}

}  // namespace opbridge
