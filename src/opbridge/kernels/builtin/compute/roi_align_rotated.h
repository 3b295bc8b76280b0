// RoIAlign of rotated regions (image, centre x, centre y, width, height, angle in radians), as mmcv's roi_align_rotated and detectron2's
// ROIAlignRotated: the mean of bilinear samples on the region's own lattice, which is turned by the angle, counterclockwise as seen on a
// screen or the other way with clockwise = true. Without a sampling ratio a bin has ceil(its height) by ceil(its width) samples. aligned
// moves regions by half a pixel and leaves those smaller than a pixel as they are; negative sizes are refused then. A region that is not
// finite gives numbers that are none.
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

namespace opbridge::compute {

namespace roi_align_rotated_detail {

template <class A>
struct Region {
    A x, y, width, height, cosine, sine;

    template <class T>
    Region(const RoiArguments& args, const T* roi) {
        const A scale = static_cast<A>(args.spatial_scale), offset = args.aligned ? A(0.5) : A(0);
        x = static_cast<A>(roi[1]) * scale - offset;
        y = static_cast<A>(roi[2]) * scale - offset;
        width = static_cast<A>(roi[3]) * scale;
        height = static_cast<A>(roi[4]) * scale;
        if (!args.aligned) {
            width = std::max(width, A(1));
            height = std::max(height, A(1));
        }
        const A angle = args.clockwise ? -static_cast<A>(roi[5]) : static_cast<A>(roi[5]);
        cosine = std::cos(angle);
        sine = std::sin(angle);
    }

    bool finite() const {
        return std::isfinite(x) && std::isfinite(y) && std::isfinite(width) && std::isfinite(height) && std::isfinite(cosine);
    }
};

constexpr int64_t most_taps = 256;
constexpr int64_t bin_tile = 64;  // bins whose sums are put in place together

// The pixels that some samples of a bin read and what each counts.
template <class A>
struct Taps {
    int64_t count = 0;
    int64_t index[most_taps];
    A weight[most_taps];

    OPBRIDGE_INLINE void add(A x, A y, int64_t width, int64_t height) {
        if (!(x >= A(-1) && y >= A(-1) && x <= static_cast<A>(width) && y <= static_cast<A>(height))) return;
        x = std::max(x, A(0));
        y = std::max(y, A(0));
        const int64_t left = std::min(static_cast<int64_t>(x), width - 1), top = std::min(static_cast<int64_t>(y), height - 1);
        const A right_share = left == width - 1 ? A(0) : x - static_cast<A>(left);
        const A low_share = top == height - 1 ? A(0) : y - static_cast<A>(top);
        const int64_t right = std::min(left + 1, width - 1), low = std::min(top + 1, height - 1);
        set_tap(top * width + left, (1 - low_share) * (1 - right_share));
        set_tap(top * width + right, (1 - low_share) * right_share);
        set_tap(low * width + left, low_share * (1 - right_share));
        set_tap(low * width + right, low_share * right_share);
    }

  private:
    OPBRIDGE_INLINE void set_tap(int64_t pixel, A share) {
        index[count] = pixel;
        weight[count++] = share;
    }
};

// The samples of one bin after the other, as taps.
template <class T>
class Bins {
  public:
    using A = accumulate_t<T>;

    Bins(const RoiArguments& args, const Region<A>& region)
        : args_(args),
          region_(region),
          down_(samples_of(region.height, args.pooled_height, args.sampling_ratio)),
          across_(samples_of(region.width, args.pooled_width, args.sampling_ratio)),
          bin_height_(region.height / static_cast<A>(args.pooled_height)),
          bin_width_(region.width / static_cast<A>(args.pooled_width)) {}

    // What one sample counts.
    A share() const { return 1 / std::max(down_ * across_, A(1)); }

    // Calls sum() whenever taps are full, and at the end.
    template <class Sum>
    void visit(int64_t bin, Taps<A>& taps, Sum&& sum) const {
        const A top = -region_.height / 2 + static_cast<A>(bin / args_.pooled_width) * bin_height_;
        const A left = -region_.width / 2 + static_cast<A>(bin % args_.pooled_width) * bin_width_;
        taps.count = 0;
        for (A i = 0; i < down_; ++i) {
            const A v = top + (i + A(0.5)) * bin_height_ / down_;
            for (A j = 0; j < across_; ++j) {
                const A u = left + (j + A(0.5)) * bin_width_ / across_;
                taps.add(v * region_.sine + u * region_.cosine + region_.x, v * region_.cosine - u * region_.sine + region_.y, args_.width,
                         args_.height);
                if (taps.count <= most_taps - 4) continue;
                sum();
                taps.count = 0;
            }
        }
        sum();
    }

