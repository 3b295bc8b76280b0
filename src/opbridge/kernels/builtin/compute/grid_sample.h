// Sampling at points of a grid, as torch.nn.functional.grid_sample does it: a 4-D input by bilinear, nearest or bicubic interpolation, a
// 5-D one by (tri)linear or nearest, outside of it zeros, the border or the reflection, with corners aligned or not.
#pragma once

#include <algorithm>
#include <cstdint>
#include <thread>
#include <type_traits>

#include <opbridge/types.h>

#include "gather.h"
#include "grid_points.h"
#include "pixels.h"
#include "simd.h"
#include "sizes.h"

namespace opbridge::compute {

namespace grid_sample_detail {

// What has code of its own wherever a point is worked out. What is done once for many points asks for it when it runs, so that it is
// compiled once for all.
template <int Dims, Interpolation Mode>
struct Kind {
    static constexpr int dims = Dims, each = axis_taps<Mode>;  // each: taps along one axis
    static constexpr Interpolation mode = Mode;
};

template <class Body>
void of_kind(const GridSampleArguments& args, Body&& body) {
    const bool nearest = args.mode == Interpolation::nearest;
    if (args.dims == 3 && nearest) body(Kind<3, Interpolation::nearest>{});
    else if (args.dims == 3) body(Kind<3, Interpolation::linear>{});
    else if (nearest) body(Kind<2, Interpolation::nearest>{});
    else if (args.mode == Interpolation::cubic) body(Kind<2, Interpolation::cubic>{});
    else body(Kind<2, Interpolation::linear>{});
}

// A tile of one channel, from the input as it lies. Each: taps along one axis.
template <int Dims, int Each, class T>
struct SumPlane {
    using A = accumulate_t<T>;
    const AxisTaps<A>* axes;
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

// The pixels of a tile's points, or -1 where there is none, and their weights: [t * tile + p] for tap t of point p.
template <class A>
struct Taps {
    int32_t index[16 * tile];
    A weight[16 * tile];
};

template <int Dims, class A>
struct Combine {
    int each;
    const AxisTaps<A>* axes;
    int64_t count;
    Taps<A>& to;

    template <int Bytes>
    OPBRIDGE_INLINE void run() const {
        for (int l = 0; l < (Dims == 3 ? each : 1); ++l) {
            for (int j = 0; j < each; ++j) {
                for (int i = 0; i < each; ++i) {
                    const int64_t tap = (l * each + j) * each + i;
                    combine(i, j, l, to.index + tap * tile, to.weight + tap * tile);
                }
            }
        }
    }

