// RoIAlign of rotated regions, as mmcv's roi_align_rotated computes it.
#include "compute/vectorise.h"  // before all others

#define OPBRIDGE_ONE_VERSION  // compute/simd.h chooses the vectors
#include <opbridge/kernel.h>

#include "compute/parallel.h"
#include "compute/roi_align_rotated.h"
#include "device/launch_regions.h"

using namespace opbridge;

namespace {

template <class T>
void roi_align_rotated(Input<T> input, Input<T> rois, double spatial_scale, int64_t pooled_height, int64_t pooled_width,
                       int64_t sampling_ratio, bool aligned, bool clockwise, Output<T> output, Context& context) {
    const auto args = compute::roi_arguments({input.sizes(), input.rank()}, {rois.sizes(), rois.rank()}, 6, pooled_height, pooled_width,
                                             spatial_scale, sampling_ratio, aligned, clockwise);
    auto* scratch = context.scratch<accumulate_t<T>>(compute::roi_align_rotated_scratch<T>(args));
    compute::roi_align_rotated(args, input.data(), rois.data(), output.data(), scratch, compute::parallel_of(context));
}

template <class T>
void roi_align_rotated_on_cuda(Input<T> input, Input<T> rois, double spatial_scale, int64_t pooled_height, int64_t pooled_width,
                               int64_t sampling_ratio, bool aligned, bool clockwise, Output<T> output, Context& context) {
    const auto args = compute::roi_arguments({input.sizes(), input.rank()}, {rois.sizes(), rois.rank()}, 6, pooled_height, pooled_width,
                                             spatial_scale, sampling_ratio, aligned, clockwise);
    constexpr int few = device::few_channels_of_a_bin, many = device::channels_of_a_bin;
    device::launch_regions(context, args, device::kernel<device::align_rotated_regions<T, few>>,
                           device::kernel<device::align_rotated_regions<T, many>>, input.data(), rois.data(), output.data());
}

Shape roi_align_rotated_shape(Shape input, Shape rois, double, Dim pooled_height, Dim pooled_width, int64_t, bool, bool) {
    require(input.rank() == 4, "input must be (batch, channels, height, width)");
    require(rois.rank() == 2, "rois must be (rois, 6): image, x, y, width, height, angle");
    return {rois[0], input[1], pooled_height, pooled_width};
}

}  // namespace

OPBRIDGE_CPU_CUDA_KERNEL(
    "opbridge_ops::roi_align_rotated(Tensor input, Tensor rois, float spatial_scale, int pooled_height, int pooled_width, "
    "int sampling_ratio=0, bool aligned=True, bool clockwise=False) -> Tensor",
    roi_align_rotated, roi_align_rotated_on_cuda, roi_align_rotated_shape, floating);
