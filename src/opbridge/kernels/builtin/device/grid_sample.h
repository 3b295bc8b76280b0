// grid_sample on CUDA devices: what it computes says compute/grid_points.h.
#pragma once

#include "../compute/grid_axis.h"
#include "sizes.h"

namespace opbridge::device {

struct Sampled {
    int64_t batch, channels, each;  // channels of a thread
    int64_t in[3], out_points;      // depth, height, width
    compute::Padding padding;
    bool align_corners;
};

// A point of the grid and some channels by each thread.
template <class T, int dims, compute::Interpolation mode>
__global__ void sample_at_points(Sampled sizes, const T* input, const T* grid, T* output);

}  // namespace opbridge::device
