// Non-maximum suppression in groups: as mmcv's nms_match, whose groups are indices.split(sizes), and for batches and classes as mmdeploy's
// NMSMatch.
#include "compute/vectorise.h"  // before all others

#define OPBRIDGE_ONE_VERSION  // compute/simd.h chooses the vectors
#include <opbridge/kernel.h>

#include <algorithm>

#include "compute/nms_match.h"
#include "compute/parallel.h"
#include "device/suppression.h"

using namespace opbridge;

namespace {

template <class T>
void nms_match(Input<T> dets, double iou_threshold, Output<int64_t> indices, Output<int64_t> sizes, Context& context) {
    const auto args = compute::nms_match_arguments({dets.sizes(), dets.rank()}, iou_threshold);
    const auto matches = compute::nms_match(args, dets.data(), compute::parallel_of(context));
    std::copy(matches.boxes.begin(), matches.boxes.end(), indices.data());
    sizes.allocate({static_cast<int64_t>(matches.sizes.size())});
    std::copy(matches.sizes.begin(), matches.sizes.end(), sizes.data());
}

template <class T>
void nms_match_batched(Input<T> boxes, Input<T> scores, double iou_threshold, double score_threshold, Output<int64_t> pairs,
                       Context& context) {
    const auto args = compute::nms_match_batched_arguments({boxes.sizes(), boxes.rank()}, {scores.sizes(), scores.rank()}, iou_threshold,
                                                           score_threshold);
    const auto rows = compute::nms_match_batched(args, boxes.data(), scores.data(), compute::parallel_of(context));
    pairs.allocate({static_cast<int64_t>(rows.size() / 4), 4});
    std::copy(rows.begin(), rows.end(), pairs.data());
}

// The groups of boxes whose scores are `scores[i * score_stride]`, on the host.
template <class T>
compute::Matches match_on_cuda(Context& context, device::Suppression& suppression, const compute::NmsMatchArguments& args, const T* boxes,
                               int64_t stride, const T* scores, int64_t score_stride, double least) {
    const auto compare = [&](const Dim3& grid, const Dim3& block, int64_t* order, unsigned long long* words) {
        launch<device::compare_boxes<T>>(context, grid, block, 0, boxes, stride, order, args.boxes, args.iou_threshold, least, words);
    };
    const auto found = suppression.run(scores, score_stride, compare);
    return compute::grouped(found.order, found.suppressor);
}

template <class T>
void nms_match_on_cuda(Input<T> dets, double iou_threshold, Output<int64_t> indices, Output<int64_t> sizes, Context& context) {
    const auto args = compute::nms_match_arguments({dets.sizes(), dets.rank()}, iou_threshold);
    device::Suppression suppression(context, args.boxes);
    const auto matches = match_on_cuda(context, suppression, args, dets.data(), 5, dets.data() + 4, 5, 0);
    sizes.allocate({static_cast<int64_t>(matches.sizes.size())});
    copy_to_device(context, matches.boxes.data(), indices.size(), indices.data());
    copy_to_device(context, matches.sizes.data(), sizes.size(), sizes.data());
}

template <class T>
void nms_match_batched_on_cuda(Input<T> boxes, Input<T> scores, double iou_threshold, double score_threshold, Output<int64_t> pairs,
                               Context& context) {
    const auto args = compute::nms_match_batched_arguments({boxes.sizes(), boxes.rank()}, {scores.sizes(), scores.rank()}, iou_threshold,
                                                           score_threshold);
    device::Suppression suppression(context, args.boxes);
    const std::vector<T> on_host = copy_to_host(context, scores.data(), scores.size());
    const auto rows = compute::nms_match_rows(args, on_host.data(), [&](int64_t b, int64_t c) {
        return match_on_cuda(context, suppression, args, boxes.data() + b * args.boxes * 4, 4,
                             scores.data() + (b * args.classes + c) * args.boxes, 1, compute::least_union);
    });
    pairs.allocate({static_cast<int64_t>(rows.size() / 4), 4});
    copy_to_device(context, rows.data(), pairs.size(), pairs.data());
}

Shapes nms_match_shapes(Shape dets, double) {
    require(dets.rank() == 2, "dets must be (boxes, 5): x1, y1, x2, y2, score");
    return {{dets[0]}, {Dim::computed()}};
}

Shape nms_match_batched_shape(Shape, Shape, double, double) { return {Dim::computed(), 4}; }

}  // namespace

OPBRIDGE_CPU_CUDA_KERNEL("opbridge_ops::nms_match(Tensor dets, float iou_threshold) -> (Tensor, Tensor)", nms_match, nms_match_on_cuda,
                         nms_match_shapes, floating);
OPBRIDGE_CPU_CUDA_KERNEL(
    "opbridge_ops::nms_match_batched(Tensor boxes, Tensor scores, float iou_threshold, float score_threshold) -> Tensor", nms_match_batched,
    nms_match_batched_on_cuda, nms_match_batched_shape, floating);
