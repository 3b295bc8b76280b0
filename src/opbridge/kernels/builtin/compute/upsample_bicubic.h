// Bicubic interpolation, as torch.nn.functional.interpolate(mode="bicubic") does it without antialiasing: coefficient -0.75, pixels
// beyond the border are those on it. Output y lies at (y + 0.5) * ratio - 0.5 in the input, or at y * (in - 1) / (out - 1) where corners
// are aligned; the ratio is 1 / scale where a scale is given and in / out where it is not.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

#include <opbridge/types.h>

#include "cubic.h"
#include "rows.h"
#include "simd.h"
#include "sizes.h"

namespace opbridge::compute {

struct UpsampleBicubicArguments {
    int64_t planes;  // batch * channels
    int64_t in[2], out[2];
    double ratio[2];
    bool align_corners;
};

// How many pixels `size` becomes at a scale.
inline int64_t scaled_size(int64_t size, double scale) {
    if (!(scale > 0) || !std::isfinite(scale)) refuse("scales must be positive and finite, but one is " + std::to_string(scale));
    const double scaled = static_cast<double>(size) * scale;
    if (!(scaled < 0x1p62))
        refuse("the scaled output exceeds the maximum memory size: " + std::to_string(size) + " * " + std::to_string(scale));
    return static_cast<int64_t>(scaled);
}

namespace upsample_bicubic_detail {

inline UpsampleBicubicArguments arguments(Shape input, const int64_t* out, const double* scales, bool align_corners) {
    require_rank(input, 4, "input", "(batch, channels, height, width)");
    UpsampleBicubicArguments args{product({input[0], input[1]}, "input"), {input[2], input[3]}, {out[0], out[1]}, {}, align_corners};
    for (int d = 0; d < 2; ++d) {
        const char* what = d == 0 ? "height" : "width";
        if (args.in[d] == 0) refuse(std::string("input has no pixels: its ") + what + " is 0");
        require_between(args.in[d], 0, largest_attribute, "the input's height and width");
        if (args.out[d] <= 0) refuse(std::string("the output's ") + what + " must be positive, but is " + std::to_string(args.out[d]));
        const double in = static_cast<double>(args.in[d]), size = static_cast<double>(args.out[d]);
        args.ratio[d] = align_corners ? (args.out[d] > 1 ? (in - 1) / (size - 1) : 0) : scales != nullptr ? 1 / scales[d] : in / size;
    }
    product({input[0], input[1], args.out[0], args.out[1]}, "the output");
    return args;
}

}  // namespace upsample_bicubic_detail

// The arguments where the scales (of height and width) are given; throws where they make no output.
inline UpsampleBicubicArguments upsample_bicubic_arguments(Shape input, const double* scales, int64_t count, bool align_corners) {
    require_rank(input, 4, "input", "(batch, channels, height, width)");
    if (count != 2) refuse("scales must have two elements, for height and width, but the number of elements is " + std::to_string(count));
    const int64_t out[2] = {scaled_size(input[2], scales[0]), scaled_size(input[3], scales[1])};
    return upsample_bicubic_detail::arguments(input, out, scales, align_corners);
}

// The arguments where the output's height and width are given.
inline UpsampleBicubicArguments upsample_bicubic_to_size(Shape input, int64_t height, int64_t width, bool align_corners) {
    const int64_t out[2] = {height, width};
    return upsample_bicubic_detail::arguments(input, out, nullptr, align_corners);
}

namespace upsample_bicubic_detail {

// For each output of an axis, the four pixels it is made of and their weights.
template <class A>
struct Axis {
    std::array<std::vector<int64_t>, 4> index;
    std::array<std::vector<A>, 4> weight;

