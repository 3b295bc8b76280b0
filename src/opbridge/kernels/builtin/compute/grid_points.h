// The arguments of grid_sample, and where the points of its grid fall in an image: the pixels along each axis, and their weights.
//
// A grid's coordinate g in [-1, 1] is the pixel ((g + 1) * size - 1) / 2, or (g + 1) / 2 * (size - 1) where corners are aligned; nearest
// rounds half to even; the cubic coefficient is -0.75, and its 4 x 4 pixels are padded one by one. Coordinates that are infinite or not
// numbers give what torch's CPU kernels give.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>

#include "cubic.h"
#include "grid_axis.h"
#include "simd.h"
#include "sizes.h"

namespace opbridge::compute {

struct GridSampleArguments {
    int64_t dims;  // 2 or 3
    int64_t batch, channels;
    int64_t in[3], out[3];  // depth (1 in a 4-D input), height, width
    Interpolation mode;
    Padding padding;
    bool align_corners;

    int64_t in_points() const { return in[0] * in[1] * in[2]; }
    int64_t out_points() const { return out[0] * out[1] * out[2]; }
    int64_t taps() const { return mode == Interpolation::nearest ? 1 : mode == Interpolation::cubic ? 16 : dims == 2 ? 4 : 8; }
};

namespace grid_sample_detail {
constexpr int64_t most_pixels = int64_t{1} << 28;  // of a channel
}

// The arguments for tensors of these shapes; throws where they do not belong together.
inline GridSampleArguments grid_sample_arguments(Shape input, Shape grid, int64_t mode, int64_t padding_mode, bool align_corners) {
    if (input.rank != 4 && input.rank != 5) {
        refuse("input must be (batch, channels, height, width) or (batch, channels, depth, height, width), but has " +
               std::to_string(input.rank) + " dimensions");
    }
    const int64_t dims = input.rank - 2;
    product(input.begin(), input.end(), "input");
    require_rank(grid, input.rank, "grid", dims == 2 ? "(batch, height, width, 2)" : "(batch, depth, height, width, 3)");
    if (grid[0] != input[0]) {
        refuse("grid must have the batch size of input, " + std::to_string(input[0]) + ", but has " + std::to_string(grid[0]));
    }
    if (grid[grid.rank - 1] != dims) {
        refuse("grid must have " + std::to_string(dims) + " coordinates in its last dimension, but has " +
               std::to_string(grid[grid.rank - 1]));
    }
    require_between(mode, 0, 2, "interpolation_mode");
    require_between(padding_mode, 0, 2, "padding_mode");
    GridSampleArguments args{
        dims,         input[0], input[1], {1, 1, 1}, {1, 1, 1}, static_cast<Interpolation>(mode), static_cast<Padding>(padding_mode),
        align_corners};
    if (args.mode == Interpolation::cubic && dims == 3) {
        refuse("interpolation_mode 2 (bicubic) needs a 4-D input, but input has 5 dimensions");
    }
    for (int64_t d = 0; d < dims; ++d) {
        args.in[3 - dims + d] = input[2 + d];
        args.out[3 - dims + d] = grid[1 + d];
        if (input[2 + d] == 0) refuse("input has no pixels: " + text(input.begin(), input.end()));
    }
    product({args.batch, args.channels, args.out[0], args.out[1], args.out[2]}, "the output");
    if (args.in_points() > grid_sample_detail::most_pixels) refuse("input has more than 2^28 pixels: " + text(input.begin(), input.end()));
    return args;
}

namespace grid_sample_detail {

constexpr int64_t tile = 128;  // points whose places and weights are worked out together

// The places and weights along one axis of some points.
template <class A>
struct AxisTaps {
    int32_t index[4][tile];
    A weight[4][tile];
};

template <int Dims, Interpolation Mode, Padding How, class A>
OPBRIDGE_INLINE void sample_axis(const AxisOf<A> axis, const A* OPBRIDGE_RESTRICT coordinates, int64_t count,
                                 AxisTaps<A>& OPBRIDGE_RESTRICT to) {
    for (int64_t p = 0; p < count; ++p) {
        const A at = (coordinates[p] + 1) * axis.scale - axis.offset;
        if constexpr (Mode == Interpolation::nearest) {
            to.index[0][p] = axis.template place<How>(std::nearbyint(axis.template padded<Dims, How>(at)));
        } else if constexpr (Mode == Interpolation::linear) {
            const A x = axis.template padded<Dims, How>(at);
            const A low = std::floor(x);
            axis.template places<How>(low, to.index[0][p], to.index[1][p]);
            // Infinity counts for nothing in a 5-D input, but is "not a number" in a 4-D one.
            to.weight[0][p] = Dims == 3 && to.index[0][p] < 0 ? A(0) : low + 1 - x;
            to.weight[1][p] = Dims == 3 && to.index[1][p] < 0 ? A(0) : x - low;
        } else {
            const A low = std::floor(at);
            A weights[4];
            cubic_weights(at - low, weights);
            OPBRIDGE_UNROLL
            for (int t = 0; t < 4; ++t) {
                to.index[t][p] = axis.template place<How>(axis.template padded<Dims, How>(low + A(t - 1)));
                to.weight[t][p] = weights[t];
            }
        }
    }
}

template <int Dims, Interpolation Mode, class A>
struct FindAxes {
    const GridSampleArguments& args;
    int64_t count;
    const A* grid;  // of the tile: (count, Dims), width first
    AxisTaps<A>* axes;

    template <int Bytes>
    OPBRIDGE_INLINE void run() const {
        A coordinates[tile];
        int64_t stride = 1;
        for (int d = 0; d < Dims; ++d) {
            for (int64_t p = 0; p < count; ++p) coordinates[p] = grid[p * Dims + d];
            const AxisOf<A> axis(args.in[2 - d], stride, args.align_corners);
            switch (args.padding) {
                case Padding::zeros: sample_axis<Dims, Mode, Padding::zeros>(axis, coordinates, count, axes[d]); break;
                case Padding::border: sample_axis<Dims, Mode, Padding::border>(axis, coordinates, count, axes[d]); break;
                default: sample_axis<Dims, Mode, Padding::reflection>(axis, coordinates, count, axes[d]); break;
            }
            stride *= args.in[2 - d];
        }
    }
};

}  // namespace grid_sample_detail
}  // namespace opbridge::compute
