// Overlaps of rotated boxes on CUDA devices: the formulas are those of compute/rotated_overlap.h.
#pragma once

#include "sizes.h"

namespace opbridge::device {

struct Pairs {
    int64_t first, second;  // how many boxes
    bool over_first, aligned, clockwise;
};

// Boxes as compute/rotated_overlap.h has them.
template <class T>
__global__ void prepare_boxes(const T* boxes, int64_t count, bool clockwise, accumulate_t<T>* fields);
template <class T>
__global__ void overlap_boxes(Pairs sizes, const T* boxes1, const accumulate_t<T>* boxes2, T* output);

}  // namespace opbridge::device
