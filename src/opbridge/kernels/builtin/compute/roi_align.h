// RoIAlign, as torchvision.ops.roi_align does it: the mean of bilinear samples in each bin of a region (image, x1, y1, x2, y2). Without a
// sampling ratio a bin has ceil(its height) by ceil(its width) samples, each region its own; aligned moves regions by half a pixel and
// leaves those smaller than a pixel as they are. Samples more than a pixel outside of the image count as zero. A region that is not
// finite gives numbers that are none.
//
// Bilinear samples on a lattice are a product of two matrices around the region: rows of weights for the bins along each side are worked
// out once, and each pixel is read about once instead of four times for each sample.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <opbridge/types.h>

#include "pixels.h"
#include "roi.h"
#include "rows.h"
#include "simd.h"
#include "sizes.h"
#include "widen.h"

namespace opbridge::compute {

namespace roi_align_detail {

// What each bin along one side takes of which pixels.
template <class A>
struct Side {
    std::vector<int64_t> first, count, offset;  // of each bin: its first pixel, how many, and where their weights begin
    std::vector<A> weights;
    int64_t begin = 0, end = 0;  // the pixels of all bins

    void compute(A start, A size, int64_t bins, int64_t samples, int64_t pixels) {
        first.assign(static_cast<size_t>(bins), 0);
        count.assign(static_cast<size_t>(bins), 0);
        offset.assign(static_cast<size_t>(bins), 0);
        weights.clear();
        begin = pixels;
        end = 0;
        const A step = size / static_cast<A>(bins);
        for (int64_t bin = 0; bin < bins; ++bin) add_bin(bin, start, step, samples, pixels);
        if (begin > end) begin = end;
    }

  private:
    OPBRIDGE_UNFUSED static A sample(A start, A step, int64_t bin, int64_t i, int64_t samples) {
        return start + static_cast<A>(bin) * step + (static_cast<A>(i) + A(0.5)) * step / static_cast<A>(samples);
    }

    void add_bin(int64_t bin, A start, A step, int64_t samples, int64_t pixels) {
        const A last = static_cast<A>(pixels - 1);
        const auto pixel = [&](A x) { return static_cast<int64_t>(std::clamp(x, A(0), last)); };
        if (samples <= 0) return;
        const A one = sample(start, step, bin, 0, samples), other = sample(start, step, bin, samples - 1, samples);
        const int64_t low = pixel(std::min(one, other));
        const int64_t high = std::min(pixel(std::max(one, other)) + 1, pixels - 1);
        const size_t at = weights.size();
        first[static_cast<size_t>(bin)] = low;
        count[static_cast<size_t>(bin)] = high - low + 1;
        offset[static_cast<size_t>(bin)] = static_cast<int64_t>(at);
        weights.resize(at + static_cast<size_t>(high - low + 1));
        for (int64_t i = 0; i < samples; ++i) {
            const A x = sample(start, step, bin, i, samples);
            if (x < A(-1) || x > static_cast<A>(pixels)) continue;
            // Rounding can put a sample between the two outermost ones beyond them by its last bit, never beyond a pixel of theirs.
            const int64_t left = std::clamp(pixel(x), low, high);
            const A share = left >= pixels - 1 ? A(0) : std::max(x, A(0)) - static_cast<A>(left);
            weights[at + static_cast<size_t>(left - low)] += 1 - share;
            if (left < high) weights[at + static_cast<size_t>(left - low + 1)] += share;
        }
        begin = std::min(begin, low);
        end = std::max(end, high + 1);
    }
};

template <class A>
struct Region {
    A start_x, start_y, width, height;

    template <class T>
    OPBRIDGE_UNFUSED Region(const RoiArguments& args, const T* roi) {
        const A scale = static_cast<A>(args.spatial_scale), offset = args.aligned ? A(0.5) : A(0);
        start_x = static_cast<A>(roi[1]) * scale - offset;
        start_y = static_cast<A>(roi[2]) * scale - offset;
        width = static_cast<A>(roi[3]) * scale - offset - start_x;
        height = static_cast<A>(roi[4]) * scale - offset - start_y;
        if (!args.aligned) {
            width = std::max(width, A(1));
            height = std::max(height, A(1));
        }
    }

    bool finite() const { return std::isfinite(start_x) && std::isfinite(start_y) && std::isfinite(width) && std::isfinite(height); }
};

constexpr int64_t chunk = 64;  // channels that share a region's weights

template <class T>
struct Align {
    using A = accumulate_t<T>;
    const RoiArguments& args;
    int64_t begin, end;  // of (region, chunk of channels)
    const A* input;
    const T* rois;
    T* output;

