// Bicubic interpolation on CUDA devices: what it computes says compute/upsample_bicubic.h.
#pragma once

#include "sizes.h"

namespace opbridge::device {

struct Scaled {
    int64_t planes, each;  // planes of a thread
    int64_t in[2], out[2];
    double ratio[2];
    bool align_corners;
};

// A pixel of some planes by each thread.
template <class T>
__global__ void upsample(Scaled sizes, const T* input, T* output);

}  // namespace opbridge::device
