// Overlap of rotated boxes, as mmcv's box_iou_rotated: every box of boxes1 with every one of boxes2, or in pairs where they are aligned.
#include "compute/vectorise.h"  // before all others

#define OPBRIDGE_ONE_VERSION  // compute/simd.h chooses the vectors
#include <opbridge/kernel.h>

#include "compute/parallel.h"
#include "compute/rotated_boxes.h"
#include "device/box_iou_rotated.h"

using namespace opbridge;

namespace {

template <class T>
void box_iou_rotated(Input<T> boxes1, Input<T> boxes2, const std::string& mode, bool aligned, bool clockwise, Output<T> output,
                     Context& context) {
    require(mode == "iou" || mode == "iof", "mode must be iou or iof");
    const auto args = compute::box_iou_rotated_arguments({boxes1.sizes(), boxes1.rank()}, {boxes2.sizes(), boxes2.rank()}, mode == "iof",
                                                         aligned, clockwise);
    auto* scratch = context.scratch<accumulate_t<T>>(compute::box_iou_rotated_scratch(args));
    compute::box_iou_rotated(args, boxes1.data(), boxes2.data(), output.data(), scratch, compute::parallel_of(context));
}

template <class T>
void box_iou_rotated_on_cuda(Input<T> boxes1, Input<T> boxes2, const std::string& mode, bool aligned, bool clockwise, Output<T> output,
                             Context& context) {
    require(mode == "iou" || mode == "iof", "mode must be iou or iof");
    const auto args = compute::box_iou_rotated_arguments({boxes1.sizes(), boxes1.rank()}, {boxes2.sizes(), boxes2.rank()}, mode == "iof",
                                                         aligned, clockwise);
    auto* fields = context.scratch<accumulate_t<T>>(compute::box_iou_rotated_scratch(args));
    launch<device::prepare_boxes<T>>(context, blocks_for(args.second, 256), 256, 0, boxes2.data(), args.second, clockwise, fields);
    const device::Pairs sizes{args.first, args.second, args.over_first, args.aligned, args.clockwise};
    launch<device::overlap_boxes<T>>(context, blocks_for(output.size(), 128), 128, 0, sizes, boxes1.data(), fields, output.data());
}

Shape box_iou_rotated_shape(Shape boxes1, Shape boxes2, const std::string&, bool aligned, bool) {
    require(boxes1.rank() == 2, "boxes1 must be (boxes, 5)");
    require(boxes2.rank() == 2, "boxes2 must be (boxes, 5)");
    return aligned ? Shape{boxes1[0]} : Shape{boxes1[0], boxes2[0]};
}

}  // namespace

OPBRIDGE_CPU_CUDA_KERNEL(
    "opbridge_ops::box_iou_rotated(Tensor boxes1, Tensor boxes2, str mode='iou', bool aligned=False, bool clockwise=True) -> Tensor",
    box_iou_rotated, box_iou_rotated_on_cuda, box_iou_rotated_shape, floating);
