// Sampling at points of a grid, as torch.nn.functional.grid_sample does it: a 4-D input by bilinear, nearest or bicubic interpolation, a
// 5-D one by (tri)linear or nearest, outside of it zeros, the border or the reflection, with corners aligned or not.
//
// A grid's coordinate g in [-1, 1] is the pixel ((g + 1) * size - 1) / 2, or (g + 1) / 2 * (size - 1) where corners are aligned; nearest
// rounds half to even; the cubic coefficient is -0.75, and its 4 x 4 pixels are padded one by one. Coordinates that are infinite or not
// numbers give what torch's CPU kernels give.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "../include/opbridge/types.h"
#include "cubic.h"
#include "gather.h"
#include "pixels.h"
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
        refuse("input has to be (batch, channels, height, width) or (batch, channels, depth, height, width), but has " +
               std::to_string(input.rank) + " dimensions");
    }
    const int64_t dims = input.rank - 2;
    product(input.begin(), input.end(), "input");
    require_rank(grid, input.rank, "grid", dims == 2 ? "(batch, height, width, 2)" : "(batch, depth, height, width, 3)");
    if (grid[0] != input[0]) {
        refuse("grid has to have the batch size of input, " + std::to_string(input[0]) + ", but has " + std::to_string(grid[0]));
    }
    if (grid[grid.rank - 1] != dims) {
        refuse("grid has to have " + std::to_string(dims) + " coordinates in its last dimension, but has " +
               std::to_string(grid[grid.rank - 1]));
    }
    require_between(mode, 0, 2, "interpolation_mode");
    require_between(padding_mode, 0, 2, "padding_mode");
    GridSampleArguments args{dims, input[0], input[1], {1, 1, 1}, {1, 1, 1}, static_cast<Interpolation>(mode),
                             static_cast<Padding>(padding_mode), align_corners};
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
constexpr int axis_taps = Mode == Interpolation::nearest ? 1 : Mode == Interpolation::linear ? 2 : 4;

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

// A tile of one channel, from the input as it lies. Each: taps along one axis.
template <int Dims, int Each, class T, int64_t Points = tile>
struct SumPlane {
    using A = accumulate_t<T>;
    const AxisTaps<A, Points>* axes;
    int64_t count;
    const T* from;
    T* to;

    template <int Bytes>
    OPBRIDGE_INLINE void run() const {
        constexpr int lanes = Bytes / static_cast<int>(sizeof(A));
        int64_t p = 0;
        for (; p + lanes <= count; p += lanes) points<Bytes>(p);
        for (; p < count; ++p) points<sizeof(A)>(p);
    }

    template <int Bytes>
    OPBRIDGE_INLINE void points(int64_t p) const {
        VectorOf<A, Bytes> sum = {};
        OPBRIDGE_UNROLL
        for (int l = 0; l < (Dims == 3 ? Each : 1); ++l) {
            OPBRIDGE_UNROLL
            for (int j = 0; j < Each; ++j) {
                PlacesOf<A, Bytes> start;
                load(start, axes[1].index[j] + p);
                if constexpr (Dims == 3) {
                    PlacesOf<A, Bytes> of_slice;
                    load(of_slice, axes[Dims - 1].index[l] + p);
                    start = start + of_slice;
                }
                VectorOf<A, Bytes> weights, row;
                along_row<Bytes>(p, start, row);
                load(weights, axes[1].weight[j] + p);
                if constexpr (Dims == 3) {
                    VectorOf<A, Bytes> of_slice;
                    load(of_slice, axes[Dims - 1].weight[l] + p);
                    weights = weights * of_slice;
                }
                if constexpr (Each == 1) {
                    sum = row;
                } else {
                    sum += row * weights;
                }
            }
        }
        A sums[Bytes / sizeof(A)];
        store(sum, sums);
        convert(sums, to + p, Bytes / static_cast<int>(sizeof(A)));
    }