    Axis(int64_t in, int64_t out, double ratio, bool align_corners) {
        for (int t = 0; t < 4; ++t) {
            index[t].resize(static_cast<size_t>(out));
            weight[t].resize(static_cast<size_t>(out));
        }
        for (int64_t o = 0; o < out; ++o) {
            const double place = static_cast<double>(o);
            const double x = align_corners ? place * ratio : (place + 0.5) * ratio - 0.5;
            const double low = std::floor(x);
            double weights[4];
            cubic_weights(x - low, weights);
            for (int t = 0; t < 4; ++t) {
                const double clamped = std::min(std::max(low + (t - 1), 0.0), static_cast<double>(in - 1));
                index[t][static_cast<size_t>(o)] = static_cast<int64_t>(clamped);
                weight[t][static_cast<size_t>(o)] = static_cast<A>(weights[t]);
            }
        }
    }
};

constexpr int64_t strip = 16;  // output rows of a plane that are computed together

template <class T>
struct Upsample {
    using A = accumulate_t<T>;
    const UpsampleBicubicArguments& args;
    const Axis<A>& rows;
    const Axis<A>& columns;
    const int32_t* column_index;  // (4, width), as gathers like them
    int64_t begin, end;           // strips
    const T* input;
    T* output;

    template <int Bytes>
    OPBRIDGE_INLINE void run() const {
        const int64_t width = args.out[1];
        // The last input rows, already interpolated along the row: output rows next to each other share them.
        const Buffer<A> ring(4 * width), wide(args.in[1]);
        const int64_t strips = ceil_divide(args.out[0], strip);
        for (int64_t item = begin; item < end; ++item) {
            const int64_t plane = item / strips;
            const T* from = input + plane * args.in[0] * args.in[1];
            int64_t held[4] = {-1, -1, -1, -1};
            const int64_t first = item % strips * strip;
            for (int64_t y = first; y < std::min(first + strip, args.out[0]); ++y) {
                const A* sources[4];
                A weights[4];
                for (int t = 0; t < 4; ++t) {
                    const int64_t row = rows.index[t][static_cast<size_t>(y)];
                    A* slot = ring.data() + row % 4 * width;
                    if (held[row % 4] != row) {
                        held[row % 4] = row;
                        along_row(from + row * args.in[1], wide.data(), slot);
                    }
                    sources[t] = slot;
                    weights[t] = rows.weight[t][static_cast<size_t>(y)];
                }
                T* to = output + (plane * args.out[0] + y) * width;
                for (int64_t x = 0; x < width; ++x) {
                    to[x] = static_cast<T>(weights[0] * sources[0][x] + weights[1] * sources[1][x] + weights[2] * sources[2][x] +
                                           weights[3] * sources[3][x]);
                }
            }
        }
    }

    OPBRIDGE_INLINE void along_row(const T* from, A* wide, A* OPBRIDGE_RESTRICT to) const {
        const A* OPBRIDGE_RESTRICT pixels;
        if constexpr (std::is_same_v<T, A>) {
            (void)wide;
            pixels = from;
        } else {
            convert(from, wide, args.in[1]);
            pixels = wide;
        }
        const int64_t width = args.out[1];
        const A *w0 = columns.weight[0].data(), *w1 = columns.weight[1].data(), *w2 = columns.weight[2].data(),
                *w3 = columns.weight[3].data();
        const int32_t *i0 = column_index, *i1 = i0 + width, *i2 = i1 + width, *i3 = i2 + width;
        for (int64_t x = 0; x < width; ++x)
            to[x] = w0[x] * pixels[i0[x]] + w1[x] * pixels[i1[x]] + w2[x] * pixels[i2[x]] + w3[x] * pixels[i3[x]];
    }
};

}  // namespace upsample_bicubic_detail

// output (batch, channels, *out) of input (batch, channels, *in).
template <class T, class Parallel>
void upsample_bicubic(const UpsampleBicubicArguments& args, const T* input, T* output, Parallel&& parallel) {
    using namespace upsample_bicubic_detail;
    if (args.planes == 0) return;
    const Axis<accumulate_t<T>> rows(args.in[0], args.out[0], args.ratio[0], args.align_corners);
    const Axis<accumulate_t<T>> columns(args.in[1], args.out[1], args.ratio[1], args.align_corners);
    std::vector<int32_t> column_index;
    for (const auto& index : columns.index) {
        for (int64_t pixel : index) column_index.push_back(static_cast<int32_t>(pixel));
    }
    parallel(args.planes * ceil_divide(args.out[0], strip), 1, [&](int64_t begin, int64_t end) {
        at_full_width(Upsample<T>{args, rows, columns, column_index.data(), begin, end, input, output});
    });
}

}  // namespace opbridge::compute
