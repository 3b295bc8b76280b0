// RoIAlign of rotated regions on CUDA devices.
#include "device/regions.h"

namespace opbridge::device {

template <class T, int each>
__global__ void __launch_bounds__(256) align_rotated_regions(Regions sizes, const T* input, const T* rois, T* output) {
    using A = accumulate_t<T>;
    const int64_t bins = sizes.pooled_height * sizes.pooled_width, plane = sizes.height * sizes.width;
    const int64_t count = sizes.rois * ((sizes.channels + each - 1) / each) * bins;
    const A scale = static_cast<A>(sizes.spatial_scale), offset = sizes.aligned ? A(0.5) : A(0);
    for (int64_t i = thread_index(); i < count; i += thread_count()) {
        const Bin bin = Bin::of<each>(sizes, i);
        const T* roi = rois + bin.roi * 6;
        const A middle_x = rounded_product(static_cast<A>(roi[1]), scale) - offset;
        const A middle_y = rounded_product(static_cast<A>(roi[2]), scale) - offset;
        A width = rounded_product(static_cast<A>(roi[3]), scale), height = rounded_product(static_cast<A>(roi[4]), scale);
        if (!sizes.aligned) {
            width = math::max(width, A(1));
            height = math::max(height, A(1));
        }
        const A angle = sizes.clockwise ? -static_cast<A>(roi[5]) : static_cast<A>(roi[5]);
        const A cosine = math::cos(angle), sine = math::sin(angle), image = static_cast<A>(roi[0]);
        const A down = samples_of(height, sizes.pooled_height, sizes.sampling_ratio);
        const A across = samples_of(width, sizes.pooled_width, sizes.sampling_ratio);
        const bool usable = math::isfinite(middle_x) && math::isfinite(middle_y) && math::isfinite(width) && math::isfinite(height) &&
                            math::isfinite(cosine) && image >= A(0) && image < static_cast<A>(sizes.images) && height >= A(0) &&
                            width >= A(0) && down <= A(most_samples) && across <= A(most_samples) &&
                            static_cast<double>(down) * static_cast<double>(across) <= most_samples_of_bin;
        A sums[each] = {};
        const A none = usable ? A(0) : A(0) / A(0);
        if (usable) {
            const A bin_height = height / static_cast<A>(sizes.pooled_height), bin_width = width / static_cast<A>(sizes.pooled_width);
            const A top = rounded_product(static_cast<A>(bin.row), bin_height) - height / 2;
            const A left = rounded_product(static_cast<A>(bin.column), bin_width) - width / 2;
            const T* from = input + (static_cast<int64_t>(image) * sizes.channels + bin.channel) * plane;
            const int rows = static_cast<int>(down), columns = static_cast<int>(across);
            for (int j = 0; j < rows; ++j) {
                const A v = top + rounded_product(static_cast<A>(j) + A(0.5), bin_height) / down;
                for (int k = 0; k < columns; ++k) {
                    const A u = left + rounded_product(static_cast<A>(k) + A(0.5), bin_width) / across;
                    const A x = rounded_product(v, sine) + rounded_product(u, cosine) + middle_x;
                    const A y = rounded_product(v, cosine) - rounded_product(u, sine) + middle_y;
                    add_sample<each>(sizes, y, x, from, bin.channels, sums);
                }
            }
        }
        const A samples = math::max(down * across, A(1));
        for (int c = 0; c < each; ++c) {
            if (c < bin.channels) output[bin.place + c * bins] = T(usable ? sums[c] / samples : none);
        }
    }
}

}  // namespace opbridge::device
