// How the kernels that pool regions are launched.
#pragma once

#include "../compute/roi.h"
#include "roi_align.h"

namespace opbridge::device {

// Launches `few` or `many`: the kernel in which a thread computes few_channels_of_a_bin or channels_of_a_bin channels.
template <class Few, class Many, class T>
void launch_regions(Context& context, const compute::RoiArguments& args, Few few, Many many, const T* input, const T* rois, T* output) {
    const Regions sizes{args.images,       args.channels,      args.height,         args.width,   args.rois,     args.pooled_height,
                        args.pooled_width, args.spatial_scale, args.sampling_ratio, args.aligned, args.clockwise};
    const auto run = [&](auto kernel, int64_t each) {
        const int64_t threads = args.rois * compute::ceil_divide(args.channels, each) * args.bins();
        launch<decltype(kernel)::value>(context, blocks_for(threads, 256), 256, 0, sizes, input, rois, output);
    };
    if (args.rois * args.channels * args.bins() >= 4 * full_device) run(many, channels_of_a_bin);
    else run(few, few_channels_of_a_bin);
}

}  // namespace opbridge::device
