// Non-maximum suppression of rotated boxes: as mmcv's nms_rotated, and for batches and classes as mmdeploy's NMSRotated.
#include "compute/vectorise.h"  // before all others

#define OPBRIDGE_ONE_VERSION  // compute/simd.h chooses the vectors
#include <opbridge/kernel.h>

#include <algorithm>

#include "compute/nms_rotated.h"
#include "compute/parallel.h"
#include "device/box_iou_rotated.h"
#include "device/suppression.h"

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

// Suppresses boxes of one image, for one class after the other.
template <class T>
class OnCuda {
  public:
    OnCuda(Context& context, const compute::NmsRotatedArguments& args) : context_(context), args_(args), suppression_(context, args.boxes) {
        fields_ = context.scratch<accumulate_t<T>>(compute::product({args.boxes, compute::rotated_fields}, "the boxes"));
    }

    void take_boxes(const T* boxes) {
        boxes_ = boxes;
        launch<device::prepare_boxes<T>>(context_, blocks_for(args_.boxes, 256), 256, 0, boxes, args_.boxes, args_.clockwise, fields_);
    }

    // The boxes that are kept, by falling score.
    std::vector<int64_t> keep(const T* scores, const int64_t* labels) {
        const auto found = suppression_.run(scores, 1, [&](const Dim3& grid, const Dim3& block, int64_t* order, unsigned long long* words) {
            launch<device::compare_rotated_boxes<T>>(context_, grid, block, 0, boxes_, fields_, labels, order, args_.boxes, args_.clockwise,
                                                     args_.iou_threshold, words);
        });
        return compute::kept(found.order, found.suppressor);
    }

  private:
    Context& context_;
    const compute::NmsRotatedArguments& args_;
    device::Suppression suppression_;
    const T* boxes_ = nullptr;
    accumulate_t<T>* fields_;
};

template <class T>
void nms_rotated_on_cuda(Input<T> boxes, Input<T> scores, std::optional<Input<int64_t>> labels, double iou_threshold, bool clockwise,
                         Output<int64_t> keep, Context& context) {
    const compute::Shape label_shape{labels ? labels->sizes() : nullptr, labels ? labels->rank() : 0};
    const auto args = compute::nms_rotated_arguments({boxes.sizes(), boxes.rank()}, {scores.sizes(), scores.rank()},
                                                     labels ? &label_shape : nullptr, iou_threshold, clockwise);
    OnCuda<T> suppression(context, args);
    suppression.take_boxes(boxes.data());
    const auto kept = suppression.keep(scores.data(), labels ? labels->data() : nullptr);
    keep.allocate({static_cast<int64_t>(kept.size())});
    copy_to_device(context, kept.data(), keep.size(), keep.data());
}

template <class T>
void nms_rotated_batched_on_cuda(Input<T> boxes, Input<T> scores, double iou_threshold, double score_threshold, bool clockwise,
                                 Output<int64_t> keep, Context& context) {
    const auto args = compute::nms_rotated_batched_arguments({boxes.sizes(), boxes.rank()}, {scores.sizes(), scores.rank()}, iou_threshold,
                                                             score_threshold, clockwise);
    OnCuda<T> suppression(context, args);
    const std::vector<T> on_host = copy_to_host(context, scores.data(), scores.size());
    const auto rows = compute::nms_rotated_rows(args, on_host.data(), [&](int64_t b, int64_t c) {
        if (c == 0) suppression.take_boxes(boxes.data() + b * args.boxes * 5);
        return suppression.keep(scores.data() + (b * args.classes + c) * args.boxes, nullptr);
    });
    keep.allocate({static_cast<int64_t>(rows.size() / 3), 3});
    copy_to_device(context, rows.data(), keep.size(), keep.data());
}

Shape nms_rotated_shape(Shape, Shape, std::optional<Shape>, double, bool) { return {Dim::computed()}; }
Shape nms_rotated_batched_shape(Shape, Shape, double, double, bool) { return {Dim::computed(), 3}; }

}  // namespace

OPBRIDGE_CPU_CUDA_KERNEL(
    "opbridge_ops::nms_rotated(Tensor boxes, Tensor scores, Tensor? labels, float iou_threshold, bool clockwise=True) -> Tensor",
    nms_rotated, nms_rotated_on_cuda, nms_rotated_shape, floating);
OPBRIDGE_CPU_CUDA_KERNEL(
    "opbridge_ops::nms_rotated_batched(Tensor boxes, Tensor scores, float iou_threshold, float score_threshold, bool clockwise=True) "
    "-> Tensor",
    nms_rotated_batched, nms_rotated_batched_on_cuda, nms_rotated_batched_shape, floating);
