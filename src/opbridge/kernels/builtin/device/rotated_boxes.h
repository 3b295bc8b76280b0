// Rotated boxes, prepared once for all comparisons.
#pragma once

#include "../compute/rotated_overlap.h"
#include "indices.h"

namespace opbridge::device {

template <class T>
__global__ void __launch_bounds__(256) prepare_boxes(const T* boxes, int64_t count, bool clockwise, accumulate_t<T>* fields) {
    for (int64_t i = thread_index(); i < count; i += thread_count()) {
        compute::prepare_rotated_box(boxes + i * 5, clockwise, fields + i, count);
    }
}

}  // namespace opbridge::device
