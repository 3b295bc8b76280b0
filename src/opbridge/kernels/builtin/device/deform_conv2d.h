// Deformable convolution on CUDA devices: what it computes says compute/deform_conv2d.h.
#pragma once

#include "sizes.h"

namespace opbridge::device {

struct Deformed {
    int64_t batch, channels, height, width, out_channels, kernel_h, kernel_w, out_height, out_width;
    int64_t stride_h, stride_w, padding_h, padding_w, dilation_h, dilation_w, groups, offset_groups;

    __host__ __device__ int64_t taps() const { return kernel_h * kernel_w; }
    __host__ __device__ int64_t pixels() const { return out_height * out_width; }
    __host__ __device__ int64_t group_channels() const { return channels / groups; }
    __host__ __device__ int64_t group_outputs() const { return out_channels / groups; }
};

// A block computes so many output channels of so many pixels.
constexpr int deformed_outputs = 64, deformed_pixels = 64, deformed_threads = 256;

// The weights as (group, tap, channel, output), so that those of one step of a sum lie side by side.
template <class T>
__global__ void pack_deformed_weights(Deformed sizes, const T* weight, accumulate_t<T>* packed);

template <class T>
__global__ void convolve_deformed(Deformed sizes, const T* x, const accumulate_t<T>* packed, const T* offset, const T* mask, const T* bias,
                                  T* y);

}  // namespace opbridge::device
