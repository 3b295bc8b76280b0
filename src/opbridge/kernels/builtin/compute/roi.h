// What pooling of regions of interest has in common: the regions' checks, and how many points a bin is sampled at.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include <opbridge/types.h>

#include "pixels.h"
#include "roi_limits.h"
#include "sizes.h"

namespace opbridge::compute {

struct RoiArguments {
    int64_t images, channels, height, width;
    int64_t rois, fields;  // numbers of a region: 5 of a box, 6 of a rotated one
    int64_t pooled_height, pooled_width;
    double spatial_scale;
    int64_t sampling_ratio;
    bool aligned, clockwise;

    int64_t bins() const { return pooled_height * pooled_width; }
    int64_t points() const { return height * width; }
};

// The arguments for tensors of these shapes; throws where they do not belong together.
inline RoiArguments roi_arguments(Shape input, Shape rois, int64_t fields, int64_t pooled_height, int64_t pooled_width,
                                  double spatial_scale, int64_t sampling_ratio, bool aligned, bool clockwise) {
    require_rank(input, 4, "input", "(batch, channels, height, width)");
    const char* axes = fields == 5 ? "(rois, 5): image, x1, y1, x2, y2" : "(rois, 6): image, x, y, width, height, angle";
    require_rank(rois, 2, "rois", axes);
    require_shape(rois, {rois[0], fields}, "rois", axes);
    require_between(pooled_height, 1, largest_attribute, "the output's height");
    require_between(pooled_width, 1, largest_attribute, "the output's width");
    require_between(sampling_ratio, -largest_attribute, most_samples, "sampling_ratio");
    product({rois[0], input[1], pooled_height, pooled_width}, "the output");
    if (input[2] * input[3] == 0 && rois[0] > 0) refuse("input has no pixels: " + text(input.begin(), input.end()));
    if (!std::isfinite(spatial_scale)) refuse("spatial_scale must be finite");
    return {input[0],      input[1],     input[2],      input[3],       rois[0], fields,
            pooled_height, pooled_width, spatial_scale, sampling_ratio, aligned, clockwise};
}

// Samples along one side of a bin: as many as asked for, or one for each pixel that it is long.
template <class A>
A samples_of(A size, int64_t pooled, int64_t sampling_ratio) {
    return sampling_ratio > 0 ? static_cast<A>(sampling_ratio) : std::ceil(size / static_cast<A>(pooled));
}

// Throws where a region names no image, or is so large that its samples could not be counted.
template <class A>
void check_roi(const RoiArguments& args, int64_t index, A image, A height, A width) {
    if (!(image >= A(0) && image < static_cast<A>(args.images))) {
        refuse("roi " + std::to_string(index) + " refers to image " + std::to_string(image) + ", but input has " +
               std::to_string(args.images));
    }
    const A most = static_cast<A>(most_samples);
    if (samples_of(height, args.pooled_height, args.sampling_ratio) > most ||
        samples_of(width, args.pooled_width, args.sampling_ratio) > most) {
        refuse("roi " + std::to_string(index) + " is too large: " + std::to_string(height) + " by " + std::to_string(width) + " pixels");
    }
}

template <class A>
PixelSizes roi_pixel_sizes(const RoiArguments& args) {
    return {args.channels, args.points(), is_narrow<A>(args.channels) ? narrow_block : wide_block<A>};
}

// The regions of a wave's images.
template <class T>
std::vector<int64_t> rois_of(const RoiArguments& args, const Wave& wave, const T* rois) {
    std::vector<int64_t> which;
    for (int64_t i = 0; i < args.rois; ++i) {
        const int64_t image = static_cast<int64_t>(static_cast<accumulate_t<T>>(rois[i * args.fields]));
        if (image >= wave.image && image < wave.image + wave.images) which.push_back(i);
    }
    return which;
}

}  // namespace opbridge::compute
