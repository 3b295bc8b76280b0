// Deformable convolution, versions 1 and 2, as torchvision.ops.deform_conv2d (and mmcv's ModulatedDeformConv2d) define it: each tap of
// each output pixel reads its input, bilinearly, where an offset has moved it to, times a mask in version 2.
//
//     y[n, o, i, j] = bias[o] + sum over channels c of o's group and taps (u, v) of
//                     weight[o, c, u, v] * mask[n, g, (u, v), i, j] * x[n, c](i * stride - padding + u * dilation + dy, j * ... + dx)
//     (dy, dx) = offset[n, g, (u, v), 0 and 1, i, j]      g = c / (channels / offset_groups)
//
// x is zero outside of the image, and 0 is read from a pixel or more outside of it. Sums are taken in accumulate_t<T>.
//
// How: the image is laid out with its channels innermost, so that what a tap reads is four rows of channels, each times a weight; the rows
// that come out, tap by tap, are those of the matrix that is multiplied with the weights, a block of pixels at a time.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <opbridge/types.h>
#include "matmul.h"
#include "rows.h"
#include "simd.h"
#include "sizes.h"

namespace opbridge::compute {

struct DeformConv2dAttributes {
    int64_t stride_h = 1, stride_w = 1, padding_h = 0, padding_w = 0, dilation_h = 1, dilation_w = 1, groups = 1, offset_groups = 1;
};

struct DeformConv2dArguments : DeformConv2dAttributes {
    int64_t batch, channels, height, width, out_channels, kernel_h, kernel_w, out_height, out_width;

