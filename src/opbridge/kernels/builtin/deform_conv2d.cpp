// Deformable convolution, versions 1 and 2, as torchvision.ops.deform_conv2d and mmcv's ModulatedDeformConv2d compute it.
#define OPBRIDGE_ONE_VERSION  // compute/simd.h chooses the vectors
#include <opbridge/kernel.h>

#include "compute/deform_conv2d.h"
#include "compute/parallel.h"
#include "device/deform_conv2d.h"

using namespace opbridge;

namespace {

template <class T>
struct Given {
    const Input<T>&x, &weight, &offset;
    const std::optional<Input<T>>&mask, &bias;
    const Ints &stride, &padding, &dilation;
    int64_t groups, offset_groups;

    // Throws where they do not belong together.
    compute::DeformConv2dArguments arguments() const {
        require(stride.size() == 2 && padding.size() == 2 && dilation.size() == 2,
                "stride, padding and dilation must have two elements each");
        const auto args = compute::deform_conv2d_arguments(
            {stride[0], stride[1], padding[0], padding[1], dilation[0], dilation[1], groups, offset_groups}, {x.sizes(), x.rank()},
            {weight.sizes(), weight.rank()});
        compute::check_offset(args, {offset.sizes(), offset.rank()});
        if (mask) compute::check_mask(args, {mask->sizes(), mask->rank()});
        if (bias) compute::check_bias(args, {bias->sizes(), bias->rank()});
        return args;
    }

    const T* mask_data() const { return mask ? mask->data() : nullptr; }
    const T* bias_data() const { return bias ? bias->data() : nullptr; }
};

template <class T>
void deform_conv2d(Input<T> x, Input<T> weight, Input<T> offset, std::optional<Input<T>> mask, std::optional<Input<T>> bias, Ints stride,
                   Ints padding, Ints dilation, int64_t groups, int64_t offset_groups, Output<T> y, Context& context) {
    const Given<T> given{x, weight, offset, mask, bias, stride, padding, dilation, groups, offset_groups};
    compute::deform_conv2d(given.arguments(), x.data(), weight.data(), offset.data(), given.mask_data(), given.bias_data(), y.data(),
                           compute::parallel_of(context));
}

template <class T>
void deform_conv2d_on_cuda(Input<T> x, Input<T> weight, Input<T> offset, std::optional<Input<T>> mask, std::optional<Input<T>> bias,
                           Ints stride, Ints padding, Ints dilation, int64_t groups, int64_t offset_groups, Output<T> y, Context& context) {
    const Given<T> given{x, weight, offset, mask, bias, stride, padding, dilation, groups, offset_groups};
    const auto args = given.arguments();
    compute::require_between(compute::product({args.height, args.width}, "x"), 0, compute::largest_attribute, "the pixels of a channel");
    if (y.empty()) return;
    const device::Deformed sizes{args.batch,     args.channels,   args.height,     args.width,    args.out_channels, args.kernel_h,
                                 args.kernel_w,  args.out_height, args.out_width,  args.stride_h, args.stride_w,     args.padding_h,
                                 args.padding_w, args.dilation_h, args.dilation_w, args.groups,   args.offset_groups};
    auto* packed = context.scratch<accumulate_t<T>>(weight.size());
    launch<device::pack_deformed_weights<T>>(context, blocks_for(weight.size(), 256), 256, 0, sizes, weight.data(), packed);
    const Dim3 grid(args.batch * compute::ceil_divide(args.pixels(), device::deformed_pixels),
                    args.groups * compute::ceil_divide(args.group_outputs(), device::deformed_outputs));
    launch<device::convolve_deformed<T>>(context, grid, device::deformed_threads, 0, sizes, x.data(), packed, offset.data(),
                                         given.mask_data(), given.bias_data(), y.data());
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

OPBRIDGE_CPU_CUDA_KERNEL(
    "opbridge_ops::deform_conv2d(Tensor x, Tensor weight, Tensor offset, Tensor? mask, Tensor? bias, int[2] stride=1, int[2] padding=0, "
    "int[2] dilation=1, int groups=1, int offset_groups=1) -> Tensor",
    deform_conv2d, deform_conv2d_on_cuda, deform_conv2d_shape, floating);
