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
#include "simd.h"
#include "sizes.h"

namespace opbridge::compute {

enum class Interpolation : int64_t { linear = 0, nearest = 1, cubic = 2 };
enum class Padding : int64_t { zeros = 0, border = 1, reflection = 2 };

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
constexpr int32_t none = -(int32_t{1} << 29);     // where there is no pixel: negative, whatever two others are added to it
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

// A coordinate between the first and the last pixel. Which of them "not a number" becomes differs between torch's kernels.
template <int Dims, class A>
OPBRIDGE_INLINE A clip(A x, A last) {
    if constexpr (Dims == 2) {
        x = x > A(0) ? x : A(0);
    } else {
        x = x < A(0) ? A(0) : x;
    }
    return x < last ? x : last;
}

// Sampling along one axis. Choices that all points share are numbers here: a choice in a loop would keep it from being vectorised.
template <class A>
struct AxisOf {
    A last;            // the last pixel
    A scale, offset;   // a coordinate g is pixel (g + 1) * scale - offset
    A low, period;     // reflection: mirrors at low and low + period / 2
    A per_period;
    int32_t stride;    // from one pixel to the next

    AxisOf(int64_t size, int64_t stride, bool align_corners)
        : last(at_most(size - 1)),
          scale(static_cast<A>(align_corners ? size - 1 : size) / 2),
          offset(align_corners ? A(0) : A(0.5)),
          low(-offset),
          period(2 * std::max(A(1), static_cast<A>(align_corners ? size - 1 : size))),  // clipping makes up for a period of 0
          per_period(1 / period),
          stride(static_cast<int32_t>(stride)) {}

    template <int Dims, Padding How>
    OPBRIDGE_INLINE A padded(A x) const {
        if constexpr (How == Padding::border) return clip<Dims>(x, last);
        if constexpr (How == Padding::reflection) return clip<Dims>(reflected(x), last);
        return x;
    }

    // Mirrored at the edges (the centres of the edge pixels where corners are aligned) until it lies between them: a wave of triangles.
    OPBRIDGE_INLINE A reflected(A x) const {
        const A distance = std::abs(x - low);
        const A up = distance - std::floor(distance * per_period) * period;
        const A down = period - up;
        return low + (up < down ? up : down);
    }

    // Where the pixel begins, or `none`. Only padding with zeros leaves coordinates outside.
    template <Padding How>
    OPBRIDGE_INLINE int32_t place(A x) const {
        return How == Padding::zeros ? inside(x) : static_cast<int32_t>(x) * stride;
    }

    // The same for a pixel and the one behind it.
    template <Padding How>
    OPBRIDGE_INLINE void places(A low, int32_t& first, int32_t& second) const {
        first = place<How>(low);
        if constexpr (How == Padding::zeros) second = inside(low + 1);
        else second = low < last ? first + stride : none;
    }

  private:
    // The nearest number that is not above: from 2^24 on a float may be.
    static A at_most(int64_t value) {
        const A found = static_cast<A>(value);
        return static_cast<int64_t>(found) > value ? std::nextafter(found, A(0)) : found;
    }

    OPBRIDGE_INLINE int32_t inside(A x) const {
        const A above = x >= A(0) ? x : A(-1);
        const int32_t index = static_cast<int32_t>(above <= last ? above : A(-1));
        return index < 0 ? none : index * stride;
    }
};

template <Interpolation Mode>
constexpr int axis_taps = Mode == Interpolation::nearest  ? 1
                          : Mode == Interpolation::linear ? 2
                                                          : 4;

// The places and weights along one axis of some points.
template <class A, int64_t Points = tile>
struct AxisTaps {
    int32_t index[4][Points];
    A weight[4][Points];
};

template <int Dims, Interpolation Mode, Padding How, class A, class Taps>
OPBRIDGE_INLINE void sample_axis(const AxisOf<A> axis, const A* OPBRIDGE_RESTRICT coordinates, int64_t count, Taps& OPBRIDGE_RESTRICT to) {
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
