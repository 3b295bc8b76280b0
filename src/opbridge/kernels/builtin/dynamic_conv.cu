// Convolution over time with weights given for each moment, and its gradients, on CUDA devices.
#include "device/over_time.h"

namespace opbridge::device {

template <class T>
__global__ void __launch_bounds__(256) dynamic_weight_gradient(OverTime sizes, const T* x, const T* grad, T* weight_grad) {
    using A = accumulate_t<T>;
    const int64_t head_size = sizes.channels / sizes.heads;
    const int64_t count = sizes.batch * sizes.heads * sizes.taps * sizes.time;
    for (int64_t i = thread_index(); i < count; i += thread_count()) {
        int64_t rest = i;
        const int64_t t = take_index(rest, sizes.time);
        const int64_t at = t + take_index(rest, sizes.taps) - sizes.padding;
        const int64_t head = take_index(rest, sizes.heads), batch = rest;
        A sum = 0;
        if (at >= 0 && at < sizes.time) {
            const int64_t row = (batch * sizes.channels + head * head_size) * sizes.time;
            for (int64_t c = 0; c < head_size; ++c) {
                sum += static_cast<A>(grad[row + c * sizes.time + t]) * static_cast<A>(x[row + c * sizes.time + at]);
            }
        }
        weight_grad[i] = T(sum);
    }
}

}  // namespace opbridge::device