    template <int Bytes>
    OPBRIDGE_INLINE void along_row(int64_t p, const PlacesOf<A, Bytes>& start, VectorOf<A, Bytes>& row) const {
        row = VectorOf<A, Bytes>{};
        OPBRIDGE_UNROLL
        for (int k = 0; k < Each; ++k) {
            PlacesOf<A, Bytes> places;
            VectorOf<A, Bytes> values, weights;
            load(places, axes[0].index[k] + p);
            places = places + start;
            gather<Bytes, T, A>(from, places, values);
            load(weights, axes[0].weight[k] + p);
            if constexpr (Each == 1) {
                row = values;
            } else {
                row += values * weights;
            }
        }
    }
};

// The points of one channel that stands alone: a vector of them at a time, as nobody else reads their places and weights.
template <int Dims, Interpolation Mode, class T>
struct SamplePlane {
    using A = accumulate_t<T>;
    const GridSampleArguments& args;
    int64_t count;
    const A* grid;  // (count, Dims), width first
    const T* from;
    T* to;

    template <int Bytes>
    OPBRIDGE_INLINE void run() const {
        switch (args.padding) {
            case Padding::zeros: return padded<Bytes, Padding::zeros>();
            case Padding::border: return padded<Bytes, Padding::border>();
            default: return padded<Bytes, Padding::reflection>();
        }
    }

    template <int Bytes, Padding How>
    OPBRIDGE_INLINE void padded() const {
        constexpr int64_t lanes = Bytes / static_cast<int>(sizeof(A));
        const AxisOf<A> x(args.in[2], 1, args.align_corners), y(args.in[1], args.in[2], args.align_corners);
        const AxisOf<A> z(args.in[0], args.in[1] * args.in[2], args.align_corners);
        int64_t p = 0;
        for (; p + lanes <= count; p += lanes) points<Bytes, How, lanes>(x, y, z, p);
        for (; p < count; ++p) points<sizeof(A), How, 1>(x, y, z, p);
    }

    template <int Bytes, Padding How, int64_t Points>
    OPBRIDGE_INLINE void points(const AxisOf<A> x, const AxisOf<A> y, const AxisOf<A> z, int64_t p) const {
        AxisTaps<A, Points> axes[Dims];
        along<How, Points>(x, 0, p, axes[0]);
        along<How, Points>(y, 1, p, axes[1]);
        if constexpr (Dims == 3) along<How, Points>(z, 2, p, axes[2]);
        SumPlane<Dims, axis_taps<Mode>, T, Points>{axes, Points, from, to + p}.template points<Bytes>(0);
    }

    template <Padding How, int64_t Points>
    OPBRIDGE_INLINE void along(const AxisOf<A> axis, int d, int64_t p, AxisTaps<A, Points>& taps) const {
        A coordinates[Points];
        const A* first = grid + p * Dims;
        if constexpr (Dims == 2) {
            load_alternate<Points>(coordinates, first, d);
        } else {
            for (int64_t i = 0; i < Points; ++i) coordinates[i] = first[i * Dims + d];
        }
        sample_axis<Dims, Mode, How>(axis, coordinates, Points, taps);
    }
};

// The pixels of a tile's points, or -1 where there is none, and their weights: [t * tile + p] for tap t of point p.
template <class A>
struct Taps {
    int32_t index[16 * tile];
    A weight[16 * tile];
};

template <int Dims, int Each, class A>
struct Combine {
    const AxisTaps<A>* axes;
    int64_t count;
    Taps<A>& to;

    template <int Bytes>
    OPBRIDGE_INLINE void run() const {
        for (int l = 0; l < (Dims == 3 ? Each : 1); ++l) {
            for (int j = 0; j < Each; ++j) {
                for (int i = 0; i < Each; ++i) {
                    const int64_t tap = (l * Each + j) * Each + i;
                    combine(i, j, l, to.index + tap * tile, to.weight + tap * tile);
                }
            }
        }
    }

    OPBRIDGE_INLINE void combine(int i, int j, int l, int32_t* OPBRIDGE_RESTRICT index, A* OPBRIDGE_RESTRICT weight) const {
        const AxisTaps<A>&x = axes[0], &y = axes[1], &z = axes[Dims - 1];
        for (int64_t p = 0; p < count; ++p) {
            const int32_t place = x.index[i][p] + y.index[j][p] + (Dims == 3 ? z.index[l][p] : 0);
            index[p] = place < 0 ? -1 : place;
            if constexpr (Each > 1) weight[p] = x.weight[i][p] * y.weight[j][p] * (Dims == 3 ? z.weight[l][p] : A(1));
        }
    }
};