    template <int Bytes>
    OPBRIDGE_INLINE void run() const {
        Side<A> rows, columns;
        const Buffer<A> line(args.width);
        const int64_t chunks = ceil_divide(args.channels, chunk);
        int64_t known = -1;
        A samples = 1;
        for (int64_t item = begin; item < end; ++item) {
            const int64_t roi = item / chunks;
            const T* at = rois + roi * 5;
            const Region<A> region(args, at);
            const int64_t channel = item % chunks * chunk;
            const int64_t count = std::min(chunk, args.channels - channel);
            T* to = output + (roi * args.channels + channel) * args.bins();
            if (!region.finite()) {
                fill(to, count * args.bins(), T(std::numeric_limits<A>::quiet_NaN()));
                continue;
            }
            if (known != roi) {
                known = roi;
                const A down = samples_of(region.height, args.pooled_height, args.sampling_ratio);
                const A across = samples_of(region.width, args.pooled_width, args.sampling_ratio);
                samples = std::max(down * across, A(1));
                rows.compute(region.start_y, region.height, args.pooled_height, static_cast<int64_t>(down), args.height);
                columns.compute(region.start_x, region.width, args.pooled_width, static_cast<int64_t>(across), args.width);
            }
            const int64_t image = static_cast<int64_t>(static_cast<A>(at[0]));
            for (int64_t c = 0; c < count; ++c) {
                plane<Bytes>(rows, columns, samples, input + (image * args.channels + channel + c) * args.points(), line.data(),
                             to + c * args.bins());
            }
        }
    }

    template <int Bytes>
    OPBRIDGE_INLINE void plane(const Side<A>& rows, const Side<A>& columns, A samples, const A* image, A* line, T* to) const {
        for (int64_t y = 0; y < args.pooled_height; ++y) {
            const int64_t first = rows.first[static_cast<size_t>(y)], count = rows.count[static_cast<size_t>(y)];
            const A* weights = rows.weights.data() + rows.offset[static_cast<size_t>(y)];
            sum_rows<Bytes>(image + first * args.width, count, weights, columns.begin, columns.end, line);
            for (int64_t x = 0; x < args.pooled_width; ++x) {
                const A* from = line + columns.first[static_cast<size_t>(x)];
                const A* shares = columns.weights.data() + columns.offset[static_cast<size_t>(x)];
                A sum = 0;
                for (int64_t i = 0; i < columns.count[static_cast<size_t>(x)]; ++i) sum += shares[i] * from[i];
                to[y * args.pooled_width + x] = static_cast<T>(sum / samples);
            }
        }
    }

    // line[x] = sum over rows of weights[row] * image[row][x] for x in [from, to).
    template <int Bytes>
    OPBRIDGE_INLINE void sum_rows(const A* image, int64_t count, const A* weights, int64_t from, int64_t to, A* line) const {
        constexpr int lanes = Bytes / static_cast<int>(sizeof(A));
        int64_t x = from;
        if (args.width >= lanes) {
            // The last vector may begin before `from` or before the end of the one before it, never outside of the row.
            for (; x < to; x += lanes) {
                const int64_t at = std::min(x, args.width - lanes);
                VectorOf<A, Bytes> sum = {};
                for (int64_t y = 0; y < count; ++y) {
                    VectorOf<A, Bytes> values;
                    load(values, image + y * args.width + at);
                    sum += values * weights[y];
                }
                store(sum, line + at);
            }
            return;
        }
        for (; x < to; ++x) {
            A sum = 0;
            for (int64_t y = 0; y < count; ++y) sum += weights[y] * image[y * args.width + x];
            line[x] = sum;
        }
    }
};

// The same for regions of a wave's images, whose pixels are in blocks of L channels.
template <int L, class T>
struct AlignBlocks {
    using A = accumulate_t<T>;
    const RoiArguments& args;
    const PixelSizes& sizes;
    const Wave& wave;
    const int64_t* which;  // regions
    int64_t begin, end;
    const A* pixels;
    const T* rois;
    T* output;

    template <int Bytes>
    OPBRIDGE_INLINE void run() const {
        Side<A> rows, columns;
        const Buffer<A> line(args.width * L), sums(args.bins() * L), turned(std::is_same_v<T, A> ? 0 : args.bins() * L);
        for (int64_t item = begin; item < end; ++item) {
            const T* at = rois + which[item] * 5;
            const Region<A> region(args, at);
            const int64_t image = static_cast<int64_t>(static_cast<A>(at[0])) - wave.image;
            const int64_t channel = wave.block * L, channels = std::min(args.channels - channel, wave.blocks * L);
            T* to = output + (which[item] * args.channels + channel) * args.bins();
            if (!region.finite()) {
                fill(to, channels * args.bins(), T(std::numeric_limits<A>::quiet_NaN()));
                continue;
            }
            const A down = samples_of(region.height, args.pooled_height, args.sampling_ratio);
            const A across = samples_of(region.width, args.pooled_width, args.sampling_ratio);
            rows.compute(region.start_y, region.height, args.pooled_height, static_cast<int64_t>(down), args.height);
            columns.compute(region.start_x, region.width, args.pooled_width, static_cast<int64_t>(across), args.width);
            const A share = 1 / std::max(down * across, A(1));
            for (A& weight : rows.weights) weight *= share;
            for (int64_t block = 0; block < wave.blocks; ++block) {
                const A* from = pixels + (image * wave.blocks + block) * sizes.block_size() + L;
                pool<Bytes>(rows, columns, from, line.data(), sums.data());
                const ScatterPixels<L, T> scatter{
                    sums, args.bins(), std::min<int64_t>(L, channels - block * L), to + block * L * args.bins(), args.bins(), turned};
                scatter.template run<Bytes>();
            }
        }
    }

