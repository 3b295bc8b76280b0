// One element of a dynamic convolution, for CUDA devices: see dynamic_conv.h.
#pragma once

#include <opbridge/device.h>

namespace opbridge::compute {

template <class T>
void dynamic_conv_element(int64_t i, const View<const T, 3>& x, const View<const T, 4>& weight, int64_t padding_l, const View<T, 3>& y) {
    const auto at = y.index(i);
    const int64_t heads = weight.size(1), taps = weight.size(2), time = x.size(2), t = at[2];
    const int64_t head = at[1] / (x.size(1) / heads);
    const T* weights = weight.data() + (at[0] * heads + head) * taps * time + t;
    const T* values = x.data() + i - padding_l;
    const int64_t first = math::max<int64_t>(padding_l - t, 0), last = math::min<int64_t>(taps, time + padding_l - t);
    accumulate_t<T> sum = 0;
    for (int64_t k = first; k < last; ++k) sum += static_cast<accumulate_t<T>>(weights[k * time]) * static_cast<accumulate_t<T>>(values[k]);
    y[i] = T(sum);
}

}  // namespace opbridge::compute
