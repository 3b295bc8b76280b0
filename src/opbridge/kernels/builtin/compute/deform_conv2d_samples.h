// Where the taps of deformable convolution read, and the memory that they read.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "deform_conv2d_arguments.h"
#include "rows.h"
#include "simd.h"
#include "sizes.h"

namespace opbridge::compute {

namespace deform_conv2d_detail {

constexpr int64_t together_bytes = int64_t{1} << 25;  // of images that are laid out at the same time
constexpr int64_t block_bytes = int64_t{1} << 19;     // of a block's matrix: with its share of the weights it fits into a second cache
constexpr int64_t most_pixels = 96;                   // in a block; a multiple of every tile's rows
constexpr int64_t layout_pixels = 256, layout_channels = 16;  // laid out at a time

// Channels that are of one group and one group of offsets.
struct Segment {
    int64_t begin, end, group, offset_group;
};

inline std::vector<Segment> segments(const DeformConv2dArguments& args) {
    std::vector<Segment> result;
    const int64_t by_offset = args.channels / args.offset_groups;
    for (int64_t c = 0; c < args.channels;) {
        const int64_t group = c / args.group_channels(), offset_group = c / by_offset;
        const int64_t end = std::min((group + 1) * args.group_channels(), (offset_group + 1) * by_offset);
        result.push_back({c, end, group, offset_group});
        c = end;
    }
    return result;
}

// Where one tap of a block's pixels reads, in several passes without a branch, each of which is done on vectors.
template <class A>
struct PlaceSamples {
    const DeformConv2dArguments& args;
    int64_t count, block;
    const A* y;  // the places before they are moved
    const A* x;
    A* at_y;  // by how much; overwritten
    A* at_x;
    A* factor;  // the mask; overwritten
    int64_t* OPBRIDGE_RESTRICT pixel;
    A* OPBRIDGE_RESTRICT share;

    template <int Bytes>
    OPBRIDGE_INLINE void run() const {
        const A height = static_cast<A>(args.height), width = static_cast<A>(args.width);
        const int32_t rows = static_cast<int32_t>(args.height), columns = static_cast<int32_t>(args.width);
        const int64_t none = args.height * args.width;  // the pixel of zeros behind the image
        int32_t inside[most_pixels], row[most_pixels], column[most_pixels];
        for (int64_t p = 0; p < count; ++p) {
            const A moved_y = y[p] + at_y[p], moved_x = x[p] + at_x[p];
            const bool within = (moved_y > A(-1)) & (moved_y < height) & (moved_x > A(-1)) & (moved_x < width);
            // Outside, only zeros are read; what is no number is neither inside nor outside, and stays none.
            const bool number = (moved_y == moved_y) & (moved_x == moved_x);
            factor[p] = number ? factor[p] : std::numeric_limits<A>::quiet_NaN();
            inside[p] = within ? 1 : 0;
            at_y[p] = within ? moved_y : A(0);
            at_x[p] = within ? moved_x : A(0);
        }
        for (int64_t p = 0; p < count; ++p) {
            // Rounded down; std::floor is not done on vectors everywhere.
            const int32_t cut_y = static_cast<int32_t>(at_y[p]), cut_x = static_cast<int32_t>(at_x[p]);
            row[p] = cut_y - (static_cast<A>(cut_y) > at_y[p] ? 1 : 0);
            column[p] = cut_x - (static_cast<A>(cut_x) > at_x[p] ? 1 : 0);
        }
        for (int64_t p = 0; p < count; ++p) {
            const A low_y = at_y[p] - static_cast<A>(row[p]), low_x = at_x[p] - static_cast<A>(column[p]);
            share[p] = (1 - low_y) * (1 - low_x) * factor[p];
            share[block + p] = (1 - low_y) * low_x * factor[p];
            share[2 * block + p] = low_y * (1 - low_x) * factor[p];
            share[3 * block + p] = low_y * low_x * factor[p];
        }
        for (int64_t p = 0; p < count; ++p) {
            const int32_t top = inside[p] & (row[p] >= 0), bottom = inside[p] & (row[p] < rows - 1);
            const int32_t left = column[p] >= 0, right = column[p] < columns - 1;
            const int64_t corner = int64_t{row[p]} * columns + column[p] - none;
            pixel[p] = none + corner * (top & left);
            pixel[block + p] = none + (corner + 1) * (top & right);
            pixel[2 * block + p] = none + (corner + columns) * (bottom & left);
            pixel[3 * block + p] = none + (corner + columns + 1) * (bottom & right);
        }
    }
};

// to[c] = the sum of four rows, each times its share.
template <int Bytes, class A>
OPBRIDGE_INLINE void blend(int64_t count, const A* const* rows, const A* shares, A* to) {
    constexpr int lanes = Bytes / sizeof(A);
    int64_t c = 0;
    for (; c + lanes <= count; c += lanes) {
        VectorOf<A, Bytes> v0, v1, v2, v3;
        load(v0, rows[0] + c);
        load(v1, rows[1] + c);
        load(v2, rows[2] + c);
        load(v3, rows[3] + c);
        v0 = v0 * shares[0] + v1 * shares[1];
        v0 += v2 * shares[2] + v3 * shares[3];
        store(v0, to + c);
    }
    for (; c < count; ++c) {
        to[c] = rows[0][c] * shares[0] + rows[1][c] * shares[1] + (rows[2][c] * shares[2] + rows[3][c] * shares[3]);
    }
}

// Parts of images with their channels innermost, and a pixel of zeros behind each image.
template <class T, class A>
void interleave_channels(const DeformConv2dArguments& args, int64_t begin, int64_t end, const T* x, A* to) {
    const int64_t size = args.height * args.width, parts = ceil_divide(size + 1, layout_pixels);
    const Buffer<A> block(layout_channels * layout_pixels);
    for (int64_t item = begin; item < end; ++item) {
        const int64_t image = item / parts, first = item % parts * layout_pixels;
        const int64_t count = std::min(layout_pixels, size + 1 - first);
        A* pixels = to + (image * (size + 1) + first) * args.channels;
        for (int64_t c = 0; c < args.channels; c += layout_channels) {
            const int64_t rows = std::min(layout_channels, args.channels - c);
            for (int64_t r = 0; r < rows; ++r) {
                window(x + (image * args.channels + c + r) * size, size, first, count, block + r * layout_pixels);
            }
            for (int64_t p = 0; p < count; ++p) {
                A* pixel = pixels + p * args.channels + c;
                if (rows == layout_channels) {
                    OPBRIDGE_UNROLL
                    for (int r = 0; r < layout_channels; ++r) pixel[r] = block[r * layout_pixels + p];
                } else {
                    for (int64_t r = 0; r < rows; ++r) pixel[r] = block[r * layout_pixels + p];
                }
            }
        }
    }
}

}  // namespace deform_conv2d_detail

}  // namespace opbridge::compute
