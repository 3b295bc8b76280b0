// Dynamic and lightweight convolution over time on CUDA devices: what they compute says compute/dynamic_conv.h.
#pragma once

#include "sizes.h"

namespace opbridge::device {

struct OverTime {
    int64_t batch, channels, heads, taps, time, padding;
};

// Channels that a thread computes with the same weights.
constexpr int few_channels = 2, many_channels = 8;

// The convolution, or backwards the gradient of x, of dy.
template <class T, bool dynamic, bool backward, int each>
__global__ void correlate_over_time(OverTime sizes, const T* x, const T* weight, T* y);

// The gradient of a dynamic convolution's weights.
template <class T>
__global__ void dynamic_weight_gradient(OverTime sizes, const T* x, const T* grad, T* weight_grad);

// That of a lightweight one's: a block for each weight and part of the sequences and channels, and then the sums of the parts.
template <class T>
__global__ void lightweight_weight_sums(OverTime sizes, const T* x, const T* grad, double* partial);
template <class T>
__global__ void lightweight_weight_gradient(OverTime sizes, int64_t parts, const double* partial, T* weight_grad);

}  // namespace opbridge::device
