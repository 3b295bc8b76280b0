// What the kernels that pool regions share.
#pragma once

#include "../compute/roi_limits.h"
#include "indices.h"
#include "roi_align.h"

namespace opbridge::device {

using compute::most_samples;
using compute::most_samples_of_bin;

template <class A>
__device__ A samples_of(A size, int64_t pooled, int64_t sampling_ratio) {
    return sampling_ratio > 0 ? static_cast<A>(sampling_ratio) : math::ceil(size / static_cast<A>(pooled));
}

// Where a thread is: which bin of which region, and which channels.
struct Bin {
    int64_t roi, row, column, channel, place;  // `place`: of the bin in the output, for the first channel
    int channels;

    template <int each>
    static __device__ Bin of(const Regions& sizes, int64_t number) {
        Bin bin;
        const int64_t groups = (sizes.channels + each - 1) / each;
        bin.column = take_index(number, sizes.pooled_width);
        bin.row = take_index(number, sizes.pooled_height);
        bin.channel = take_index(number, groups) * each;
        bin.roi = number;
        bin.channels = static_cast<int>(math::min<int64_t>(each, sizes.channels - bin.channel));
        bin.place = ((bin.roi * sizes.channels + bin.channel) * sizes.pooled_height + bin.row) * sizes.pooled_width + bin.column;
        return bin;
    }
};

// Adds a bilinear sample of each channel to `sums`; outside of the image by more than a pixel, it is zero.
template <int each, class T, class A>
__device__ void add_sample(const Regions& sizes, A y, A x, const T* input, int channels, A* sums) {
    if (!(x >= A(-1) && y >= A(-1) && x <= static_cast<A>(sizes.width) && y <= static_cast<A>(sizes.height))) return;
    x = math::max(x, A(0));
    y = math::max(y, A(0));
    const int64_t left = math::min(static_cast<int64_t>(x), sizes.width - 1), top = math::min(static_cast<int64_t>(y), sizes.height - 1);
    const A right_share = left == sizes.width - 1 ? A(0) : x - static_cast<A>(left);
    const A low_share = top == sizes.height - 1 ? A(0) : y - static_cast<A>(top);
    const int64_t right = left == sizes.width - 1 ? 0 : 1, low = top == sizes.height - 1 ? 0 : sizes.width;
    const A shares[4] = {(1 - low_share) * (1 - right_share), (1 - low_share) * right_share, low_share * (1 - right_share),
                         low_share * right_share};
    const T* at = input + top * sizes.width + left;
    for (int c = 0; c < each; ++c, at += sizes.height * sizes.width) {
        if (c >= channels) break;
        sums[c] += shares[0] * static_cast<A>(at[0]) + shares[1] * static_cast<A>(at[right]) + shares[2] * static_cast<A>(at[low]) +
                   shares[3] * static_cast<A>(at[low + right]);
    }
}

}  // namespace opbridge::device
