// Numbers of threads taken apart into indices.
#pragma once

#include <opbridge/device.h>

namespace opbridge::device {

// number % size, and number becomes number / size: a division of 64 bits takes several times as long as one of 32.
__device__ inline int64_t take_index(int64_t& number, int64_t size) {
    int64_t rest;
    if (number <= 0x7fffffff && size <= 0x7fffffff) {
        const uint32_t whole = static_cast<uint32_t>(number) / static_cast<uint32_t>(size);
        rest = static_cast<int64_t>(static_cast<uint32_t>(number) - whole * static_cast<uint32_t>(size));
        number = static_cast<int64_t>(whole);
    } else {
        const int64_t whole = number / size;
        rest = number - whole * size;
        number = whole;
    }
    return rest;
}

// A product that is rounded before anything is added to it: where a rounding decides on something, it has to be everyone's.
template <class A>
__device__ A rounded_product(A a, A b) {
#ifdef __CUDACC_RTC__
    if constexpr (sizeof(A) == 4) return __fmul_rn(a, b);
    else return __dmul_rn(a, b);
#else
    return a * b;
#endif
}

}  // namespace opbridge::device
