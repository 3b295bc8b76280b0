// Pooling of regions on CUDA devices: what it computes say compute/roi_align.h and compute/roi_align_rotated.h.
#pragma once

#include "sizes.h"

namespace opbridge::device {

struct Regions {
    int64_t images, channels, height, width, rois, pooled_height, pooled_width;
    double spatial_scale;
    int64_t sampling_ratio;
    bool aligned, clockwise;
};

// Channels of a thread, which share the places of a bin's samples.
constexpr int few_channels_of_a_bin = 1, channels_of_a_bin = 8;

// Regions are on the device, where nobody waits for them to be checked: a region that is not finite, belongs to no image or is refused on
// the CPU for its size gives numbers that are none.
template <class T, int each>
__global__ void align_regions(Regions sizes, const T* input, const T* rois, T* output);
template <class T, int each>
__global__ void align_rotated_regions(Regions sizes, const T* input, const T* rois, T* output);

}  // namespace opbridge::device
