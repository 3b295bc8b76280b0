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
#include <vector>

#include <opbridge/types.h>

#include "deform_conv2d_arguments.h"
#include "deform_conv2d_samples.h"
#include "matmul.h"
#include "rows.h"
#include "simd.h"
#include "sizes.h"

namespace opbridge::compute {

namespace deform_conv2d_detail {

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
            interleave_channels(args, begin, end, x + n * args.channels * args.height * args.width, image.data());
        });
        parallel(count * blocks.each, grain_for(sums * (args.group_depth() + 1)), [&](int64_t begin, int64_t end) {
            const Convolution<T> convolution(args, blocks, parts, offset + 2 * n * plane, mask ? mask + n * plane : nullptr, bias,
                                             y + n * args.out_channels * args.pixels());
            convolution.run(begin, end, image.data(), panels.data());
        });
    }
}

}  // namespace opbridge::compute
