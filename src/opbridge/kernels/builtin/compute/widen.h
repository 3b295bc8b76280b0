// Sixteen-bit tensors as floats, for kernels that read each number many times.
#pragma once

#include <cstdint>
#include <type_traits>

#include <opbridge/types.h>

#include "rows.h"
#include "simd.h"

namespace opbridge::compute {

namespace widen_detail {

template <class T>
struct Widen {
    const T* from;
    accumulate_t<T>* to;
    int64_t begin, end;

    template <int Bytes>
    OPBRIDGE_INLINE void run() const {
        convert(from + begin, to + begin, end - begin);
    }
};

}  // namespace widen_detail

// How many numbers `widen` needs as scratch for a tensor of `count`.
template <class T>
int64_t widen_scratch(int64_t count) {
    return std::is_same_v<T, accumulate_t<T>> ? 0 : count;
}

// The tensor itself where it is wide, and its numbers in `scratch` where it is not.
template <class T, class Parallel>
const accumulate_t<T>* widen(const T* tensor, int64_t count, accumulate_t<T>* scratch, Parallel&& parallel) {
    if constexpr (std::is_same_v<T, accumulate_t<T>>) {
        (void)count, (void)scratch, (void)parallel;
        return tensor;
    } else {
        parallel(count, int64_t{1} << 14,
                 [&](int64_t begin, int64_t end) { at_full_width(widen_detail::Widen<T>{tensor, scratch, begin, end}); });
        return scratch;
    }
}

}  // namespace opbridge::compute
