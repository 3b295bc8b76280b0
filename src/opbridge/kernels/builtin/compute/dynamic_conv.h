// Dynamic and lightweight convolution over time, as in Lite Transformer and fairseq: depthwise, with weights shared by the channels of
// a head, and in the dynamic one given for each moment.
//
//     y[b, c, t] = sum over k of weight[b, h, k, t] * x[b, c, t + k - padding_l]      h = c / (channels / heads)
//
// with weight[h, k] in the lightweight one, and x zero before its beginning and after its end. Sums are taken in accumulate_t<T>.
#pragma once

#include <opbridge/types.h>

#include "rows.h"
#include "simd.h"
#include "sizes.h"

namespace opbridge::compute {

struct DynamicConvArguments {
    bool dynamic;  // a weight for each moment of each sequence, or one for all
    int64_t batch, channels, heads, taps, time, padding_l;

    int64_t head_size() const { return heads == 0 ? 0 : channels / heads; }
};

// The arguments for tensors of these shapes; throws where they do not belong together.
inline DynamicConvArguments dynamic_conv_arguments(bool dynamic, Shape x, Shape weight, int64_t padding_l) {
    require_rank(x, 3, "x", "(batch, channels, time)");
    require_rank(weight, dynamic ? 4 : 2, "weight", dynamic ? "(batch, heads, taps, time)" : "(heads, taps)");
    const DynamicConvArguments args{dynamic, x[0], x[1], weight[dynamic ? 1 : 0], weight[dynamic ? 2 : 1], x[2], padding_l};
    if (dynamic) {
        require_shape(weight, {x[0], args.heads, args.taps, x[2]}, "weight", "(batch, heads, taps, time)");
    }
    if (args.heads == 0 ? args.channels != 0 : args.channels % args.heads != 0) {
        refuse("x has " + std::to_string(args.channels) + " channels, which is not a multiple of the " + std::to_string(args.heads) +
               " heads of weight");
    }
    require_between(padding_l, 0, std::max<int64_t>(args.taps - 1, 0), "padding_l");
    require_between(args.taps, 0, largest_attribute, "the number of taps");
    return args;
}

inline void check_gradient(const DynamicConvArguments& args, Shape grad) {
    require_shape(grad, {args.batch, args.channels, args.time}, "grad", "(batch, channels, time)");
}

namespace dynamic_conv_detail {

constexpr int64_t tile = 128;     // moments that are computed together: their weights stay in the innermost cache
constexpr int64_t chunk = 64;     // channels that share the preparation of weights
constexpr int64_t most_lanes = 16;

// y[r][t] = sum over k of w[k][t] * x[r][t + k] for Rows rows and Wide vectors of moments.
template <int Bytes, int Rows, int Wide, class A>
OPBRIDGE_INLINE void correlate_block(int64_t taps, const A* w, int64_t w_stride, const A* x, int64_t x_stride, A* y, int64_t y_stride) {
    constexpr int lanes = Bytes / sizeof(A);
    VectorOf<A, Bytes> sums[Rows][Wide] = {};
    for (int64_t k = 0; k < taps; ++k) {
        VectorOf<A, Bytes> weights[Wide];
        OPBRIDGE_UNROLL
        for (int v = 0; v < Wide; ++v) load(weights[v], w + k * w_stride + v * lanes);
        OPBRIDGE_UNROLL
        for (int r = 0; r < Rows; ++r) {
            OPBRIDGE_UNROLL
            for (int v = 0; v < Wide; ++v) {
                VectorOf<A, Bytes> values;
                load(values, x + r * x_stride + k + v * lanes);
                sums[r][v] += weights[v] * values;
            }
        }
    }
    OPBRIDGE_UNROLL
    for (int r = 0; r < Rows; ++r) {
        OPBRIDGE_UNROLL
        for (int v = 0; v < Wide; ++v) store(sums[r][v], y + r * y_stride + v * lanes);
    }
}

template <int Bytes, int Rows, class A>
OPBRIDGE_INLINE void correlate_rows(int64_t count, int64_t taps, const A* w, int64_t w_stride, const A* x, int64_t x_stride, A* y,
                                    int64_t y_stride) {
    constexpr int lanes = Bytes / sizeof(A);
    int64_t t = 0;
    for (; t + 2 * lanes <= count; t += 2 * lanes) {
        correlate_block<Bytes, Rows, 2>(taps, w + t, w_stride, x + t, x_stride, y + t, y_stride);
    }
    for (; t < count; t += lanes) correlate_block<Bytes, Rows, 1>(taps, w + t, w_stride, x + t, x_stride, y + t, y_stride);
}

// w_grad[k][t] += sum over r of grad[r][t] * x[r][t + k] for Taps taps and Wide vectors of moments.
template <int Bytes, int Taps, int Wide, class A>
OPBRIDGE_INLINE void weight_block(int64_t rows, const A* grad, int64_t grad_stride, const A* x, int64_t x_stride, A* w_grad,
                                  int64_t w_stride) {
    constexpr int lanes = Bytes / sizeof(A);
    VectorOf<A, Bytes> sums[Taps][Wide];
    OPBRIDGE_UNROLL
    for (int k = 0; k < Taps; ++k) {
        OPBRIDGE_UNROLL
        for (int v = 0; v < Wide; ++v) load(sums[k][v], w_grad + k * w_stride + v * lanes);
    }
    for (int64_t r = 0; r < rows; ++r) {
        VectorOf<A, Bytes> grads[Wide];
        OPBRIDGE_UNROLL
        for (int v = 0; v < Wide; ++v) load(grads[v], grad + r * grad_stride + v * lanes);
        OPBRIDGE_UNROLL
        for (int k = 0; k < Taps; ++k) {
            OPBRIDGE_UNROLL
            for (int v = 0; v < Wide; ++v) {
                VectorOf<A, Bytes> values;
                load(values, x + r * x_stride + k + v * lanes);
                sums[k][v] += grads[v] * values;
            }
        }
    }
    OPBRIDGE_UNROLL
    for (int k = 0; k < Taps; ++k) {
        OPBRIDGE_UNROLL
        for (int v = 0; v < Wide; ++v) store(sums[k][v], w_grad + k * w_stride + v * lanes);
    }
}

template <int Bytes, int Taps, class A>
OPBRIDGE_INLINE void weight_taps(int64_t count, int64_t rows, const A* grad, int64_t grad_stride, const A* x, int64_t x_stride, A* w_grad,
                                 int64_t w_stride) {
    constexpr int lanes = Bytes / sizeof(A);
    int64_t t = 0;
    for (; t + 2 * lanes <= count; t += 2 * lanes) {
        weight_block<Bytes, Taps, 2>(rows, grad + t, grad_stride, x + t, x_stride, w_grad + t, w_stride);
    }
    for (; t < count; t += lanes) weight_block<Bytes, Taps, 1>(rows, grad + t, grad_stride, x + t, x_stride, w_grad + t, w_stride);
}

// How many rows (or taps) are summed at once: as many as the processor has registers for.
template <int Bytes>
constexpr int rows_at_once = Bytes == 64 ? 8 : 4;
constexpr int64_t most_rows = 8;

// A tile's convolution of some rows.
template <class A>
struct Correlate {
    int64_t rows, count, taps, length;  // count moments of y and w, length of x
    const A* w;
    const A* x;
    A* y;