    // The weight of the one tap of "nearest" is not set and not read.
    OPBRIDGE_INLINE void combine(int i, int j, int l, int32_t* OPBRIDGE_RESTRICT index, A* OPBRIDGE_RESTRICT weight) const {
        const AxisTaps<A>&x = axes[0], &y = axes[1], &z = axes[Dims - 1];
        for (int64_t p = 0; p < count; ++p) {
            const int32_t place = x.index[i][p] + y.index[j][p] + (Dims == 3 ? z.index[l][p] : 0);
            index[p] = place < 0 ? -1 : place;
        }
        if (each == 1) return;
        for (int64_t p = 0; p < count; ++p) {
            weight[p] = x.weight[i][p] * y.weight[j][p] * (Dims == 3 ? z.weight[l][p] : A(1));
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
template <class T>
class Tiles {
  public:
    using A = accumulate_t<T>;

    Tiles(const GridSampleArguments& args, const T* grid)
        : args_(args), grid_(grid), axes_(args.dims), taps_(1), converted_(std::is_same_v<T, A> ? 0 : tile * args.dims) {}

    int64_t image = 0, first = 0, count = 0;  // where the tile is

    void move_to(int64_t item) {
        const int64_t points = args_.out_points();
        const int64_t tiles = ceil_divide(points, tile);
        image = item / tiles;
        first = item % tiles * tile;
        count = std::min(tile, points - first);
        const T* from = grid_ + (image * points + first) * args_.dims;
        if constexpr (std::is_same_v<T, A>) {
            find(from);
        } else {
            for (int64_t i = 0; i < count * args_.dims; ++i) converted_[i] = static_cast<A>(from[i]);
            find(converted_);
        }
    }

    const AxisTaps<A>* axes() const { return axes_.data(); }

    const Taps<A>& taps() const {
        of_kind(args_, [&](auto kind) { at_full_width(Combine<kind.dims, A>{kind.each, axes_.data(), count, *taps_.data()}); });
        return *taps_.data();
    }

  private:
    void find(const A* coordinates) {
        of_kind(args_, [&](auto kind) { at_full_width(FindAxes<kind.dims, kind.mode, A>{args_, count, coordinates, axes_.data()}); });
    }

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

// Whether each thread takes whole blocks, with a copy of its own: where that fits the cache next to it, and there are enough for all.
template <class A>
bool by_blocks_apart(const GridSampleArguments& args) {
    static const int64_t cores = std::max(1U, std::thread::hardware_concurrency());
    constexpr int64_t cache = (int64_t{1} << 21) / static_cast<int64_t>(sizeof(A));
    const PixelSizes sizes = pixel_sizes<A>(args);
    return sizes.block_size() <= cache && args.batch * sizes.blocks() >= 4 * cores;
}

template <class T, class Parallel>
void sample_planes(const GridSampleArguments& args, const T* input, const T* grid, T* output, Parallel&& parallel) {
    const int64_t points = args.out_points();
    parallel(args.batch * ceil_divide(points, tile), 1, [&](int64_t begin, int64_t end) {
        Tiles<T> tiles(args, grid);
        for (int64_t item = begin; item < end; ++item) {
            tiles.move_to(item);
            for (int64_t c = 0; c < args.channels; ++c) {
                const int64_t plane = tiles.image * args.channels + c;
                const T* from = input + plane * args.in_points();
                T* to = output + plane * points + tiles.first;
                of_kind(args, [&](auto kind) { at_full_width(SumPlane<kind.dims, kind.each, T>{tiles.axes(), tiles.count, from, to}); });
            }
        }
    });
}

// Samples a block of channels at the points of a tile.
template <int L, class T>
class SampleTile {
  public:
    using A = accumulate_t<T>;

    SampleTile(const GridSampleArguments& args, T* output) : args_(args), output_(output), sums_(tile * L), turned_(tile * L) {}

    // From a block whose first pixel is `from` to the same block of the output's image.
    void of_block(const Tiles<T>& tiles, const Taps<A>& taps, const A* from, int64_t image, int64_t block) const {
        const int64_t channel = block * L, points = args_.out_points();
        T* to = output_ + (image * args_.channels + channel) * points + tiles.first;
        of_kind(args_, [&](auto kind) {
            constexpr int count = kind.dims == 2 ? kind.each * kind.each : kind.each * kind.each * kind.each;
            at_full_width(SumBlock<count, L, A>{taps, tiles.count, from, sums_});
        });
        at_full_width(ScatterPixels<L, T>{sums_, tiles.count, std::min<int64_t>(L, args_.channels - channel), to, points, turned_});
    }

  private:
    const GridSampleArguments& args_;
    T* output_;
    const Buffer<A> sums_, turned_;
};

// Places and weights are worked out anew for each block, which takes less than reading what another core has put in order.
template <int L, class T, class Parallel>
void sample_blocks_apart(const GridSampleArguments& args, const T* input, const T* grid, T* output, Parallel&& parallel) {
    using A = accumulate_t<T>;
    const PixelSizes sizes = pixel_sizes<A>(args);
    const int64_t tiles_of_image = ceil_divide(args.out_points(), tile);
    parallel(args.batch * sizes.blocks(), 1, [&](int64_t begin, int64_t end) {
        Tiles<T> tiles(args, grid);
        const SampleTile<L, T> sample(args, output);
        const Buffer<A> pixels(sizes.block_size());
        for (int64_t item = begin; item < end; ++item) {
            const int64_t image = item / sizes.blocks(), block = item % sizes.blocks();
            const Wave wave{image, 1, block, 1};
            at_full_width(GatherPixels<L, T>{sizes, wave, 0, GatherPixels<L, T>::pieces(sizes), input, pixels});
            for (int64_t each = 0; each < tiles_of_image; ++each) {
                tiles.move_to(image * tiles_of_image + each);
                sample.of_block(tiles, tiles.taps(), pixels + L, image, block);
            }
        }
    });
}

template <int L, class T, class Parallel>
void sample_blocks(const GridSampleArguments& args, const T* input, const T* grid, T* output, accumulate_t<T>* scratch,
                   Parallel&& parallel) {
    using A = accumulate_t<T>;
    const PixelSizes sizes = pixel_sizes<A>(args);
    if (by_blocks_apart<A>(args)) return sample_blocks_apart<L>(args, input, grid, output, parallel);
    const int64_t points = args.out_points();
    for_each_wave(sizes, args.batch, [&](const Wave& wave) {
        gather_wave<L>(sizes, wave, input, scratch, parallel);
        parallel(wave.images * ceil_divide(points, tile), 1, [&](int64_t begin, int64_t end) {
            Tiles<T> tiles(args, grid + wave.image * points * args.dims);
            const SampleTile<L, T> sample(args, output);
            for (int64_t item = begin; item < end; ++item) {
                tiles.move_to(item);
                const Taps<A>& taps = tiles.taps();
                for (int64_t block = 0; block < wave.blocks; ++block) {
                    const A* from = scratch + (tiles.image * wave.blocks + block) * sizes.block_size() + L;
                    sample.of_block(tiles, taps, from, wave.image + tiles.image, wave.block + block);
                }
            }
        });
    });
}

template <class T, class Parallel>
void sample(const GridSampleArguments& args, const T* input, const T* grid, T* output, accumulate_t<T>* scratch, Parallel&& parallel) {
    using A = accumulate_t<T>;
    if (!by_blocks(args)) return sample_planes(args, input, grid, output, parallel);
    if (is_narrow<A>(args.channels)) return sample_blocks<narrow_block>(args, input, grid, output, scratch, parallel);
    sample_blocks<wide_block<A>>(args, input, grid, output, scratch, parallel);
}

}  // namespace grid_sample_detail

// How many numbers of accumulate_t<T> grid_sample needs as scratch.
template <class T>
int64_t grid_sample_scratch(const GridSampleArguments& args) {
    using namespace grid_sample_detail;
    using A = accumulate_t<T>;
    if (args.batch == 0 || args.channels == 0 || !by_blocks(args) || by_blocks_apart<A>(args)) return 0;
    const PixelSizes sizes = pixel_sizes<A>(args);
    return wave_size(sizes, args.batch);
}

// output (batch, channels, *out) of input (batch, channels, *in) and grid (batch, *out, dims).
template <class T, class Parallel>
void grid_sample(const GridSampleArguments& args, const T* input, const T* grid, T* output, accumulate_t<T>* scratch, Parallel&& parallel) {
    using namespace grid_sample_detail;
    if (args.batch == 0 || args.channels == 0 || args.out_points() == 0) return;
    sample(args, input, grid, output, scratch, parallel);
}

}  // namespace opbridge::compute
