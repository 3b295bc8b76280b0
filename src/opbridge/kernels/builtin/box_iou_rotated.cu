// Overlaps of rotated boxes on CUDA devices.
#include "device/box_iou_rotated.h"
#include "device/rotated_boxes.h"

namespace opbridge::device {

template <class T>
__global__ void __launch_bounds__(128) overlap_boxes(Pairs sizes, const T* boxes1, const accumulate_t<T>* boxes2, T* output) {
    using A = accumulate_t<T>;
    const auto others = compute::rotated_boxes_at<A>(boxes2, sizes.second);
    const int64_t count = sizes.aligned ? sizes.first : sizes.first * sizes.second;
    for (int64_t i = thread_index(); i < count; i += thread_count()) {
        int64_t first = i;
        const int64_t second = sizes.aligned ? i : take_index(first, sizes.second);
        const compute::RotatedFrame<A> frame(boxes1 + first * 5, sizes.clockwise);
        output[i] = T(compute::rotated_overlap(others, second, frame, sizes.over_first ? A(0) : A(1)));
    }
}

}  // namespace opbridge::device
