// Images whose channels lie side by side, for kernels that read pixels at places known only when they run: where the channels of a pixel
// are one vector, a weighted sum of pixels is a few loads, and the places and weights are worked out once for all channels.
//
// (channels, points) becomes blocks of L channels, (blocks, 1 + points, L), padded with zeros. Row 0 of a block is zero: pixel p is row
// p + 1, and -1 is the pixel outside of the image.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include <opbridge/types.h>

#include "rows.h"
#include "simd.h"
#include "sizes.h"

namespace opbridge::compute {

// How many channels a block has: a cache line of them, or few where there are few.
template <class A>
constexpr int wide_block = static_cast<int>(64 / sizeof(A));
constexpr int narrow_block = 4;

template <class A>
inline bool is_narrow(int64_t channels) {
    return channels <= narrow_block;
}

struct PixelSizes {
    int64_t channels, points, lanes;  // lanes: channels of a block

    int64_t blocks() const { return ceil_divide(channels, lanes); }
    int64_t rows() const { return points + 1; }
    int64_t block_size() const { return rows() * lanes; }
};

// What is put in order together: blocks of one image, or all blocks of some images. As much as caches hold, so that the memory for it is
// small, and large regions run in parallel instead of many small ones.
struct Wave {
    int64_t image, images, block, blocks;
};

inline Wave first_wave(const PixelSizes& sizes, int64_t images) {
    constexpr int64_t budget = int64_t{1} << 20;
    const int64_t blocks = std::max<int64_t>(1, budget / sizes.block_size());
    if (blocks < sizes.blocks()) return {0, 1, 0, blocks};
    return {0, std::min(images, blocks / sizes.blocks()), 0, sizes.blocks()};
}

// How many numbers of memory a wave needs.
inline int64_t wave_size(const PixelSizes& sizes, int64_t images) {
    const Wave wave = first_wave(sizes, images);
    return product({wave.images * wave.blocks, sizes.rows(), sizes.lanes}, "the scratch memory for input");
}

template <class Body>
void for_each_wave(const PixelSizes& sizes, int64_t images, Body&& body) {
    const Wave first = first_wave(sizes, images);
    for (int64_t image = 0; image < images; image += first.images) {
        for (int64_t block = 0; block < sizes.blocks(); block += first.blocks) {
            body(Wave{image, std::min(first.images, images - image), block, std::min(first.blocks, sizes.blocks() - block)});
        }
    }
}

// The widest vector of at most Bytes that a block of L numbers consists of.
template <int Bytes, int L, class A>
constexpr int block_bytes = Bytes < L * static_cast<int>(sizeof(A)) ? Bytes : L * static_cast<int>(sizeof(A));

#if defined(__GNUC__)
namespace pixels_detail {

template <class A>
using index_of = std::conditional_t<sizeof(A) == 4, int32_t, int64_t>;

// Numbers of two vectors in turns, from their first or from their second halves.
template <bool Second, class A, int Bytes>
OPBRIDGE_INLINE void interleave(const VectorOf<A, Bytes>& a, const VectorOf<A, Bytes>& b, VectorOf<A, Bytes>& to) {
    constexpr int lanes = Bytes / static_cast<int>(sizeof(A));
    constexpr int first = Second ? lanes / 2 : 0;
    using I = VectorOf<index_of<A>, Bytes>;
#if defined(__clang__)
    if constexpr (lanes == 2) to = __builtin_shufflevector(a, b, first, first + 2);
    if constexpr (lanes == 4) to = __builtin_shufflevector(a, b, first, first + 4, first + 1, first + 5);
    if constexpr (lanes == 8) {
        to = __builtin_shufflevector(a, b, first, first + 8, first + 1, first + 9, first + 2, first + 10, first + 3, first + 11);
    }
    if constexpr (lanes == 16) {
        to = __builtin_shufflevector(a, b, first, first + 16, first + 1, first + 17, first + 2, first + 18, first + 3, first + 19,
                                     first + 4, first + 20, first + 5, first + 21, first + 6, first + 22, first + 7, first + 23);
    }
    (void)sizeof(I);
#else
    I index;
    for (int i = 0; i < lanes; ++i) index[i] = first + i / 2 + (i % 2 == 0 ? 0 : lanes);
    to = __builtin_shuffle(a, b, index);
#endif
}

}  // namespace pixels_detail

// to[j][i] = from[i][j] for a square of as many numbers as a vector has.
template <int Bytes, class A>
OPBRIDGE_INLINE void transpose_square(const A* from, int64_t from_stride, A* to, int64_t to_stride) {
    constexpr int lanes = Bytes / static_cast<int>(sizeof(A));
    VectorOf<A, Bytes> rows[lanes], turned[lanes];
    OPBRIDGE_UNROLL
    for (int i = 0; i < lanes; ++i) load(rows[i], from + i * from_stride);
    // Interleaving row i with row i + lanes / 2 is a step of a perfect shuffle; as many steps as lanes has bits transpose.
    OPBRIDGE_UNROLL
    for (int step = 1; step < lanes; step *= 2) {
        OPBRIDGE_UNROLL
        for (int i = 0; i < lanes / 2; ++i) {
            pixels_detail::interleave<false, A, Bytes>(rows[i], rows[i + lanes / 2], turned[2 * i]);
            pixels_detail::interleave<true, A, Bytes>(rows[i], rows[i + lanes / 2], turned[2 * i + 1]);
        }
        OPBRIDGE_UNROLL
        for (int i = 0; i < lanes; ++i) rows[i] = turned[i];
    }
    OPBRIDGE_UNROLL
    for (int i = 0; i < lanes; ++i) store(rows[i], to + i * to_stride);
}
#else
template <int Bytes, class A>
OPBRIDGE_INLINE void transpose_square(const A* from, int64_t from_stride, A* to, int64_t to_stride) {
    constexpr int lanes = Bytes / static_cast<int>(sizeof(A));
    for (int i = 0; i < lanes; ++i) {
        for (int j = 0; j < lanes; ++j) to[j * to_stride + i] = from[i * from_stride + j];
    }
}
#endif

// to[j * to_stride + i] = from[i * from_stride + j] for i < height, j < width.
template <int Bytes, class From, class To>
OPBRIDGE_INLINE void transpose(const From* from, int64_t from_stride, int64_t height, int64_t width, To* to, int64_t to_stride) {
    int64_t whole_height = 0, whole_width = 0;
    if constexpr (std::is_same_v<From, To>) {
        constexpr int lanes = Bytes / static_cast<int>(sizeof(From));
        whole_height = height / lanes * lanes;
        whole_width = width / lanes * lanes;
        for (int64_t j = 0; j < whole_width; j += lanes) {
            for (int64_t i = 0; i < whole_height; i += lanes) {
                transpose_square<Bytes>(from + i * from_stride + j, from_stride, to + j * to_stride + i, to_stride);
            }
        }
    }
    for (int64_t i = 0; i < height; ++i) {
        for (int64_t j = i < whole_height ? whole_width : 0; j < width; ++j) {
            to[j * to_stride + i] = static_cast<To>(from[i * from_stride + j]);
        }
    }
}

// The way back: `count` pixels of a block become numbers of `channels` planes, `stride` apart. `scratch` as above.
template <int L, class T>
struct ScatterPixels {
    using A = accumulate_t<T>;
    const A* rows;
    int64_t count, channels;
    T* planes;
    int64_t stride;
    A* scratch;

