// Non-maximum suppression in groups on CUDA devices.
#include "device/suppress.h"

namespace opbridge::device {

// blockIdx.x: 64 boxes; blockIdx.y: the word, 64 boxes of higher scores.
template <class T>
__global__ void __launch_bounds__(word_bits) compare_boxes(const T* boxes, int64_t stride, const int64_t* order, int64_t count,
                                                           float threshold, double least, unsigned long long* words) {
    using A = accumulate_t<T>;
    if (blockIdx.y > blockIdx.x) return;
    __shared__ A of_word[4][word_bits];
    const int64_t first = static_cast<int64_t>(blockIdx.y) * word_bits, r = static_cast<int64_t>(blockIdx.x) * word_bits + threadIdx.x;
    if (first + threadIdx.x < count) {
        const T* box = boxes + order[first + threadIdx.x] * stride;
        for (int f = 0; f < 4; ++f) of_word[f][threadIdx.x] = static_cast<A>(box[f]);
    }
    __syncthreads();
    if (r >= count) return;
    const T* at = boxes + order[r] * stride;
    const A x1 = static_cast<A>(at[0]), y1 = static_cast<A>(at[1]), x2 = static_cast<A>(at[2]), y2 = static_cast<A>(at[3]);
    const A area = rounded_product(x2 - x1, y2 - y1);
    const auto lesser = [](A a, A b) { return b < a ? b : a; };
    const auto greater = [](A a, A b) { return a < b ? b : a; };
    words[blockIdx.y * count + r] = word_of(first, r, [&](int k) {
        const A left = of_word[0][k], top = of_word[1][k], right = of_word[2][k], low = of_word[3][k];
        const A width = greater(A(0), lesser(right, x2) - greater(left, x1));
        const A height = greater(A(0), lesser(low, y2) - greater(top, y1));
        const A shared = rounded_product(width, height);
        const A all = rounded_product(right - left, low - top) + area - shared + static_cast<A>(least);
        return shared / all >= static_cast<A>(threshold);
    });
}

}  // namespace opbridge::device