// A tile of a block of channels, from pixels whose channels lie side by side.
template <int Count, int L, class A>
struct SumBlock {
    const Taps<A>& taps;
    int64_t count;
    const A* from;  // pixel 0; pixel -1 is zero
    A* to;          // (count, L)

    template <int Bytes>
    OPBRIDGE_INLINE void run() const {
        constexpr int bytes = block_bytes<Bytes, L, A>;
        constexpr int lanes = bytes / static_cast<int>(sizeof(A));
        constexpr int vectors = L / lanes;
        for (int64_t p = 0; p < count; ++p) {
            VectorOf<A, bytes> sum[vectors] = {};
            OPBRIDGE_UNROLL
            for (int k = 0; k < Count; ++k) {
                const A* pixel = from + static_cast<int64_t>(taps.index[k * tile + p]) * L;
                OPBRIDGE_UNROLL
                for (int v = 0; v < vectors; ++v) {
                    VectorOf<A, bytes> value;
                    load(value, pixel + v * lanes);
                    if constexpr (Count == 1) {
                        sum[v] = value;
                    } else {
                        sum[v] += value * taps.weight[k * tile + p];
                    }
                }
            }
            OPBRIDGE_UNROLL
            for (int v = 0; v < vectors; ++v) store(sum[v], to + p * L + v * lanes);
        }
    }
};

// Tiles of points, one after the other.
template <int Dims, Interpolation Mode, class T>
class Tiles {
  public:
    using A = accumulate_t<T>;

    Tiles(const GridSampleArguments& args, const T* grid) : args_(args), grid_(grid), axes_(Dims), taps_(1), converted_(tile * Dims) {}

    int64_t image = 0, first = 0, count = 0;  // where the tile is

    // The tile's part of the grid.
    const A* coordinates(int64_t item) {
        const int64_t points = args_.out_points();
        const int64_t tiles = ceil_divide(points, tile);
        image = item / tiles;
        first = item % tiles * tile;
        count = std::min(tile, points - first);
        const T* from = grid_ + (image * points + first) * Dims;
        if constexpr (std::is_same_v<T, A>) return from;
        for (int64_t i = 0; i < count * Dims; ++i) converted_[i] = static_cast<A>(from[i]);
        return converted_;
    }

    void move_to(int64_t item) {
        const A* grid = coordinates(item);
        at_full_width(FindAxes<Dims, Mode, A>{args_, count, grid, axes_.data()});
    }

    const AxisTaps<A>* axes() const { return axes_.data(); }

    const Taps<A>& taps() const {
        at_full_width(Combine<Dims, axis_taps<Mode>, A>{axes_.data(), count, *taps_.data()});
        return *taps_.data();
    }

  private:
    const GridSampleArguments& args_;
    const T* grid_;
    Buffer<AxisTaps<A>> axes_;
    Buffer<Taps<A>> taps_;
    Buffer<A> converted_;
};

// Whether putting channels side by side costs less than it saves.
inline bool by_blocks(const GridSampleArguments& args) {
    if (args.channels == 1 || (args.channels <= narrow_block && args.taps() <= 4)) return false;
    return args.out_points() > 0 && args.in_points() / args.out_points() < (args.taps() + 1) / 2;
}

template <class A>
PixelSizes pixel_sizes(const GridSampleArguments& args) {
    return {args.channels, args.in_points(), is_narrow<A>(args.channels) ? narrow_block : wide_block<A>};
}

template <int Dims, Interpolation Mode, class T, class Parallel>
void sample_planes(const GridSampleArguments& args, const T* input, const T* grid, T* output, Parallel&& parallel) {
    const int64_t points = args.out_points();
    parallel(args.batch * ceil_divide(points, tile), 1, [&](int64_t begin, int64_t end) {
        Tiles<Dims, Mode, T> tiles(args, grid);
        for (int64_t item = begin; item < end; ++item) {
            if (args.channels == 1) {
                const auto* coordinates = tiles.coordinates(item);
                at_full_width(SamplePlane<Dims, Mode, T>{args, tiles.count, coordinates, input + tiles.image * args.in_points(),
                                                         output + tiles.image * points + tiles.first});
                continue;
            }
            tiles.move_to(item);
            for (int64_t c = 0; c < args.channels; ++c) {
                const int64_t plane = tiles.image * args.channels + c;
                at_full_width(SumPlane<Dims, axis_taps<Mode>, T>{tiles.axes(), tiles.count, input + plane * args.in_points(),
                                                                 output + plane * points + tiles.first});
            }
        }
    });
}

