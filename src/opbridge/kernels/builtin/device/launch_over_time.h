// How the kernels of convolution over time are launched.
#pragma once

#include "../compute/dynamic_conv.h"
#include "dynamic_conv.h"

namespace opbridge::device {

inline OverTime over_time(const compute::DynamicConvArguments& args) {
    return {args.batch, args.channels, args.heads, args.taps, args.time, args.padding_l};
}

template <bool dynamic, bool backward, class T>
void launch_correlation(Context& context, const compute::DynamicConvArguments& args, const T* x, const T* weight, T* y) {
    constexpr int64_t threads = 256;
    if (args.batch == 0 || args.channels == 0 || args.time == 0) return;
    const auto count = [&](int64_t each) { return args.batch * args.heads * compute::ceil_divide(args.head_size(), each) * args.time; };
    const OverTime sizes = over_time(args);
    if (count(many_channels) >= full_device) {
        launch<correlate_over_time<T, dynamic, backward, many_channels>>(context, blocks_for(count(many_channels), threads), threads, 0,
                                                                         sizes, x, weight, y);
    } else {
        launch<correlate_over_time<T, dynamic, backward, few_channels>>(context, blocks_for(count(few_channels), threads), threads, 0,
                                                                        sizes, x, weight, y);
    }
}

}  // namespace opbridge::device
