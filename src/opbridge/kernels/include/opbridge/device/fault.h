// What a debug build (-DOPBRIDGE_CHECK_BOUNDS, which `opbridge build -g` sets) says of an index out of bounds on a device: the first one is
// kept, and read after the launch; the element that was asked for is then one that nobody uses, so that the device goes on.
#pragma once

#include "traits.h"

namespace opbridge::detail {

struct Fault {
    unsigned int raised;
    int64_t index, size;
};

}  // namespace opbridge::detail

#if defined(OPBRIDGE_ON_DEVICE) && defined(OPBRIDGE_CHECK_BOUNDS)
extern "C" {
__device__ opbridge::detail::Fault opbridge_fault;
__device__ unsigned long long opbridge_nowhere[4];
}

namespace opbridge::detail {

__device__ inline bool is_outside(int64_t index, int64_t size) {
    if (index >= 0 && index < size) return false;
    if (atomicExch(&opbridge_fault.raised, 1u) == 0) {
        opbridge_fault.index = index;
        opbridge_fault.size = size;
    }
    return true;
}

// The element that is read and written in place of one that is not there.
template <class T>
__device__ T& nowhere() {
    static_assert(sizeof(T) <= sizeof opbridge_nowhere);
    return *reinterpret_cast<T*>(opbridge_nowhere);
}

}  // namespace opbridge::detail
#endif
