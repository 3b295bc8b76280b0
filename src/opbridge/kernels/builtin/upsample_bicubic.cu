// Bicubic interpolation on CUDA devices.
#include "compute/cubic.h"
#include "device/indices.h"
#include "device/upsample_bicubic.h"

namespace opbridge::device {

namespace {

// The four pixels along an axis that a pixel of the output is made of, and what each counts.
template <class A>
__device__ void find_taps(const Scaled& sizes, int axis, int64_t at, int64_t* index, A* weight) {
    const double place = static_cast<double>(at), ratio = sizes.ratio[axis];
    const double x = sizes.align_corners ? rounded_product(place, ratio) : rounded_product(place + 0.5, ratio) - 0.5;
    const double low = math::floor(x);
    double weights[4];
    compute::cubic_weights(x - low, weights);
    for (int t = 0; t < 4; ++t) {
        const double clamped = math::min(math::max(low + (t - 1), 0.0), static_cast<double>(sizes.in[axis] - 1));
        index[t] = static_cast<int64_t>(clamped);
        weight[t] = static_cast<A>(weights[t]);
    }
}

}  // namespace

template <class T>
__global__ void __launch_bounds__(256) upsample(Scaled sizes, const T* input, T* output) {
    using A = accumulate_t<T>;
    const int64_t pixels = sizes.out[0] * sizes.out[1], groups = (sizes.planes + sizes.each - 1) / sizes.each;
    const int64_t count = pixels * groups;
    for (int64_t i = thread_index(); i < count; i += thread_count()) {
        int64_t rest = i;
        const int64_t column = take_index(rest, sizes.out[1]), row = take_index(rest, sizes.out[0]), first = rest * sizes.each;
        int64_t rows[4], columns[4];
        A down[4], across[4];
        find_taps(sizes, 0, row, rows, down);
        find_taps(sizes, 1, column, columns, across);
        const int64_t last = math::min<int64_t>(first + sizes.each, sizes.planes);
        const T* from = input + first * sizes.in[0] * sizes.in[1];
        T* to = output + first * pixels + row * sizes.out[1] + column;
        for (int64_t plane = first; plane < last; ++plane, from += sizes.in[0] * sizes.in[1], to += pixels) {
            A sum = 0;
            for (int j = 0; j < 4; ++j) {
                const T* of_row = from + rows[j] * sizes.in[1];
                A part = 0;
                for (int k = 0; k < 4; ++k) part += across[k] * static_cast<A>(of_row[columns[k]]);
                sum += down[j] * part;
            }
            *to = T(sum);
        }
    }
}

}  // namespace opbridge::device
