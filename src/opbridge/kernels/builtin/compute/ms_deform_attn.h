// Multi-scale deformable attention, as in Deformable DETR (arXiv 2010.04159) and mmcv's MultiScaleDeformableAttention:
//
//     output[b, q, h * dim + d] = sum over levels l and points p of weight[b, q, h, l, p] * value_l[b, h, d](location[b, q, h, l, p])
//
// where value_l is the map (height, width) of level l, which begins at key level_start_index[l], read bilinearly at the pixel
// (x * width - 0.5, y * height - 0.5) with zeros outside of it.
#pragma once

#include <cstdint>

#include <opbridge/types.h>

#include "rows.h"
#include "simd.h"
#include "sizes.h"
#include "widen.h"

namespace opbridge::compute {

struct MsDeformAttnArguments {
    int64_t batch, keys, heads, dim, queries, levels, points;
    const int64_t* level_sizes;   // (levels, 2): height and width
    const int64_t* level_starts;  // (levels)

    int64_t key_size() const { return heads * dim; }
};

// The arguments for tensors of these shapes, but for the levels; throws where they do not belong together.
inline MsDeformAttnArguments ms_deform_attn_sizes(Shape value, Shape spatial_shapes, Shape level_start_index, Shape locations,
                                                  Shape weights) {
    require_rank(value, 4, "value", "(batch, keys, heads, channels of a head)");
    require_rank(locations, 6, "sampling_locations", "(batch, queries, heads, levels, points, 2)");
    const MsDeformAttnArguments args{value[0], value[1], value[2], value[3], locations[1], locations[3], locations[4], nullptr, nullptr};
    require_shape(locations, {args.batch, args.queries, args.heads, args.levels, args.points, 2}, "sampling_locations",
                  "(batch, queries, heads, levels, points, 2)");
    require_shape(weights, {args.batch, args.queries, args.heads, args.levels, args.points}, "attention_weights",
                  "(batch, queries, heads, levels, points)");
    require_shape(spatial_shapes, {args.levels, 2}, "spatial_shapes", "(levels, 2)");
    require_shape(level_start_index, {args.levels}, "level_start_index", "(levels)");
    product({args.batch, args.queries, args.heads, args.dim}, "the output");
    return args;
}

// The arguments for tensors of these shapes and these levels; throws where they do not belong together.
inline MsDeformAttnArguments ms_deform_attn_arguments(Shape value, Shape spatial_shapes, Shape level_start_index, Shape locations,
                                                      Shape weights, const int64_t* level_sizes, const int64_t* level_starts) {
    MsDeformAttnArguments args = ms_deform_attn_sizes(value, spatial_shapes, level_start_index, locations, weights);
    args.level_sizes = level_sizes;
    args.level_starts = level_starts;
    for (int64_t l = 0; l < args.levels; ++l) {
        const int64_t size = product({level_sizes[2 * l], level_sizes[2 * l + 1]}, "spatial_shapes");
        if (level_starts[l] < 0 || size > args.keys || level_starts[l] > args.keys - size) {
            refuse("level " + std::to_string(l) + " has " + std::to_string(size) + " keys from " + std::to_string(level_starts[l]) +
                   ", but value has " + std::to_string(args.keys) + " keys");
        }
    }
    return args;
}

namespace ms_deform_attn_detail {

template <class T>
struct Attend {
    using A = accumulate_t<T>;
    const MsDeformAttnArguments& args;
    int64_t begin, end;  // of (batch, query, head)
    const A* value;
    const T* locations;
    const T* weights;
    T* output;

    template <int Bytes>
    OPBRIDGE_INLINE void run() const {
        constexpr int lanes = Bytes / static_cast<int>(sizeof(A));
        const int64_t most = args.levels * args.points * 4;
        const Buffer<const A*> pixels(most);
        const Buffer<A> factors(most);
        for (int64_t item = begin; item < end; ++item) {
            const int64_t head = item % args.heads;
            const int64_t batch = item / args.heads / args.queries;
            const int64_t taps = places(item, value + batch * args.keys * args.key_size() + head * args.dim, pixels.data(), factors.data());
            T* to = output + item * args.dim;
            int64_t d = 0;
            for (; d + 4 * lanes <= args.dim; d += 4 * lanes) sum<Bytes, 4>(taps, pixels.data(), factors.data(), d, to);
            for (; d + lanes <= args.dim; d += lanes) sum<Bytes, 1>(taps, pixels.data(), factors.data(), d, to);
            if constexpr (Bytes > 16) {
                for (; d + 16 / static_cast<int>(sizeof(A)) <= args.dim; d += 16 / static_cast<int>(sizeof(A))) {
                    sum<16, 1>(taps, pixels.data(), factors.data(), d, to);
                }
            }
            for (; d < args.dim; ++d) {
                A total = 0;
                for (int64_t k = 0; k < taps; ++k) total += factors[k] * pixels[k][d];
                to[d] = static_cast<T>(total);
            }
        }
    }

