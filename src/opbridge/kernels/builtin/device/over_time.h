// The kernels of dynamic and lightweight convolution, for both of their .cu files.
#pragma once

#include "dynamic_conv.h"
#include "indices.h"

namespace opbridge::device {

template <class T, bool dynamic, bool backward, int each>
__global__ void __launch_bounds__(256) correlate_over_time(OverTime sizes, const T* x, const T* weight, T* y) {
    using A = accumulate_t<T>;
    const int64_t head_size = sizes.channels / sizes.heads, groups = (head_size + each - 1) / each;
    const int64_t count = sizes.batch * sizes.heads * groups * sizes.time;
    const int taps = static_cast<int>(sizes.taps);
    for (int64_t i = thread_index(); i < count; i += thread_count()) {
        int64_t rest = i;
        const int64_t t = take_index(rest, sizes.time);
        const int64_t first = take_index(rest, groups) * each;
        const int64_t head = take_index(rest, sizes.heads), batch = rest;
        const int64_t row = (batch * sizes.channels + head * head_size + first) * sizes.time;
        const int here = static_cast<int>(math::min<int64_t>(each, head_size - first));
        A sums[each] = {};
        // Forwards, tap k of moment t reads moment t + k - padding; backwards, moment t is read by moment t - k + padding.
        for (int k = 0; k < taps; ++k) {
            const int64_t at = backward ? t - k + sizes.padding : t + k - sizes.padding;
            if (at < 0 || at >= sizes.time) continue;
            const int64_t of_head =
                dynamic ? ((batch * sizes.heads + head) * sizes.taps + k) * sizes.time + (backward ? at : t) : head * sizes.taps + k;
            const A factor = static_cast<A>(weight[of_head]);
            const T* from = x + row + at;
#ifdef __CUDACC_RTC__
#pragma unroll
#endif
            for (int c = 0; c < each; ++c) {
                if (c < here) sums[c] += factor * static_cast<A>(from[c * sizes.time]);
            }
        }
#ifdef __CUDACC_RTC__
#pragma unroll
#endif
        for (int c = 0; c < each; ++c) {
            if (c < here) y[row + c * sizes.time + t] = T(sums[c]);
        }
    }
}

}  // namespace opbridge::device