    template <int Bytes>
    OPBRIDGE_INLINE void run() const {
        int64_t r = 0;
        for (constexpr int most = rows_at_once<Bytes>; r + most <= rows; r += most) accumulate<Bytes, most>(r);
        if constexpr (rows_at_once<Bytes> > 4) {
            for (; r + 4 <= rows; r += 4) accumulate<Bytes, 4>(r);
        }
        for (; r + 2 <= rows; r += 2) accumulate<Bytes, 2>(r);
        for (; r < rows; ++r) accumulate<Bytes, 1>(r);
    }

    template <int Bytes, int Rows>
    OPBRIDGE_INLINE void accumulate(int64_t r) const {
        correlate_rows<Bytes, Rows>(count, taps, w, count, x + r * length, length, y + r * count, count);
    }
};

// What some rows add to the gradient of a tile's weights.
template <class A>
struct AddProducts {
    int64_t rows, count, taps, length;
    const A* grad;
    const A* x;
    A* w_grad;

    template <int Bytes>
    OPBRIDGE_INLINE void run() const {
        int64_t k = 0;
        for (constexpr int most = rows_at_once<Bytes>; k + most <= taps; k += most) accumulate<Bytes, most>(k);
        if constexpr (rows_at_once<Bytes> > 4) {
            for (; k + 4 <= taps; k += 4) accumulate<Bytes, 4>(k);
        }
        for (; k + 2 <= taps; k += 2) accumulate<Bytes, 2>(k);
        for (; k < taps; ++k) accumulate<Bytes, 1>(k);
    }

