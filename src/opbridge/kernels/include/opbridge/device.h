// What functions for a GPU are written with; none of it needs the standard library there. kernel.h includes it.
//
// A function of an element is compiled twice, by the C++ compiler and by NVRTC, which defines OPBRIDGE_ON_DEVICE. What only the CPU can do,
// such as code that uses the standard library, stands between #ifndef OPBRIDGE_ON_DEVICE and #endif. A .cu file beside a .cpp file, of the
// same name, is what NVRTC is given in its place.
#pragma once

#include "device/math.h"
#include "device/view.h"
#include "types.h"

#ifdef OPBRIDGE_ON_DEVICE

#ifdef __CUDACC_RTC__
namespace opbridge {

// The shared memory whose size the launch gives.
template <class T>
T* dynamic_shared() {
    extern __shared__ __align__(16) unsigned char opbridge_dynamic_shared[];
    return reinterpret_cast<T*>(opbridge_dynamic_shared);
}

}  // namespace opbridge
#endif

namespace opbridge {

// The number of this thread among all of a grid of one dimension, and how many there are:
//     for (int64_t i = thread_index(); i < count; i += thread_count()) ...
__device__ inline int64_t thread_index() { return static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; }
__device__ inline int64_t thread_count() { return static_cast<int64_t>(gridDim.x) * blockDim.x; }

}  // namespace opbridge

namespace opbridge::detail {

// A function of an element for all elements: number after number, as far apart as there are threads.
template <auto function>
__global__ void __launch_bounds__(256) elements(const __grid_constant__ ElementArguments<decltype(function)> arguments) {
    for (int64_t i = thread_index(); i < arguments.count; i += thread_count()) {
        arguments.template apply<function, false>(i);
    }
}

}  // namespace opbridge::detail

#endif