    template <int Bytes>
    OPBRIDGE_INLINE void pool(const Side<A>& rows, const Side<A>& columns, const A* image, A* line, A* to) const {
        for (int64_t y = 0; y < args.pooled_height; ++y) {
            const int64_t first = rows.first[static_cast<size_t>(y)], count = rows.count[static_cast<size_t>(y)];
            const A* weights = rows.weights.data() + rows.offset[static_cast<size_t>(y)];
            for (int64_t x = columns.begin; x < columns.end; ++x) {
                weighted_sum<Bytes>(image + (first * args.width + x) * L, args.width * L, count, weights, line + x * L);
            }
            for (int64_t x = 0; x < args.pooled_width; ++x, to += L) {
                weighted_sum<Bytes>(line + columns.first[static_cast<size_t>(x)] * L, L, columns.count[static_cast<size_t>(x)],
                                    columns.weights.data() + columns.offset[static_cast<size_t>(x)], to);
            }
        }
    }

    // to[c] = sum over i of weights[i] * from[i * stride + c] for the L channels of a block.
    template <int Bytes>
    OPBRIDGE_INLINE void weighted_sum(const A* from, int64_t stride, int64_t count, const A* weights, A* to) const {
        constexpr int bytes = block_bytes<Bytes, L, A>;
        constexpr int lanes = bytes / static_cast<int>(sizeof(A));
        VectorOf<A, bytes> sum[L / lanes] = {};
        for (int64_t i = 0; i < count; ++i) {
            OPBRIDGE_UNROLL
            for (int v = 0; v < L / lanes; ++v) {
                VectorOf<A, bytes> values;
                load(values, from + i * stride + v * lanes);
                sum[v] += values * weights[i];
            }
        }
        OPBRIDGE_UNROLL
        for (int v = 0; v < L / lanes; ++v) store(sum[v], to + v * lanes);
    }
};

// Whether putting channels side by side costs less than it saves: where all regions together are about as large as the images.
template <class T>
bool by_blocks(const RoiArguments& args, const T* rois) {
    using A = accumulate_t<T>;
    double pixels = 0;
    for (int64_t i = 0; i < args.rois; ++i) {
        const Region<A> region(args, rois + i * 5);
        if (!region.finite()) continue;
        pixels += (std::min(std::abs(static_cast<double>(region.width)), static_cast<double>(args.width)) + 8) *
                  (std::min(std::abs(static_cast<double>(region.height)), static_cast<double>(args.height)) + 8);
    }
    return args.channels > narrow_block && pixels * 2 > static_cast<double>(args.images) * static_cast<double>(args.points());
}

}  // namespace roi_align_detail

// How many numbers of accumulate_t<T> roi_align needs as scratch: pixels in blocks, or the input as floats.
template <class T>
int64_t roi_align_scratch(const RoiArguments& args, const T* rois) {
    if (args.rois == 0 || args.channels == 0) return 0;
    if (roi_align_detail::by_blocks(args, rois)) return wave_size(roi_pixel_sizes<accumulate_t<T>>(args), args.images);
    return widen_scratch<T>(product({args.images, args.channels, args.height, args.width}, "input"));
}

// output (rois, channels, pooled_height, pooled_width) of input (images, channels, height, width).
template <class T, class Parallel>
void roi_align(const RoiArguments& args, const T* input, const T* rois, T* output, accumulate_t<T>* scratch, Parallel&& parallel) {
    using namespace roi_align_detail;
    using A = accumulate_t<T>;
    for (int64_t i = 0; i < args.rois; ++i) {
        const Region<A> region(args, rois + i * 5);
        const bool finite = region.finite();
        check_roi<A>(args, i, static_cast<A>(rois[i * 5]), finite ? region.height : A(0), finite ? region.width : A(0));
    }
    if (args.rois == 0 || args.channels == 0) return;
    if (by_blocks(args, rois)) {
        constexpr int lanes = wide_block<A>;
        const PixelSizes sizes = roi_pixel_sizes<A>(args);
        return for_each_wave(sizes, args.images, [&](const Wave& wave) {
            const std::vector<int64_t> which = rois_of(args, wave, rois);
            if (which.empty()) return;
            gather_wave<lanes>(sizes, wave, input, scratch, parallel);
            parallel(static_cast<int64_t>(which.size()), 1, [&](int64_t begin, int64_t end) {
                at_full_width(AlignBlocks<lanes, T>{args, sizes, wave, which.data(), begin, end, scratch, rois, output});
            });
        });
    }
    const A* wide = widen(input, args.images * args.channels * args.points(), scratch, parallel);
    parallel(args.rois * ceil_divide(args.channels, chunk), 1,
             [&](int64_t begin, int64_t end) { at_full_width(Align<T>{args, begin, end, wide, rois, output}); });
}

}  // namespace opbridge::compute