    template <int Bytes, int Taps>
    OPBRIDGE_INLINE void accumulate(int64_t k) const {
        weight_taps<Bytes, Taps>(count, rows, grad, count, x + k, length, w_grad + k * count, count);
    }
};

// A tile's place among all: which sequence, which head, which moments, which of the head's channels.
struct TilePosition {
    int64_t batch, head, start, count, padded, channel, channels;

    TilePosition(const DynamicConvArguments& args, int64_t item, int64_t chunks) {
        const int64_t tiles = ceil_divide(args.time, tile);
        const int64_t part = item % chunks;
        const int64_t outer = item / chunks;
        start = outer % tiles * tile;
        head = outer / tiles % args.heads;
        batch = outer / tiles / args.heads;
        count = std::min(tile, args.time - start);
        padded = round_up(count, most_lanes);
        const int64_t size = args.head_size();
        const int64_t each = chunks == 1 ? size : chunk;
        channel = head * size + part * each;
        channels = std::min(each, size - part * each);
    }

    // Where the sequence of a channel begins in x.
    int64_t row(const DynamicConvArguments& args, int64_t index) const { return (batch * args.channels + channel + index) * args.time; }
};

// The weights of a tile. Backwards, dx[s] = sum over k of w[k, s - k + padding_l] * dy[s - k + padding_l] is the same convolution, of dy
// with padding taps - 1 - padding_l and the taps in reverse order, each moved by as much as dy is.
template <class T, class A>
OPBRIDGE_INLINE void tile_of_weights(const DynamicConvArguments& args, bool backward, const TilePosition& place, const T* weight, A* to) {
    for (int64_t k = 0; k < args.taps; ++k) {
        const int64_t tap = backward ? args.taps - 1 - k : k;
        A* row = to + k * place.padded;
        if (!args.dynamic) {
            fill(row, place.padded, static_cast<A>(weight[place.head * args.taps + tap]));
            continue;
        }
        const T* from = weight + ((place.batch * args.heads + place.head) * args.taps + tap) * args.time;
        const int64_t shift = backward ? k - (args.taps - 1 - args.padding_l) : 0;
        window(from, args.time, place.start + shift, place.padded, row);
    }
}

// The convolution, or backwards the gradient of x, of the tiles from `begin` to `end`.
template <class T>
void correlate_tiles(const DynamicConvArguments& args, bool backward, int64_t begin, int64_t end, int64_t chunks, const T* x,
                     const T* weight, T* y) {
    using A = accumulate_t<T>;
    const int64_t padded = std::min(tile, round_up(args.time, most_lanes));
    const int64_t padding = backward ? args.taps - 1 - args.padding_l : args.padding_l;
    const Buffer<A> w_tile(args.taps * padded), x_rows(most_rows * (padded + args.taps)), y_rows(most_rows * padded);
    for (int64_t item = begin; item < end; ++item) {
        const TilePosition place(args, item, chunks);
        const int64_t length = place.padded + args.taps;
        tile_of_weights(args, backward, place, weight, w_tile.data());
        for (int64_t c = 0; c < place.channels; c += most_rows) {
            const int64_t rows = std::min(most_rows, place.channels - c);
            for (int64_t r = 0; r < rows; ++r) {
                window(x + place.row(args, c + r), args.time, place.start - padding, length, x_rows + r * length);
            }
            at_full_width(Correlate<A>{rows, place.padded, args.taps, length, w_tile, x_rows, y_rows});
            for (int64_t r = 0; r < rows; ++r) convert(y_rows + r * place.padded, y + place.row(args, c + r) + place.start, place.count);
        }
    }
}

// The gradient of the weights of the tiles from `begin` to `end`. That of a lightweight convolution is left in `partial`: the sums over a
// tile, (batch, heads, tiles, taps).
template <class T, class A>
void weight_gradient_tiles(const DynamicConvArguments& args, int64_t begin, int64_t end, const T* x, const T* grad, T* w_grad, A* partial) {
    const int64_t padded = std::min(tile, round_up(args.time, most_lanes));
    const int64_t most = std::min(chunk, args.head_size());
    const Buffer<A> w_tile(args.taps * padded), x_rows(most * (padded + args.taps)), grad_rows(most * padded);
    for (int64_t item = begin; item < end; ++item) {
        const TilePosition place(args, item, 1);
        const int64_t length = place.padded + args.taps;
        fill(w_tile.data(), args.taps * place.padded, A(0));
        for (int64_t c = 0; c < place.channels; c += most) {
            const int64_t rows = std::min(most, place.channels - c);
            for (int64_t r = 0; r < rows; ++r) {
                const int64_t row = place.row(args, c + r);
                window(x + row, args.time, place.start - args.padding_l, length, x_rows + r * length);
                window(grad + row + place.start, place.count, 0, place.padded, grad_rows + r * place.padded);
            }
            at_full_width(AddProducts<A>{rows, place.padded, args.taps, length, grad_rows, x_rows, w_tile});
        }
        for (int64_t k = 0; k < args.taps; ++k) {
            const A* row = w_tile + k * place.padded;
            if (args.dynamic) {
                T* to = w_grad + ((place.batch * args.heads + place.head) * args.taps + k) * args.time + place.start;
                convert(row, to, place.count);
            } else {
                A sum = 0;
                for (int64_t t = 0; t < place.count; ++t) sum += row[t];
                partial[item * args.taps + k] = sum;
            }
        }
    }
}

template <class T, class Parallel>
void correlate(const DynamicConvArguments& args, bool backward, const T* x, const T* weight, T* y, Parallel&& parallel) {
    if (args.batch == 0 || args.channels == 0 || args.time == 0) return;
    const int64_t chunks = ceil_divide(args.head_size(), chunk);
    const int64_t items = args.batch * args.heads * ceil_divide(args.time, tile) * chunks;
    const int64_t sums = std::min(chunk, args.head_size()) * std::min(tile, args.time);
    parallel(items, grain_for(sums * (args.taps + 1)),
             [&](int64_t begin, int64_t end) { correlate_tiles(args, backward, begin, end, chunks, x, weight, y); });
}

}  // namespace dynamic_conv_detail

// y (batch, channels, time) of x (batch, channels, time) and weight.
template <class T, class Parallel>
void dynamic_conv(const DynamicConvArguments& args, const T* x, const T* weight, T* y, Parallel&& parallel) {
    dynamic_conv_detail::correlate(args, false, x, weight, y, parallel);
}

// The gradient of x, of a loss whose gradient at y is `grad`.
template <class T, class Parallel>
void dynamic_conv_backward_x(const DynamicConvArguments& args, const T* grad, const T* weight, T* x_grad, Parallel&& parallel) {
    dynamic_conv_detail::correlate(args, true, grad, weight, x_grad, parallel);
}

// The gradient of weight. That of a lightweight convolution is summed over sequences and time by tiles, always in the same order.
template <class T, class Parallel>
void dynamic_conv_backward_weight(const DynamicConvArguments& args, const T* x, const T* grad, T* w_grad, Parallel&& parallel) {
    using namespace dynamic_conv_detail;
    using A = accumulate_t<T>;
    const int64_t tiles = ceil_divide(args.time, tile);
    const int64_t items = args.channels == 0 ? 0 : args.batch * args.heads * tiles;
    const int64_t sums = args.head_size() * std::min(tile, args.time);
    const Buffer<A> partial(args.dynamic ? 0 : items * args.taps);
    parallel(items, grain_for(sums * (args.taps + 1)),
             [&](int64_t begin, int64_t end) { weight_gradient_tiles(args, begin, end, x, grad, w_grad, partial.data()); });
    if (args.dynamic) {
        if (items == 0) fill(w_grad, args.batch * args.heads * args.taps * args.time, T(A(0)));
        return;
    }
    for (int64_t h = 0; h < args.heads; ++h) {
        for (int64_t k = 0; k < args.taps; ++k) {
            double sum = 0;
            for (int64_t b = 0; items != 0 && b < args.batch; ++b) {
                for (int64_t i = 0; i < tiles; ++i) sum += partial[((b * args.heads + h) * tiles + i) * args.taps + k];
            }
            w_grad[h * args.taps + k] = static_cast<T>(static_cast<A>(sum));
        }
    }
}

}  // namespace opbridge::compute
