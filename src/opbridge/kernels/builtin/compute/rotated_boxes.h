// Overlaps of all pairs of rotated boxes: rotated_overlap.h has that of two.
#pragma once

#include <algorithm>
#include <cstdint>

#include <opbridge/types.h>

#include "rotated_overlap.h"
#include "rows.h"
#include "simd.h"
#include "sizes.h"

namespace opbridge::compute {

struct BoxIouRotatedArguments {
    int64_t first, second;  // how many boxes
    bool over_first, aligned, clockwise;

    int64_t size() const { return aligned ? first : first * second; }
};

// The arguments for boxes of these shapes; throws where they do not belong together. mode: 0 is iou, 1 is iof.
inline BoxIouRotatedArguments box_iou_rotated_arguments(Shape boxes1, Shape boxes2, int64_t mode, bool aligned, bool clockwise) {
    const char* axes = "(boxes, 5)";
    require_rank(boxes1, 2, "boxes1", axes);
    require_rank(boxes2, 2, "boxes2", axes);
    require_shape(boxes1, {boxes1[0], 5}, "boxes1", axes);
    require_shape(boxes2, {boxes2[0], 5}, "boxes2", axes);
    require_between(mode, 0, 1, "mode");
    if (aligned && boxes1[0] != boxes2[0]) {
        refuse("aligned boxes must have the same number, but boxes1 has " + std::to_string(boxes1[0]) + " and boxes2 has " +
               std::to_string(boxes2[0]));
    }
    if (!aligned) product({boxes1[0], boxes2[0]}, "the output");
    return {boxes1[0], boxes2[0], mode == 1, aligned, clockwise};
}

namespace rotated_boxes_detail {

template <class T>
struct Overlaps {
    using A = accumulate_t<T>;
    const BoxIouRotatedArguments& args;
    const T* boxes1;
    RotatedBoxes<A> boxes2;
    int64_t begin, end;  // of boxes1
    T* output;

    template <int Bytes>
    OPBRIDGE_INLINE void run() const {
        for (int64_t i = begin; i < end; ++i) {
            const RotatedFrame<A> frame(boxes1 + i * 5, args.clockwise);
            if (args.aligned) {
                output[i] = static_cast<T>(rotated_overlap(boxes2, i, frame, args.over_first ? A(0) : A(1)));
            } else {
                row(frame, output + i * args.second);
            }
        }
    }

    OPBRIDGE_INLINE void row(const RotatedFrame<A> frame, T* OPBRIDGE_RESTRICT to) const {
        const A share = args.over_first ? A(0) : A(1);
        for (int64_t j = 0; j < args.second; ++j) to[j] = static_cast<T>(rotated_overlap(boxes2, j, frame, share));
    }
};

}  // namespace rotated_boxes_detail

// How many numbers of accumulate_t<T> box_iou_rotated needs as scratch.
inline int64_t box_iou_rotated_scratch(const BoxIouRotatedArguments& args) {
    return product({args.second, rotated_fields}, "the scratch memory for boxes2");
}

// output (first, second), or (first) of aligned boxes.
template <class T, class Parallel>
void box_iou_rotated(const BoxIouRotatedArguments& args, const T* boxes1, const T* boxes2, T* output, accumulate_t<T>* scratch,
                     Parallel&& parallel) {
    if (args.first == 0 || args.second == 0) return;
    for (int64_t i = 0; i < args.second; ++i) prepare_rotated_box(boxes2 + i * 5, args.clockwise, scratch + i, args.second);
    const auto boxes = rotated_boxes_at<accumulate_t<T>>(scratch, args.second);
    const int64_t grain = std::max<int64_t>(1, 8192 / (args.aligned ? 16 : args.second));
    parallel(args.first, grain, [&](int64_t begin, int64_t end) {
        at_full_width(rotated_boxes_detail::Overlaps<T>{args, boxes1, boxes, begin, end, output});
    });
}

}  // namespace opbridge::compute
