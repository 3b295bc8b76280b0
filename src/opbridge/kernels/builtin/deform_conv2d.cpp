// Deformable convolution, versions 1 and 2, as torchvision.ops.deform_conv2d and mmcv's ModulatedDeformConv2d compute it.
#define OPBRIDGE_ONE_VERSION  // compute/simd.h chooses the vectors
#include <opbridge/kernel.h>

#include "compute/deform_conv2d.h"
#include "compute/parallel.h"

using namespace opbridge;

namespace {

template <class T>
void deform_conv2d(Input<T> x, Input<T> weight, Input<T> offset, std::optional<Input<T>> mask, std::optional<Input<T>> bias, Ints stride,
                   Ints padding, Ints dilation, int64_t groups, int64_t offset_groups, Output<T> y, Context& context) {
    require(stride.size() == 2 && padding.size() == 2 && dilation.size() == 2, "stride, padding and dilation must have two elements each");
    const auto args =
        compute::deform_conv2d_arguments({stride[0], stride[1], padding[0], padding[1], dilation[0], dilation[1], groups, offset_groups},
                                         {x.sizes(), x.rank()}, {weight.sizes(), weight.rank()});
    compute::check_offset(args, {offset.sizes(), offset.rank()});
    if (mask) compute::check_mask(args, {mask->sizes(), mask->rank()});
    if (bias) compute::check_bias(args, {bias->sizes(), bias->rank()});
    compute::deform_conv2d(args, x.data(), weight.data(), offset.data(), mask ? mask->data() : nullptr, bias ? bias->data() : nullptr,
                           y.data(), compute::parallel_of(context));
}

// The kernel holds the result's size, which offset has, against that of x and the attributes.
Shape deform_conv2d_shape(Shape x, Shape weight, Shape offset, std::optional<Shape>, std::optional<Shape>, Ints, Ints, Ints, int64_t,
                          int64_t) {
    require(x.rank() == 4, "x must be (batch, channels, height, width)");
    require(weight.rank() == 4, "weight must be (out_channels, channels / groups, kernel_h, kernel_w)");
    require(offset.rank() == 4, "offset must be (batch, 2 * offset_groups * kernel_h * kernel_w, out_height, out_width)");
    return {x[0], weight[0], offset[2], offset[3]};
}

}  // namespace

OPBRIDGE_KERNEL(
    "opbridge_ops::deform_conv2d(Tensor x, Tensor weight, Tensor offset, Tensor? mask, Tensor? bias, int[2] stride=1, int[2] padding=0, "
    "int[2] dilation=1, int groups=1, int offset_groups=1) -> Tensor",
    deform_conv2d, deform_conv2d_shape, floating);