    template <int Bytes>
    OPBRIDGE_INLINE void run() const {
        constexpr int bytes = block_bytes<Bytes, L, A>;
        if constexpr (std::is_same_v<T, A>) {
            transpose<bytes>(rows, L, count, channels, planes, stride);
        } else {
            transpose<bytes>(rows, L, count, channels, scratch, count);
            for (int64_t c = 0; c < channels; ++c) convert(scratch + c * count, planes + c * stride, count);
        }
    }
};

template <int L, class T>
struct GatherPixels {
    using A = accumulate_t<T>;
    const PixelSizes& sizes;
    const Wave& wave;
    int64_t begin, end;  // in pieces of pixels of each block of each image
    const T* image;
    A* rows;
    static constexpr int64_t piece = 1024;

    static int64_t pieces(const PixelSizes& sizes) { return std::max<int64_t>(1, ceil_divide(sizes.points, piece)); }

    template <int Bytes>
    OPBRIDGE_INLINE void run() const {
        constexpr int bytes = block_bytes<Bytes, L, A>;
        const Buffer<A> scratch(std::is_same_v<T, A> ? 0 : L * piece);
        for (int64_t item = begin; item < end; ++item) {
            const int64_t each = pieces(sizes);
            const int64_t block = item / each % wave.blocks;
            const int64_t index = item / each / wave.blocks;
            const int64_t first = item % each * piece;
            const int64_t width = std::min(piece, sizes.points - first);
            const int64_t channel = (wave.block + block) * L;
            const int64_t count = std::min<int64_t>(L, sizes.channels - channel);
            A* to = rows + (index * wave.blocks + block) * sizes.block_size();
            if (first == 0) fill(to, L, A(0));
            to += (first + 1) * L;
            if (count < L) fill(to, width * L, A(0));
            const T* from = image + ((wave.image + index) * sizes.channels + channel) * sizes.points + first;
            if constexpr (std::is_same_v<T, A>) {
                transpose<bytes>(from, sizes.points, count, width, to, L);
            } else {
                for (int64_t c = 0; c < count; ++c) convert(from + c * sizes.points, scratch.data() + c * width, width);
                transpose<bytes>(scratch.data(), width, count, width, to, L);
            }
        }
    }
};

// The blocks of a wave, image by image, from all images.
template <int L, class T, class Parallel>
void gather_wave(const PixelSizes& sizes, const Wave& wave, const T* images, accumulate_t<T>* rows, Parallel&& parallel) {
    parallel(wave.images * wave.blocks * GatherPixels<L, T>::pieces(sizes), 4,
             [&](int64_t begin, int64_t end) { at_full_width(GatherPixels<L, T>{sizes, wave, begin, end, images, rows}); });
}

}  // namespace opbridge::compute
