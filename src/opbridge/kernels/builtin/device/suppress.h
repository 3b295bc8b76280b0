// The kernels of non-maximum suppression that do not depend on what the boxes are.
#pragma once

#include "indices.h"
#include "suppression.h"

namespace opbridge::device {

template <class T>
__global__ void __launch_bounds__(256) rank_scores(const T* scores, int64_t stride, int64_t count, int64_t* order) {
    using A = accumulate_t<T>;
    __shared__ A some[256];
    const int64_t rounds = (count + thread_count() - 1) / thread_count();
    for (int64_t round = 0; round < rounds; ++round) {
        const int64_t i = round * thread_count() + thread_index();
        const A own = i < count ? static_cast<A>(scores[i * stride]) : A(0);
        int64_t before = 0;
        for (int64_t begin = 0; begin < count; begin += blockDim.x) {
            __syncthreads();
            if (begin + threadIdx.x < count) some[threadIdx.x] = static_cast<A>(scores[(begin + threadIdx.x) * stride]);
            __syncthreads();
            const int64_t here = math::min<int64_t>(blockDim.x, count - begin);
            for (int64_t k = 0; k < here; ++k) {
                const A other = some[k];
                const bool is_larger = other != other ? own == own : other > own;
                const bool is_smaller = own != own ? other == other : own > other;
                before += is_larger || (!is_smaller && begin + k < i);
            }
        }
        if (i < count) order[before] = i;
    }
}

template <int threads>
__global__ void __launch_bounds__(threads)
    suppress_boxes(const unsigned long long* words, const int64_t* order, int64_t count, int64_t* by, int64_t* suppressor) {
    __shared__ unsigned long long kept, own[word_bits];
    const int thread = static_cast<int>(threadIdx.x);
    for (int64_t r = thread; r < count; r += threads) by[r] = r;
    for (int64_t first = 0; first < count; first += word_bits) {
        const unsigned long long* row = words + first / word_bits * count;
        const int here = static_cast<int>(math::min<int64_t>(word_bits, count - first));
        __syncthreads();
        if (thread < here) own[thread] = row[first + thread];
        __syncthreads();
        if (thread == 0) {
            kept = 0;
            for (int k = 0; k < here; ++k) {
                if (by[first + k] != first + k) continue;
                const unsigned long long over = own[k] & kept;
                if (over != 0) by[first + k] = first + __ffsll(static_cast<long long>(over)) - 1;
                else kept |= 1ull << k;
            }
        }
        __syncthreads();
        for (int64_t r = first + word_bits + thread; r < count; r += threads) {
            if (by[r] != r) continue;
            const unsigned long long over = row[r] & kept;
            if (over != 0) by[r] = first + __ffsll(static_cast<long long>(over)) - 1;
        }
    }
    __syncthreads();
    for (int64_t r = thread; r < count; r += threads) suppressor[order[r]] = order[by[r]];
}

// Calls over(k) for the boxes of a word that come before box r, and sets the bits for which it is true.
template <class Over>
__device__ unsigned long long word_of(int64_t first, int64_t r, const Over& over) {
    const int here = static_cast<int>(math::min<int64_t>(word_bits, r - first));
    unsigned long long word = 0;
    for (int k = 0; k < here; ++k) {
        if (over(k)) word |= 1ull << k;
    }
    return word;
}

}  // namespace opbridge::device
