// Multi-scale deformable attention on CUDA devices: what it computes says compute/ms_deform_attn.h.
#pragma once

#include "sizes.h"

namespace opbridge::device {

struct Attention {
    int64_t batch, keys, heads, dim, queries, levels, points;
};

// One number of the output by each thread. The levels are on the device, where nobody waits for them to be checked: the output is not a
// number where one of them is not in `value`.
template <class T>
__global__ void attend(Attention sizes, const T* value, const int64_t* level_sizes, const int64_t* level_starts, const T* locations,
                       const T* weights, T* output);

}  // namespace opbridge::device
