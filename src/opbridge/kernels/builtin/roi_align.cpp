// RoIAlign, as torchvision.ops.roi_align computes it.
#include "compute/vectorise.h"  // before all others

#define OPBRIDGE_ONE_VERSION  // compute/simd.h chooses the vectors
#include <opbridge/kernel.h>

#include "compute/parallel.h"
#include "compute/roi_align.h"
#include "device/launch_regions.h"

using namespace opbridge;

namespace {

template <class T>
void roi_align(Input<T> input, Input<T> rois, double spatial_scale, int64_t pooled_height, int64_t pooled_width, int64_t sampling_ratio,
               bool aligned, Output<T> output, Context& context) {
    const auto args = compute::roi_arguments({input.sizes(), input.rank()}, {rois.sizes(), rois.rank()}, 5, pooled_height, pooled_width,
                                             spatial_scale, sampling_ratio, aligned, false);
    auto* scratch = context.scratch<accumulate_t<T>>(compute::roi_align_scratch(args, rois.data()));
    compute::roi_align(args, input.data(), rois.data(), output.data(), scratch, compute::parallel_of(context));
}

template <class T>
void roi_align_on_cuda(Input<T> input, Input<T> rois, double spatial_scale, int64_t pooled_height, int64_t pooled_width,
                       int64_t sampling_ratio, bool aligned, Output<T> output, Context& context) {
    const auto args = compute::roi_arguments({input.sizes(), input.rank()}, {rois.sizes(), rois.rank()}, 5, pooled_height, pooled_width,
                                             spatial_scale, sampling_ratio, aligned, false);
    constexpr int few = device::few_channels_of_a_bin, many = device::channels_of_a_bin;
    device::launch_regions(context, args, device::kernel<device::align_regions<T, few>>, device::kernel<device::align_regions<T, many>>,
                           input.data(), rois.data(), output.data());
}

Shape roi_align_shape(Shape input, Shape rois, double, Dim pooled_height, Dim pooled_width, int64_t, bool) {
    require(input.rank() == 4, "input must be (batch, channels, height, width)");
    require(rois.rank() == 2, "rois must be (rois, 5): image, x1, y1, x2, y2");
    return {rois[0], input[1], pooled_height, pooled_width};
}

}  // namespace

OPBRIDGE_CPU_CUDA_KERNEL(
    "opbridge_ops::roi_align(Tensor input, Tensor rois, float spatial_scale, int pooled_height, int pooled_width, int sampling_ratio=-1, "
    "bool aligned=False) -> Tensor",
    roi_align, roi_align_on_cuda, roi_align_shape, floating);