  private:
    const RoiArguments& args_;
    const Region<A>& region_;
    A down_, across_, bin_height_, bin_width_;
};

// Adds taps to the sums of all channels of a bin, from pixels whose channels lie side by side.
template <int L, class A>
struct SumBlocks {
    const PixelSizes& sizes;
    int64_t blocks;
    const Taps<A>& taps;
    A share;
    const A* pixels;
    A* sums;  // blocks bin_tile * L apart

    template <int Bytes>
    OPBRIDGE_INLINE void run() const {
        constexpr int bytes = block_bytes<Bytes, L, A>;
        constexpr int lanes = bytes / static_cast<int>(sizeof(A));
        constexpr int vectors = L / lanes;
        for (int64_t block = 0; block < blocks; ++block) {
            const A* rows = pixels + block * sizes.block_size() + L;
            VectorOf<A, bytes> sum[vectors] = {};
            for (int64_t k = 0; k < taps.count; ++k) {
                OPBRIDGE_UNROLL
                for (int v = 0; v < vectors; ++v) {
                    VectorOf<A, bytes> values;
                    load(values, rows + taps.index[k] * L + v * lanes);
                    sum[v] += values * taps.weight[k];
                }
            }
            A* to = sums + block * bin_tile * L;
            OPBRIDGE_UNROLL
            for (int v = 0; v < vectors; ++v) {
                VectorOf<A, bytes> total;
                load(total, to + v * lanes);
                total += sum[v] * share;
                store(total, to + v * lanes);
            }
        }
    }
};

// Regions of a wave's images, whose pixels are in blocks of L channels.
template <int L, class T>
void align_by_blocks(const RoiArguments& args, const PixelSizes& sizes, const Wave& wave, const int64_t* which, int64_t begin, int64_t end,
                     const accumulate_t<T>* pixels, const T* rois, T* output) {
    using A = accumulate_t<T>;
    const Buffer<A> sums(wave.blocks * bin_tile * L), scratch(bin_tile * L);
    const Buffer<Taps<A>> taps(1);
    for (int64_t item = begin; item < end; ++item) {
        const Region<A> region(args, rois + which[item] * 6);
        const int64_t image = static_cast<int64_t>(static_cast<A>(rois[which[item] * 6])) - wave.image;
        const A* of_image = pixels + image * wave.blocks * sizes.block_size();
        const int64_t channel = wave.block * L, channels = std::min(args.channels - channel, wave.blocks * L);
        T* to = output + (which[item] * args.channels + channel) * args.bins();
        if (!region.finite()) {
            fill(to, channels * args.bins(), T(std::numeric_limits<A>::quiet_NaN()));
            continue;
        }
        const Bins<T> bins(args, region);
        for (int64_t first = 0; first < args.bins(); first += bin_tile) {
            const int64_t count = std::min(bin_tile, args.bins() - first);
            fill(sums.data(), wave.blocks * bin_tile * L, A(0));
            for (int64_t bin = 0; bin < count; ++bin) {
                bins.visit(first + bin, *taps.data(), [&] {
                    at_full_width(SumBlocks<L, A>{sizes, wave.blocks, *taps.data(), bins.share(), of_image, sums.data() + bin * L});
                });
            }
            for (int64_t block = 0; block < wave.blocks; ++block) {
                at_full_width(ScatterPixels<L, T>{sums.data() + block * bin_tile * L, count, std::min<int64_t>(L, channels - block * L),
                                                  to + block * L * args.bins() + first, args.bins(), scratch});
            }
        }
    }
}

// Regions of all images, from the input as it lies.
template <class T>
void align_by_planes(const RoiArguments& args, int64_t begin, int64_t end, const T* input, const T* rois, T* output) {
    using A = accumulate_t<T>;
    const Buffer<Taps<A>> taps(1);
    const Buffer<A> sums(args.channels);
    for (int64_t roi = begin; roi < end; ++roi) {
        const T* at = rois + roi * 6;
        const Region<A> region(args, at);
        T* to = output + roi * args.channels * args.bins();
        if (!region.finite()) {
            fill(to, args.channels * args.bins(), T(std::numeric_limits<A>::quiet_NaN()));
            continue;
        }
        const Bins<T> bins(args, region);
        const T* image = input + static_cast<int64_t>(static_cast<A>(at[0])) * args.channels * args.points();
        for (int64_t bin = 0; bin < args.bins(); ++bin) {
            fill(sums.data(), args.channels, A(0));
            bins.visit(bin, *taps.data(), [&] {
                const Taps<A>& all = *taps.data();
                for (int64_t c = 0; c < args.channels; ++c) {
                    A sum = 0;
                    for (int64_t k = 0; k < all.count; ++k) sum += all.weight[k] * static_cast<A>(image[c * args.points() + all.index[k]]);
                    sums[c] += sum * bins.share();
                }
            });
            for (int64_t c = 0; c < args.channels; ++c) to[c * args.bins() + bin] = static_cast<T>(sums[c]);
        }
    }
}

// How many samples all regions have, which is what putting channels side by side is weighed against. Throws where a region is none.
template <class T>
double all_samples(const RoiArguments& args, const T* rois) {
    using A = accumulate_t<T>;
    double samples = 0;
    for (int64_t i = 0; i < args.rois; ++i) {
        const Region<A> region(args, rois + i * 6);
        const A height = region.finite() ? region.height : A(0), width = region.finite() ? region.width : A(0);
        check_roi<A>(args, i, static_cast<A>(rois[i * 6]), height, width);
        const double of_bin = static_cast<double>(samples_of(height, args.pooled_height, args.sampling_ratio)) *
                              static_cast<double>(samples_of(width, args.pooled_width, args.sampling_ratio));
        if (height < A(0) || width < A(0) || of_bin > most_samples_of_bin) {
            refuse("roi " + std::to_string(i) + (height < A(0) || width < A(0) ? " has a negative size: " : " is too large: ") +
                   std::to_string(height) + " by " + std::to_string(width) + " pixels");
        }
        samples += of_bin;
    }
    return samples * static_cast<double>(args.bins());
}

template <int L, class T, class Parallel>
void by_blocks(const RoiArguments& args, const T* input, const T* rois, T* output, accumulate_t<T>* scratch, Parallel&& parallel) {
    const PixelSizes sizes = roi_pixel_sizes<accumulate_t<T>>(args);
    for_each_wave(sizes, args.images, [&](const Wave& wave) {
        const std::vector<int64_t> which = rois_of(args, wave, rois);
        if (which.empty()) return;
        gather_wave<L>(sizes, wave, input, scratch, parallel);
        parallel(static_cast<int64_t>(which.size()), 1, [&](int64_t begin, int64_t end) {
            align_by_blocks<L>(args, sizes, wave, which.data(), begin, end, scratch, rois, output);
        });
    });
}

}  // namespace roi_align_rotated_detail

// How many numbers of accumulate_t<T> roi_align_rotated needs as scratch.
template <class T>
int64_t roi_align_rotated_scratch(const RoiArguments& args) {
    if (args.rois == 0 || args.channels < 2) return 0;
    return wave_size(roi_pixel_sizes<accumulate_t<T>>(args), args.images);
}

// output (rois, channels, pooled_height, pooled_width) of input (images, channels, height, width).
template <class T, class Parallel>
void roi_align_rotated(const RoiArguments& args, const T* input, const T* rois, T* output, accumulate_t<T>* scratch, Parallel&& parallel) {
    using namespace roi_align_rotated_detail;
    using A = accumulate_t<T>;
    const double samples = all_samples(args, rois);
    if (args.rois == 0 || args.channels == 0) return;
    const double pixels = static_cast<double>(args.images) * static_cast<double>(args.points());
    if (args.channels > 1 && samples * 2 > pixels) {
        if (is_narrow<A>(args.channels)) return by_blocks<narrow_block>(args, input, rois, output, scratch, parallel);
        return by_blocks<wide_block<A>>(args, input, rois, output, scratch, parallel);
    }
    parallel(args.rois, 1, [&](int64_t begin, int64_t end) { align_by_planes(args, begin, end, input, rois, output); });
}

}  // namespace opbridge::compute
