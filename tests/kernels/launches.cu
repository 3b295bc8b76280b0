// Kernels as people write them in CUDA: shared memory, barriers, shuffles, atomics, templates. launches.cpp launches them.
#include <opbridge/device.h>

#include "launches.h"

using namespace opbridge;

// Each row by a block: its largest element, and the sum, in shared memory of the size that the launch gives.
template <class T>
__global__ void softmax_rows(const T* x, T* y, int64_t columns) {
    using A = accumulate_t<T>;
    A* shared = dynamic_shared<A>();
    const T* row = x + blockIdx.x * columns;
    const auto reduced = [&](A own, auto combine) {
        shared[threadIdx.x] = own;
        for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
            __syncthreads();
            if (threadIdx.x < half) shared[threadIdx.x] = combine(shared[threadIdx.x], shared[threadIdx.x + half]);
        }
        __syncthreads();
        const A found = shared[0];
        __syncthreads();
        return found;
    };
    A largest = A(row[0]);
    for (int64_t c = threadIdx.x; c < columns; c += blockDim.x) largest = math::max(largest, A(row[c]));
    largest = reduced(largest, [](A a, A b) { return math::max(a, b); });
    A sum = 0;
    for (int64_t c = threadIdx.x; c < columns; c += blockDim.x) sum += math::exp(A(row[c]) - largest);
    sum = reduced(sum, [](A a, A b) { return a + b; });
    for (int64_t c = threadIdx.x; c < columns; c += blockDim.x) y[blockIdx.x * columns + c] = T(math::exp(A(row[c]) - largest) / sum);
}

namespace {

// Counts in shared memory first, and then those of all blocks together.
template <int bins, bool inside_only>
__global__ void count_bins(const float* x, int64_t count, Range range, int* counts) {
    __shared__ int own[bins];
    for (int bin = threadIdx.x; bin < bins; bin += blockDim.x) own[bin] = 0;
    __syncthreads();
    for (int64_t i = thread_index(); i < count; i += thread_count()) {
        const float place = (x[i] - range.low) / (range.high - range.low) * bins;
        if (inside_only && !(place >= 0 && place < bins)) continue;
        atomicAdd(&own[static_cast<int>(math::clamp(place, 0.0f, bins - 1.0f))], 1);
    }
    __syncthreads();
    for (int bin = threadIdx.x; bin < bins; bin += blockDim.x) atomicAdd(&counts[bin], own[bin]);
}

}  // namespace

__global__ void shares(const int* counts, int64_t total, float* out) {
    out[threadIdx.x] = total == 0 ? 0 : static_cast<float>(counts[threadIdx.x]) / static_cast<float>(total);
}

// The number of positive elements, by shuffles in each warp.
__global__ void count_positive(const float* x, int64_t count, unsigned int* found) {
    int own = 0;
    for (int64_t i = thread_index(); i < count; i += thread_count()) own += x[i] > 0;
    for (unsigned by = 16; by > 0; by /= 2) own += __shfl_down_sync(0xffffffffu, own, by);
    if (threadIdx.x % 32 == 0) atomicAdd(found, static_cast<unsigned int>(own));
}

template <class T>
__global__ void take(Array<const T> x, Array<const int64_t> index, Array<T> y) {
    for (int64_t i = thread_index(); i < y.size(); i += thread_count()) y[i] = x[index[i]];
}

template <class T>
__global__ void repeat_rows(const T* x, int64_t count, int64_t size, T* y) {
    for (int64_t i = thread_index(); i < count; i += thread_count()) y[i] = x[i % size];
}
