// Non-maximum suppression of rotated boxes: as mmcv's nms_rotated, and for batches and classes as mmdeploy's NMSRotated.
#include "compute/vectorise.h"  // before all others

#define OPBRIDGE_ONE_VERSION  // compute/simd.h chooses the vectors
#include <opbridge/kernel.h>

#include <algorithm>

#include "compute/nms_rotated.h"
#include "compute/parallel.h"

using namespace opbridge;

namespace {

template <class T>
void nms_rotated(Input<T> boxes, Input<T> scores, std::optional<Input<int64_t>> labels, double iou_threshold, bool clockwise,
                 Output<int64_t> keep, Context& context) {
    const compute::Shape label_shape{labels ? labels->sizes() : nullptr, labels ? labels->rank() : 0};
    const auto args = compute::nms_rotated_arguments({boxes.sizes(), boxes.rank()}, {scores.sizes(), scores.rank()},
                                                     labels ? &label_shape : nullptr, iou_threshold, clockwise);
    const auto kept =
        compute::nms_rotated(args, boxes.data(), scores.data(), labels ? labels->data() : nullptr, compute::parallel_of(context));
    keep.allocate({static_cast<int64_t>(kept.size())});
    std::copy(kept.begin(), kept.end(), keep.data());
}

template <class T>
void nms_rotated_batched(Input<T> boxes, Input<T> scores, double iou_threshold, double score_threshold, bool clockwise,
                         Output<int64_t> keep, Context& context) {
    const auto args = compute::nms_rotated_batched_arguments({boxes.sizes(), boxes.rank()}, {scores.sizes(), scores.rank()}, iou_threshold,
                                                             score_threshold, clockwise);
    const auto rows = compute::nms_rotated_batched(args, boxes.data(), scores.data(), compute::parallel_of(context));
    keep.allocate({static_cast<int64_t>(rows.size() / 3), 3});
    std::copy(rows.begin(), rows.end(), keep.data());
}

Shape nms_rotated_shape(Shape, Shape, std::optional<Shape>, double, bool) { return {Dim::computed()}; }
Shape nms_rotated_batched_shape(Shape, Shape, double, double, bool) { return {Dim::computed(), 3}; }

}  // namespace

OPBRIDGE_KERNEL(
    "opbridge_ops::nms_rotated(Tensor boxes, Tensor scores, Tensor? labels, float iou_threshold, bool clockwise=True) -> Tensor",
    nms_rotated, nms_rotated_shape, floating);
OPBRIDGE_KERNEL(
    "opbridge_ops::nms_rotated_batched(Tensor boxes, Tensor scores, float iou_threshold, float score_threshold, bool clockwise=True) "
    "-> Tensor",
    nms_rotated_batched, nms_rotated_batched_shape, floating);