template <int Dims, Interpolation Mode, int L, class T, class Parallel>
void sample_blocks(const GridSampleArguments& args, const T* input, const T* grid, T* output, accumulate_t<T>* scratch, Parallel&& parallel) {
    using A = accumulate_t<T>;
    constexpr int each = axis_taps<Mode>;
    constexpr int taps_count = Dims == 2 ? each * each : each * each * each;
    const PixelSizes sizes = pixel_sizes<A>(args);
    const int64_t points = args.out_points();
    for_each_wave(sizes, args.batch, [&](const Wave& wave) {
        gather_wave<L>(sizes, wave, input, scratch, parallel);
        parallel(wave.images * ceil_divide(points, tile), 1, [&](int64_t begin, int64_t end) {
            Tiles<Dims, Mode, T> tiles(args, grid + wave.image * points * args.dims);
            const Buffer<A> sums(tile * L), turned(tile * L);
            for (int64_t item = begin; item < end; ++item) {
                tiles.move_to(item);
                const Taps<A>& taps = tiles.taps();
                for (int64_t block = 0; block < wave.blocks; ++block) {
                    const A* from = scratch + (tiles.image * wave.blocks + block) * sizes.block_size() + L;
                    const int64_t channel = (wave.block + block) * L;
                    T* to = output + ((wave.image + tiles.image) * args.channels + channel) * points + tiles.first;
                    at_full_width(SumBlock<taps_count, L, A>{taps, tiles.count, from, sums});
                    at_full_width(ScatterPixels<L, T>{sums, tiles.count, std::min<int64_t>(L, args.channels - channel), to, points, turned});
                }
            }
        });
    });
}

template <int Dims, Interpolation Mode, class T, class Parallel>
void sample(const GridSampleArguments& args, const T* input, const T* grid, T* output, accumulate_t<T>* scratch, Parallel&& parallel) {
    using A = accumulate_t<T>;
    if (!by_blocks(args)) return sample_planes<Dims, Mode>(args, input, grid, output, parallel);
    if (is_narrow<A>(args.channels)) return sample_blocks<Dims, Mode, narrow_block>(args, input, grid, output, scratch, parallel);
    sample_blocks<Dims, Mode, wide_block<A>>(args, input, grid, output, scratch, parallel);
}

}  // namespace grid_sample_detail

// How many numbers of accumulate_t<T> grid_sample needs as scratch.
template <class T>
int64_t grid_sample_scratch(const GridSampleArguments& args) {
    using namespace grid_sample_detail;
    using A = accumulate_t<T>;
    if (args.batch == 0 || args.channels == 0 || !by_blocks(args)) return 0;
    const PixelSizes sizes = pixel_sizes<A>(args);
    return wave_size(sizes, args.batch);
}

// output (batch, channels, *out) of input (batch, channels, *in) and grid (batch, *out, dims).
template <class T, class Parallel>
void grid_sample(const GridSampleArguments& args, const T* input, const T* grid, T* output, accumulate_t<T>* scratch, Parallel&& parallel) {
    using namespace grid_sample_detail;
    if (args.batch == 0 || args.channels == 0 || args.out_points() == 0) return;
    if (args.dims == 3) {
        if (args.mode == Interpolation::nearest) return sample<3, Interpolation::nearest>(args, input, grid, output, scratch, parallel);
        return sample<3, Interpolation::linear>(args, input, grid, output, scratch, parallel);
    }
    if (args.mode == Interpolation::nearest) return sample<2, Interpolation::nearest>(args, input, grid, output, scratch, parallel);
    if (args.mode == Interpolation::cubic) return sample<2, Interpolation::cubic>(args, input, grid, output, scratch, parallel);
    sample<2, Interpolation::linear>(args, input, grid, output, scratch, parallel);
}

}  // namespace opbridge::compute
