// Non-maximum suppression of rotated boxes, as mmcv's nms_rotated: a box is suppressed by one of a higher score, and of the same label
// where there are labels, that it overlaps by more than the threshold. Which boxes are what: rotated_boxes.h.
//
// "More than" is what mmcv documents and its CUDA kernel and mmdeploy's ONNX Runtime kernel do; its CPU kernel takes "at least".
#pragma once

#include <cstdint>
#include <vector>

#include <opbridge/types.h>

#include "rotated_boxes.h"
#include "simd.h"
#include "sizes.h"
#include "suppression.h"

namespace opbridge::compute {

struct NmsRotatedArguments {
    int64_t batch, classes, boxes;
    float iou_threshold, score_threshold;
    bool clockwise;
};

// The arguments for boxes and scores of these shapes, and labels where `labels` is not null; throws where they do not belong together.
inline NmsRotatedArguments nms_rotated_arguments(Shape boxes, Shape scores, const Shape* labels, double iou_threshold, bool clockwise) {
    require_rank(boxes, 2, "boxes", "(boxes, 5)");
    require_shape(boxes, {boxes[0], 5}, "boxes", "(boxes, 5)");
    require_shape(scores, {boxes[0]}, "scores", "(boxes)");
    if (labels != nullptr) require_shape(*labels, {boxes[0]}, "labels", "(boxes)");
    return {1, 1, boxes[0], static_cast<float>(iou_threshold), 0, clockwise};
}

// The same for boxes (batch, boxes, 5) and scores (batch, classes, boxes).
inline NmsRotatedArguments nms_rotated_batched_arguments(Shape boxes, Shape scores, double iou_threshold, double score_threshold,
                                                         bool clockwise) {
    require_rank(boxes, 3, "boxes", "(batch, boxes, 5)");
    require_shape(boxes, {boxes[0], boxes[1], 5}, "boxes", "(batch, boxes, 5)");
    require_rank(scores, 3, "scores", "(batch, classes, boxes)");
    require_shape(scores, {boxes[0], scores[1], boxes[1]}, "scores", "(batch, classes, boxes)");
    return {boxes[0], scores[1], boxes[1], static_cast<float>(iou_threshold), static_cast<float>(score_threshold), clockwise};
}

namespace nms_rotated_detail {

// The kept boxes of a block, for `suppress`.
template <class A>
class Overlaps {
  public:
    static constexpr int64_t grain = 128;

    template <class T, class Parallel>
    Overlaps(const T* boxes, int64_t count, const int64_t* labels, float threshold, bool clockwise, Parallel&& parallel)
        : labels_(labels),
          threshold_(threshold),
          fields_(static_cast<size_t>(count * rotated_fields)),
          frames_(static_cast<size_t>(count)) {
        parallel(count, grain, [&](int64_t begin, int64_t end) {
            for (int64_t i = begin; i < end; ++i) {
                frames_[static_cast<size_t>(i)] = RotatedFrame<A>(boxes + i * 5, clockwise);
                prepare_rotated_box(boxes + i * 5, clockwise, fields_.data() + i * rotated_fields, 1);
            }
        });
    }

    void clear() { count_ = 0; }

    OPBRIDGE_INLINE void add(int64_t box) {
        for (int64_t f = 0; f < rotated_fields; ++f)
            kept_[f * suppression_block + count_] = fields_[static_cast<size_t>(box * rotated_fields + f)];
        kept_labels_[count_] = labels_ == nullptr ? 0 : labels_[box];
        ++count_;
    }

    template <int Bytes>
    OPBRIDGE_INLINE int64_t first(int64_t box) const {
        const RotatedFrame<A> frame = frames_[static_cast<size_t>(box)];
        const int64_t label = labels_ == nullptr ? 0 : labels_[box];
        const auto boxes = rotated_boxes_at<A>(kept_, suppression_block);
        const A threshold = static_cast<A>(threshold_);
        for (int64_t begin = 0; begin < count_; begin += suppression_step) {
            int32_t over[suppression_step];
            int32_t any = 0;
            for (int64_t k = 0; k < suppression_step; ++k) {
                over[k] = rotated_overlap(boxes, begin + k, frame, A(1)) > threshold ? 1 : 0;
                any |= over[k];
            }
            if (any == 0) continue;
            for (int64_t k = begin; k < std::min(begin + suppression_step, count_); ++k) {
                if (over[k - begin] != 0 && kept_labels_[k] == label) return k;
            }
        }
        return -1;
    }

  private:
    const int64_t* labels_;
    float threshold_;
    std::vector<A> fields_;
    std::vector<RotatedFrame<A>> frames_;
    alignas(64) A kept_[rotated_fields * suppression_block] = {};
    int64_t kept_labels_[suppression_block] = {};
    int64_t count_ = 0;
};

template <class T, class Parallel>
std::vector<int64_t> keep(int64_t count, bool clockwise, float threshold, const T* boxes, const T* scores, const int64_t* labels,
                          Parallel&& parallel) {
    Overlaps<accumulate_t<T>> overlaps(boxes, count, labels, threshold, clockwise, parallel);
    const std::vector<int64_t> order = by_falling_score(scores, count);
    return kept(order, suppress(order, overlaps, parallel));
}

}  // namespace nms_rotated_detail

// The boxes that are kept, by falling score. `labels` may be null.
template <class T, class Parallel>
std::vector<int64_t> nms_rotated(const NmsRotatedArguments& args, const T* boxes, const T* scores, const int64_t* labels,
                                 Parallel&& parallel) {
    return nms_rotated_detail::keep(args.boxes, args.clockwise, args.iou_threshold, boxes, scores, labels, parallel);
}

// Rows (batch, class, box) of the boxes that are kept and whose scores are above the threshold, one after the other: mmdeploy's
// NMSRotated. Boxes with scores below the threshold suppress others all the same. keep(batch, class) gives the boxes that are kept.
template <class T, class Keep>
std::vector<int64_t> nms_rotated_rows(const NmsRotatedArguments& args, const T* scores, Keep&& keep) {
    using A = accumulate_t<T>;
    std::vector<int64_t> rows;
    for (int64_t b = 0; b < args.batch; ++b) {
        for (int64_t c = 0; c < args.classes; ++c) {
            const T* of_class = scores + (b * args.classes + c) * args.boxes;
            for (int64_t box : keep(b, c)) {
                if (static_cast<A>(of_class[box]) > static_cast<A>(args.score_threshold)) rows.insert(rows.end(), {b, c, box});
            }
        }
    }
    return rows;
}

template <class T, class Parallel>
std::vector<int64_t> nms_rotated_batched(const NmsRotatedArguments& args, const T* boxes, const T* scores, Parallel&& parallel) {
    return nms_rotated_rows(args, scores, [&](int64_t b, int64_t c) {
        const int64_t* no_labels = nullptr;
        return nms_rotated_detail::keep(args.boxes, args.clockwise, args.iou_threshold, boxes + b * args.boxes * 5,
                                        scores + (b * args.classes + c) * args.boxes, no_labels, parallel);
    });
}

}  // namespace opbridge::compute
