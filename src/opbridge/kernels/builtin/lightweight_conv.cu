// Convolution over time with weights that stay the same, and its gradients, on CUDA devices.
#include "device/over_time.h"

namespace opbridge::device {

// Sums in double precision, always in the same order.
template <class T>
__global__ void __launch_bounds__(128) lightweight_weight_sums(OverTime sizes, const T* x, const T* grad, double* partial) {
    using A = accumulate_t<T>;
    __shared__ double sums[128];
    const int64_t weight = blockIdx.x, part = blockIdx.y, parts = gridDim.y;
    const int64_t head = weight / sizes.taps, shift = weight % sizes.taps - sizes.padding;
    const int64_t head_size = sizes.channels / sizes.heads, rows = sizes.batch * head_size;
    const int64_t begin = shift < 0 ? -shift : 0, end = shift > 0 ? sizes.time - shift : sizes.time;
    double sum = 0;
    for (int64_t r = part; r < rows; r += parts) {
        const int64_t row = (r / head_size * sizes.channels + head * head_size + r % head_size) * sizes.time;
        A own = 0;
        for (int64_t t = begin + threadIdx.x; t < end; t += blockDim.x) {
            own += static_cast<A>(grad[row + t]) * static_cast<A>(x[row + t + shift]);
        }
        sum += static_cast<double>(own);
    }
    sums[threadIdx.x] = sum;
    for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
    }
    if (threadIdx.x == 0) partial[part * gridDim.x + weight] = sums[0];
}

template <class T>
__global__ void __launch_bounds__(128) lightweight_weight_gradient(OverTime sizes, int64_t parts, const double* partial, T* weight_grad) {
    const int64_t weights = sizes.heads * sizes.taps;
    for (int64_t i = thread_index(); i < weights; i += thread_count()) {
        double sum = 0;
        for (int64_t part = 0; part < parts; ++part) sum += partial[part * weights + i];
        weight_grad[i] = T(static_cast<accumulate_t<T>>(sum));
    }
}

}  // namespace opbridge::device
