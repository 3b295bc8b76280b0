// What declarations of kernels for CUDA devices need, on the host and on the device.
#pragma once

#ifdef OPBRIDGE_ON_DEVICE
#include <opbridge/device.h>
#else
#include <algorithm>
#include <type_traits>

#include <opbridge/kernel.h>

// As many threads as a large device runs at once. Where there would be more, a thread takes several channels, which share what it knows.
#ifndef OPBRIDGE_FULL_DEVICE
#define OPBRIDGE_FULL_DEVICE (1 << 18)
#endif

namespace opbridge::device {

constexpr int64_t full_device = OPBRIDGE_FULL_DEVICE;

// A kernel as a value, for a function that is given one of several.
template <auto function>
inline constexpr std::integral_constant<decltype(function), function> kernel{};

// How many channels a thread computes at each of `points`.
inline int64_t planes_of_a_thread(int64_t points, int64_t channels) {
    constexpr int64_t most = 8;
    return std::clamp<int64_t>(points * channels / full_device, 1, std::min(most, std::max<int64_t>(channels, 1)));
}

}  // namespace opbridge::device
#endif