    // The pixels that an output reads and what each counts.
    OPBRIDGE_INLINE int64_t places(int64_t item, const A* keys, const A** pixels, A* factors) const {
        int64_t count = 0;
        const T* location = locations + item * args.levels * args.points * 2;
        const T* weight = weights + item * args.levels * args.points;
        const int64_t stride = args.key_size();
        for (int64_t l = 0; l < args.levels; ++l) {
            const int64_t height = args.level_sizes[2 * l], width = args.level_sizes[2 * l + 1];
            const A* map = keys + args.level_starts[l] * stride;
            for (int64_t p = 0; p < args.points; ++p, location += 2, ++weight) {
                const A x = static_cast<A>(location[0]) * static_cast<A>(width) - A(0.5);
                const A y = static_cast<A>(location[1]) * static_cast<A>(height) - A(0.5);
                if (!(x > A(-1) && y > A(-1) && x < static_cast<A>(width) && y < static_cast<A>(height))) continue;
                // Above -1, so that adding 1 before the conversion, which goes towards zero, gives the floor. The rest is a float's
                // rounding of a size beyond its precision.
                const int64_t left = static_cast<int64_t>(x + 1) - 1, top = static_cast<int64_t>(y + 1) - 1;
                const A right_share = x - static_cast<A>(left), low_share = y - static_cast<A>(top);
                const A shares[2][2] = {{(1 - low_share) * (1 - right_share), (1 - low_share) * right_share},
                                        {low_share * (1 - right_share), low_share * right_share}};
                const A factor = static_cast<A>(*weight);
                for (int64_t j = 0; j < 2; ++j) {
                    for (int64_t i = 0; i < 2; ++i) {
                        if (top + j < 0 || top + j >= height || left + i < 0 || left + i >= width) continue;
                        pixels[count] = map + ((top + j) * width + left + i) * stride;
                        factors[count++] = factor * shares[j][i];
                    }
                }
            }
        }
        return count;
    }

    template <int Bytes, int Wide>
    OPBRIDGE_INLINE void sum(int64_t taps, const A* const* pixels, const A* factors, int64_t d, T* to) const {
        constexpr int lanes = Bytes / static_cast<int>(sizeof(A));
        VectorOf<A, Bytes> sums[Wide] = {};
        for (int64_t k = 0; k < taps; ++k) {
            OPBRIDGE_UNROLL
            for (int v = 0; v < Wide; ++v) {
                VectorOf<A, Bytes> values;
                load(values, pixels[k] + d + v * lanes);
                sums[v] += values * factors[k];
            }
        }
        A numbers[Wide * lanes];
        OPBRIDGE_UNROLL
        for (int v = 0; v < Wide; ++v) store(sums[v], numbers + v * lanes);
        convert(numbers, to + d, Wide * lanes);
    }
};

}  // namespace ms_deform_attn_detail

// How many numbers of accumulate_t<T> ms_deform_attn needs as scratch: the value, where it has sixteen bits.
template <class T>
int64_t ms_deform_attn_scratch(const MsDeformAttnArguments& args) {
    return widen_scratch<T>(args.batch * args.keys * args.key_size());
}

// output (batch, queries, heads * dim).
template <class T, class Parallel>
void ms_deform_attn(const MsDeformAttnArguments& args, const T* value, const T* locations, const T* weights, T* output,
                    accumulate_t<T>* scratch, Parallel&& parallel) {
    using namespace ms_deform_attn_detail;
    if (args.batch == 0 || args.queries == 0 || args.heads == 0 || args.dim == 0) return;
    const auto* wide = widen(value, args.batch * args.keys * args.key_size(), scratch, parallel);
    parallel(args.batch * args.queries * args.heads, 16,
             [&](int64_t begin, int64_t end) { at_full_width(Attend<T>{args, begin, end, wide, locations, weights, output}); });
}

}  // namespace opbridge::compute
