// The arguments of deformable convolution, checked before anything is computed from them.
#pragma once

#include "sizes.h"

namespace opbridge::compute {

struct DeformConv2dAttributes {
    int64_t stride_h = 1, stride_w = 1, padding_h = 0, padding_w = 0, dilation_h = 1, dilation_w = 1, groups = 1, offset_groups = 1;
};

struct DeformConv2dArguments : DeformConv2dAttributes {
    int64_t batch, channels, height, width, out_channels, kernel_h, kernel_w, out_height, out_width;

    int64_t taps() const { return kernel_h * kernel_w; }
    int64_t pixels() const { return out_height * out_width; }
    int64_t group_channels() const { return channels / groups; }
    int64_t group_outputs() const { return out_channels / groups; }
    int64_t group_depth() const { return group_channels() * taps(); }  // the length of a sum
};

// The size of an axis of the result; throws where the taps do not fit into the padded input.
inline int64_t deform_conv2d_size(int64_t size, int64_t kernel, int64_t stride, int64_t padding, int64_t dilation) {
    const int64_t free = size + 2 * padding - dilation * (kernel - 1) - 1;
    if (free < 0) {
        refuse("weight spans " + std::to_string(dilation * (kernel - 1) + 1) + " pixels, more than the " +
               std::to_string(size + 2 * padding) + " of x and its padding");
    }
    return free / stride + 1;
}

// The arguments for an input and weights of these shapes; throws where they do not belong together.
inline DeformConv2dArguments deform_conv2d_arguments(const DeformConv2dAttributes& attributes, Shape x, Shape weight) {
    require_rank(x, 4, "x", "(batch, channels, height, width)");
    require_rank(weight, 4, "weight", "(out_channels, channels / groups, kernel_h, kernel_w)");
    require_between(attributes.stride_h, 1, largest_attribute, "stride_h");
    require_between(attributes.stride_w, 1, largest_attribute, "stride_w");
    require_between(attributes.padding_h, 0, largest_attribute, "padding_h");
    require_between(attributes.padding_w, 0, largest_attribute, "padding_w");
    require_between(attributes.dilation_h, 1, largest_attribute, "dilation_h");
    require_between(attributes.dilation_w, 1, largest_attribute, "dilation_w");
    require_between(attributes.groups, 1, largest_attribute, "groups");
    require_between(attributes.offset_groups, 1, largest_attribute, "offset_groups");
    require_between(x[2], 0, largest_attribute, "the height of x");
    require_between(x[3], 0, largest_attribute, "the width of x");
    require_between(weight[2], 1, largest_attribute, "the height of weight");
    require_between(weight[3], 1, largest_attribute, "the width of weight");

    DeformConv2dArguments args;
    static_cast<DeformConv2dAttributes&>(args) = attributes;
    args.batch = x[0], args.channels = x[1], args.height = x[2], args.width = x[3];
    args.out_channels = weight[0], args.kernel_h = weight[2], args.kernel_w = weight[3];
    if (args.channels % args.groups != 0 || args.out_channels % args.groups != 0) {
        refuse("groups is " + std::to_string(args.groups) + ", which must divide the " + std::to_string(args.channels) +
               " channels of x and the " + std::to_string(args.out_channels) + " of the result");
    }
    if (args.channels % args.offset_groups != 0) {
        refuse("offset_groups is " + std::to_string(args.offset_groups) + ", which must divide the " + std::to_string(args.channels) +
               " channels of x");
    }
    if (weight[1] != args.group_channels()) {
        refuse("weight is for " + std::to_string(weight[1]) + " channels in each group, but x has " +
               std::to_string(args.group_channels()));
    }
    args.out_height = deform_conv2d_size(args.height, args.kernel_h, args.stride_h, args.padding_h, args.dilation_h);
    args.out_width = deform_conv2d_size(args.width, args.kernel_w, args.stride_w, args.padding_w, args.dilation_w);
    product({args.batch, args.out_channels, args.out_height, args.out_width}, "the result");
    return args;
}

// Throws where what says how x is read is not of the shape that the arguments ask for.
inline void check_offset(const DeformConv2dArguments& args, Shape offset) {
    const int64_t count = product({2, args.offset_groups, args.kernel_h, args.kernel_w}, "offset");
    require_shape(offset, {args.batch, count, args.out_height, args.out_width}, "offset",
                  "(batch, 2 * offset_groups * kernel_h * kernel_w, out_height, out_width)");
}

inline void check_mask(const DeformConv2dArguments& args, Shape mask) {
    const int64_t count = product({args.offset_groups, args.kernel_h, args.kernel_w}, "mask");
    require_shape(mask, {args.batch, count, args.out_height, args.out_width}, "mask",
                  "(batch, offset_groups * kernel_h * kernel_w, out_height, out_width)");
}

inline void check_bias(const DeformConv2dArguments& args, Shape bias) {
    require_shape(bias, {args.out_channels}, "bias", "(out_channels)");
}

}  // namespace opbridge::compute