    int64_t taps() const { return kernel_h * kernel_w; }
    int64_t pixels() const { return out_height * out_width; }
    int64_t group_channels() const { return channels / groups; }
    int64_t group_outputs() const { return out_channels / groups; }
    int64_t group_depth() const { return group_channels() * taps(); }  // the length of a sum
};

// The size of an axis of the result; throws where the taps do not fit into the padded input.
inline int64_t deform_conv2d_size(int64_t size, int64_t kernel, int64_t stride, int64_t padding, int64_t dilation) {
    const int64_t free = size + 2 * padding - dilation * (kernel - 1) - 1;
    if (free < 0) {
        refuse("weight spans " + std::to_string(dilation * (kernel - 1) + 1) + " pixels, more than the " +
               std::to_string(size + 2 * padding) + " of x and its padding");
    }
    return free / stride + 1;
}

// The arguments for an input and weights of these shapes; throws where they do not belong together.
inline DeformConv2dArguments deform_conv2d_arguments(const DeformConv2dAttributes& attributes, Shape x, Shape weight) {
    require_rank(x, 4, "x", "(batch, channels, height, width)");
    require_rank(weight, 4, "weight", "(out_channels, channels / groups, kernel_h, kernel_w)");
    require_between(attributes.stride_h, 1, largest_attribute, "stride_h");
    require_between(attributes.stride_w, 1, largest_attribute, "stride_w");
    require_between(attributes.padding_h, 0, largest_attribute, "padding_h");
    require_between(attributes.padding_w, 0, largest_attribute, "padding_w");
    require_between(attributes.dilation_h, 1, largest_attribute, "dilation_h");
    require_between(attributes.dilation_w, 1, largest_attribute, "dilation_w");
    require_between(attributes.groups, 1, largest_attribute, "groups");
    require_between(attributes.offset_groups, 1, largest_attribute, "offset_groups");
    require_between(x[2], 0, largest_attribute, "the height of x");
    require_between(x[3], 0, largest_attribute, "the width of x");
    require_between(weight[2], 1, largest_attribute, "the height of weight");
    require_between(weight[3], 1, largest_attribute, "the width of weight");

    DeformConv2dArguments args;
    static_cast<DeformConv2dAttributes&>(args) = attributes;
    args.batch = x[0], args.channels = x[1], args.height = x[2], args.width = x[3];
    args.out_channels = weight[0], args.kernel_h = weight[2], args.kernel_w = weight[3];
    if (args.channels % args.groups != 0 || args.out_channels % args.groups != 0) {
        refuse("groups is " + std::to_string(args.groups) + ", which has to divide the " + std::to_string(args.channels) +
               " channels of x and the " + std::to_string(args.out_channels) + " of the result");
    }
    if (args.channels % args.offset_groups != 0) {
        refuse("offset_groups is " + std::to_string(args.offset_groups) + ", which has to divide the " + std::to_string(args.channels) +
               " channels of x");
    }
    if (weight[1] != args.group_channels()) {
        refuse("weight is for " + std::to_string(weight[1]) + " channels in each group, but x has " +
               std::to_string(args.group_channels()));
    }
    args.out_height = deform_conv2d_size(args.height, args.kernel_h, args.stride_h, args.padding_h, args.dilation_h);
    args.out_width = deform_conv2d_size(args.width, args.kernel_w, args.stride_w, args.padding_w, args.dilation_w);
    product({args.batch, args.out_channels, args.out_height, args.out_width}, "the result");
    return args;
}

// Throws where what says how x is read is not of the shape that the arguments ask for.
inline void check_offset(const DeformConv2dArguments& args, Shape offset) {
    const int64_t count = product({2, args.offset_groups, args.kernel_h, args.kernel_w}, "offset");
    require_shape(offset, {args.batch, count, args.out_height, args.out_width}, "offset",
                  "(batch, 2 * offset_groups * kernel_h * kernel_w, out_height, out_width)");
}

inline void check_mask(const DeformConv2dArguments& args, Shape mask) {
    const int64_t count = product({args.offset_groups, args.kernel_h, args.kernel_w}, "mask");
    require_shape(mask, {args.batch, count, args.out_height, args.out_width}, "mask",
                  "(batch, offset_groups * kernel_h * kernel_w, out_height, out_width)");
}

inline void check_bias(const DeformConv2dArguments& args, Shape bias) {
    require_shape(bias, {args.out_channels}, "bias", "(out_channels)");
}

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
void lay_out(const DeformConv2dArguments& args, int64_t begin, int64_t end, const T* x, A* to) {
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

// The weights as panels for the product: of each group, rows by tap and channel, columns by output channel.
template <class T, class A>
void pack_panel(const DeformConv2dArguments& args, const T* weight, int64_t panel, int64_t panels, A* to) {
    const int64_t columns = panel_columns<A>(), depth = args.group_depth(), taps = args.taps();
    const int64_t group = panel / panels, first = panel % panels * columns;
    const int64_t count = std::min(columns, args.group_outputs() - first);
    const T* from = weight + (group * args.group_outputs() + first) * depth;
    to += panel * depth * columns;
    for (int64_t c = 0; c < args.group_channels(); ++c) {
        for (int64_t tap = 0; tap < taps; ++tap) {
            A* row = to + (tap * args.group_channels() + c) * columns;
            for (int64_t o = 0; o < count; ++o) row[o] = static_cast<A>(from[o * depth + c * taps + tap]);
            fill(row + count, columns - count, A(0));
        }
    }
}

// How a call is divided into blocks of pixels, and what each needs room for.
struct Blocks {
    int64_t pixels, each, stride, panels, columns;

    // Where the samples of a tap begin.
    int64_t samples_of(const DeformConv2dArguments& args, int64_t offset_group, int64_t tap) const {
        return (offset_group * args.taps() + tap) * 4 * pixels;
    }
    // Rows of the matrices are a little longer, so that they do not all fall into the same lines of a cache.
    int64_t output_stride() const { return panels * columns + 16; }

    template <class A>
    static Blocks of(const DeformConv2dArguments& args, int64_t images) {
        Blocks result;
        const int64_t depth = args.channels * args.taps();
        const int64_t fitting = block_bytes / static_cast<int64_t>(sizeof(A)) / std::max<int64_t>(depth, 1);
        const int64_t sharing = ceil_divide(args.pixels(), std::max<int64_t>(16 / images, 1));  // enough blocks for several threads
        result.pixels = std::clamp(round_up(std::min(fitting, sharing), 12), int64_t{12}, most_pixels);
        result.each = ceil_divide(args.pixels(), result.pixels);
        result.stride = depth + 16;
        result.columns = panel_columns<A>();
        result.panels = ceil_divide(args.group_outputs(), result.columns);
        return result;
    }
};

// The matrix of a block: what the taps of its pixels read, each by group, tap and channel.
template <class A>
struct ReadSamples {
    const DeformConv2dArguments& args;
    const Blocks& blocks;
    const std::vector<Segment>& parts;
    int64_t count;
    const A* image;
    const int64_t* pixel;
    const A* share;
    A* matrix;

    template <int Bytes>
    OPBRIDGE_INLINE void run() const {
        for (int64_t p = 0; p < count; ++p) {
            for (int64_t tap = 0; tap < args.taps(); ++tap) {
                for (const Segment& part : parts) {
                    const int64_t at = blocks.samples_of(args, part.offset_group, tap) + p;
                    const A* rows[4];
                    A shares[4];
                    for (int corner = 0; corner < 4; ++corner) {
                        rows[corner] = image + pixel[at + corner * blocks.pixels] * args.channels + part.begin;
                        shares[corner] = share[at + corner * blocks.pixels];
                    }
                    const int64_t channel = part.begin - part.group * args.group_channels();
                    blend<Bytes>(part.end - part.begin, rows, shares,
                                 matrix + p * blocks.stride + (part.group * args.taps() + tap) * args.group_channels() + channel);
                }
            }
        }
    }
};

// The matrix times the weights of a group.
template <class A>
struct Multiply {
    int64_t count, depth;
    const Blocks& blocks;
    const A* matrix;
    const A* weights;
    A* outputs;

    template <int Bytes>
    OPBRIDGE_INLINE void run() const {
        matmul<Bytes>(count, depth, matrix, blocks.stride, blocks.panels, weights, outputs, blocks.output_stride());
    }
};

// The blocks of pixels from `begin` to `end`.
template <class T>
class Convolution {
    using A = accumulate_t<T>;

  public:
    Convolution(const DeformConv2dArguments& args, const Blocks& blocks, const std::vector<Segment>& parts, const T* offset, const T* mask,
                const T* bias, T* y)
        : args_(args),
          blocks_(blocks),
          parts_(parts),
          offset_(offset),
          mask_(mask),
          bias_(bias),
          y_(y),
          rows_(5 * blocks.pixels),
          pixel_(blocks.samples_of(args, args.offset_groups, 0)),
          share_(blocks.samples_of(args, args.offset_groups, 0)),
          matrix_(blocks.pixels * blocks.stride),
          outputs_(blocks.pixels * blocks.output_stride()) {}

    void run(int64_t begin, int64_t end, const A* images, const A* panels) const {
        for (int64_t item = begin; item < end; ++item) {
            const int64_t n = item / blocks_.each, first = item % blocks_.each * blocks_.pixels;
            const int64_t count = std::min(blocks_.pixels, args_.pixels() - first);
            place(n, first, count);
            const A* image = images + n * (args_.height * args_.width + 1) * args_.channels;
            at_full_width(ReadSamples<A>{args_, blocks_, parts_, count, image, pixel_, share_, matrix_});
            for (int64_t group = 0; group < args_.groups; ++group) {
                const int64_t depth = args_.group_depth();
                const A* weights = panels + group * blocks_.panels * blocks_.columns * depth;
                at_full_width(Multiply<A>{count, depth, blocks_, matrix_ + group * depth, weights, outputs_});
                write(n, group, first, count);
            }
        }
    }

  private:
    void place(int64_t n, int64_t first, int64_t count) const {
        A *y = rows_.data(), *x = y + blocks_.pixels, *dy = x + blocks_.pixels, *dx = dy + blocks_.pixels, *factor = dx + blocks_.pixels;
        for (int64_t tap = 0; tap < args_.taps(); ++tap) {
            const int64_t from_y = tap / args_.kernel_w * args_.dilation_h - args_.padding_h;
            const int64_t from_x = tap % args_.kernel_w * args_.dilation_w - args_.padding_w;
            int64_t i = first / args_.out_width, j = first % args_.out_width;
            for (int64_t p = 0; p < count; ++p) {
                y[p] = static_cast<A>(i * args_.stride_h + from_y);
                x[p] = static_cast<A>(j * args_.stride_w + from_x);
                if (++j == args_.out_width) j = 0, ++i;
            }
            for (int64_t g = 0; g < args_.offset_groups; ++g) {
                const int64_t plane = (n * args_.offset_groups + g) * args_.taps() + tap;
                const T* moves = offset_ + 2 * plane * args_.pixels() + first;
                convert(moves, dy, count);
                convert(moves + args_.pixels(), dx, count);
                if (mask_) convert(mask_ + plane * args_.pixels() + first, factor, count);
                else fill(factor, count, A(1));
                const int64_t at = blocks_.samples_of(args_, g, tap);
                at_full_width(PlaceSamples<A>{args_, count, blocks_.pixels, y, x, dy, dx, factor, pixel_ + at, share_ + at});
            }
        }
    }

    void write(int64_t n, int64_t group, int64_t first, int64_t count) const {
        for (int64_t o = 0; o < args_.group_outputs(); ++o) {
            const int64_t channel = group * args_.group_outputs() + o;
            const A start = bias_ ? static_cast<A>(bias_[channel]) : A(0);
            T* to = y_ + (n * args_.out_channels + channel) * args_.pixels() + first;
            for (int64_t p = 0; p < count; ++p) to[p] = static_cast<T>(outputs_[p * blocks_.output_stride() + o] + start);
        }
    }

    const DeformConv2dArguments& args_;
    const Blocks& blocks_;
    const std::vector<Segment>& parts_;
    const T* offset_;
    const T* mask_;
    const T* bias_;
    T* y_;
    Buffer<A> rows_;  // of a block: places, moves and mask
    // Which four pixels a tap reads and how much of each: by group of offsets, tap, corner and pixel of the block.
    Buffer<int64_t> pixel_;
    Buffer<A> share_;
    Buffer<A> matrix_;
    Buffer<A> outputs_;  // of a group: by pixel of the block and output channel
};

}  // namespace deform_conv2d_detail

// y (batch, out_channels, out_height, out_width). mask and bias may be null: no mask is one of ones.
template <class T, class Parallel>
void deform_conv2d(const DeformConv2dArguments& args, const T* x, const T* weight, const T* offset, const T* mask, const T* bias, T* y,
                   Parallel&& parallel) {
    using namespace deform_conv2d_detail;
    using A = accumulate_t<T>;
    if (args.batch == 0 || args.out_channels == 0) return;
    const int64_t image_size = (args.height * args.width + 1) * args.channels;
    const int64_t together =
        std::clamp<int64_t>(together_bytes / static_cast<int64_t>(sizeof(A)) / std::max<int64_t>(image_size, 1), 1, args.batch);
    const Blocks blocks = Blocks::of<A>(args, together);
    const std::vector<Segment> parts = segments(args);

    const Buffer<A> panels(product({args.groups, blocks.panels, args.group_depth(), blocks.columns}, "weight"));
    parallel(args.groups * blocks.panels, grain_for(args.group_depth() * blocks.columns), [&](int64_t begin, int64_t end) {
        for (int64_t panel = begin; panel < end; ++panel) pack_panel(args, weight, panel, blocks.panels, panels.data());
    });
    const Buffer<A> image(product({together, image_size}, "x"));
    product({args.offset_groups, args.taps(), 4, blocks.pixels}, "offset");
    const int64_t image_parts = ceil_divide(args.height * args.width + 1, layout_pixels);
    const int64_t sums = args.out_channels * std::min(blocks.pixels, args.pixels());
    const int64_t plane = args.offset_groups * args.taps() * args.pixels();
    for (int64_t n = 0; n < args.batch; n += together) {
        const int64_t count = std::min(together, args.batch - n);
        parallel(count * image_parts, grain_for(layout_pixels * args.channels), [&](int64_t begin, int64_t end) {
            lay_out(args, begin, end, x + n * args.channels * args.height * args.width, image.data());
        });
        parallel(count * blocks.each, grain_for(sums * (args.group_depth() + 1)), [&](int64_t begin, int64_t end) {
            const Convolution<T> convolution(args, blocks, parts, offset + 2 * n * plane, mask ? mask + n * plane : nullptr, bias,
                                             y + n * args.out_channels * args.pixels());
            convolution.run(begin, end, image.data(), panels.data());
        });
    }
}

}  // namespace opbridge::compute
