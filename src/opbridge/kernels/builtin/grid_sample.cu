// grid_sample on CUDA devices.
#include "compute/cubic.h"
#include "device/grid_sample.h"
#include "device/indices.h"

namespace opbridge::device {

using compute::Interpolation;
using compute::Padding;
using compute::grid_sample_detail::axis_taps;
using compute::grid_sample_detail::AxisOf;

namespace {

// The pixels along an axis that a point reads, and what each counts.
template <class A, int count>
struct Taps {
    int index[count];
    A weight[count];
};

template <int dims, Interpolation mode, Padding how, class A, int count>
__device__ void find_taps(const AxisOf<A>& axis, A coordinate, Taps<A, count>& to) {
    const A at = (coordinate + 1) * axis.scale - axis.offset;
    if constexpr (mode == Interpolation::nearest) {
        to.index[0] = axis.template place<how>(math::rint(axis.template padded<dims, how>(at)));
        to.weight[0] = A(1);
    } else if constexpr (mode == Interpolation::linear) {
        const A x = axis.template padded<dims, how>(at);
        const A low = math::floor(x);
        axis.template places<how>(low, to.index[0], to.index[1]);
        // Infinity counts for nothing in a 5-D input, but is "not a number" in a 4-D one.
        to.weight[0] = dims == 3 && to.index[0] < 0 ? A(0) : low + 1 - x;
        to.weight[1] = dims == 3 && to.index[1] < 0 ? A(0) : x - low;
    } else {
        const A low = math::floor(at);
        compute::cubic_weights(at - low, to.weight);
        for (int t = 0; t < 4; ++t) to.index[t] = axis.template place<how>(axis.template padded<dims, how>(low + A(t - 1)));
    }
}

template <int dims, Interpolation mode, class A, int count>
__device__ void find_taps(const AxisOf<A>& axis, Padding padding, A coordinate, Taps<A, count>& to) {
    switch (padding) {
        case Padding::zeros: return find_taps<dims, mode, Padding::zeros>(axis, coordinate, to);
        case Padding::border: return find_taps<dims, mode, Padding::border>(axis, coordinate, to);
        default: return find_taps<dims, mode, Padding::reflection>(axis, coordinate, to);
    }
}

}  // namespace

template <class T, int dims, Interpolation mode>
__global__ void __launch_bounds__(256) sample_at_points(Sampled sizes, const T* input, const T* grid, T* output) {
    using A = accumulate_t<T>;
    constexpr int each = axis_taps<mode>, slices = dims == 3 ? each : 1;
    const AxisOf<A> x_axis(sizes.in[2], 1, sizes.align_corners), y_axis(sizes.in[1], sizes.in[2], sizes.align_corners);
    const AxisOf<A> z_axis(sizes.in[0], sizes.in[1] * sizes.in[2], sizes.align_corners);
    const int64_t groups = (sizes.channels + sizes.each - 1) / sizes.each, plane = sizes.in[0] * sizes.in[1] * sizes.in[2];
    const int64_t count = sizes.batch * groups * sizes.out_points;
    for (int64_t i = thread_index(); i < count; i += thread_count()) {
        int64_t rest = i;
        const int64_t point = take_index(rest, sizes.out_points);
        const int64_t first = take_index(rest, groups) * sizes.each, image = rest;
        const T* at = grid + (image * sizes.out_points + point) * dims;
        Taps<A, each> x, y, z;
        find_taps<dims, mode>(x_axis, sizes.padding, static_cast<A>(at[0]), x);
        find_taps<dims, mode>(y_axis, sizes.padding, static_cast<A>(at[1]), y);
        if constexpr (dims == 3) find_taps<dims, mode>(z_axis, sizes.padding, static_cast<A>(at[2]), z);
        const int64_t last = math::min<int64_t>(first + sizes.each, sizes.channels);
        const T* from = input + (image * sizes.channels + first) * plane;
        T* to = output + (image * sizes.channels + first) * sizes.out_points + point;
        for (int64_t c = first; c < last; ++c, from += plane, to += sizes.out_points) {
            A sum = 0;
            for (int l = 0; l < slices; ++l) {
                for (int j = 0; j < each; ++j) {
                    const int start = y.index[j] + (dims == 3 ? z.index[l] : 0);
                    A row = 0;
                    for (int k = 0; k < each; ++k) {
                        const int place = start + x.index[k];
                        const A value = place < 0 ? A(0) : static_cast<A>(from[place]);
                        if (mode == Interpolation::nearest) row = value;
                        else row += value * x.weight[k];
                    }
                    if (mode == Interpolation::nearest) sum = row;
                    else sum += row * (dims == 3 ? y.weight[j] * z.weight[l] : y.weight[j]);
                }
            }
            *to = T(sum);
        }
    }
}

}  // namespace opbridge::device
