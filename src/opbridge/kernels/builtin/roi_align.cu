// RoIAlign on CUDA devices.
#include "device/regions.h"

namespace opbridge::device {

template <class T, int each>
__global__ void __launch_bounds__(256) align_regions(Regions sizes, const T* input, const T* rois, T* output) {
    using A = accumulate_t<T>;
    const int64_t bins = sizes.pooled_height * sizes.pooled_width, plane = sizes.height * sizes.width;
    const int64_t count = sizes.rois * ((sizes.channels + each - 1) / each) * bins;
    const A scale = static_cast<A>(sizes.spatial_scale), offset = sizes.aligned ? A(0.5) : A(0);
    for (int64_t i = thread_index(); i < count; i += thread_count()) {
        const Bin bin = Bin::of<each>(sizes, i);
        const T* roi = rois + bin.roi * 5;
        const A start_x = rounded_product(static_cast<A>(roi[1]), scale) - offset;
        const A start_y = rounded_product(static_cast<A>(roi[2]), scale) - offset;
        A width = rounded_product(static_cast<A>(roi[3]), scale) - offset - start_x;
        A height = rounded_product(static_cast<A>(roi[4]), scale) - offset - start_y;
        const A image = static_cast<A>(roi[0]);
        const bool finite = math::isfinite(start_x) && math::isfinite(start_y) && math::isfinite(width) && math::isfinite(height);
        if (!sizes.aligned) {
            width = math::max(width, A(1));
            height = math::max(height, A(1));
        }
        const A down = samples_of(height, sizes.pooled_height, sizes.sampling_ratio);
        const A across = samples_of(width, sizes.pooled_width, sizes.sampling_ratio);
        const bool usable =
            finite && image >= A(0) && image < static_cast<A>(sizes.images) && down <= A(most_samples) && across <= A(most_samples);
        A sums[each] = {};
        const A none = usable ? A(0) : A(0) / A(0);
        if (usable) {
            const A step_y = height / static_cast<A>(sizes.pooled_height), step_x = width / static_cast<A>(sizes.pooled_width);
            const A first_y = start_y + rounded_product(static_cast<A>(bin.row), step_y);
            const A first_x = start_x + rounded_product(static_cast<A>(bin.column), step_x);
            const T* from = input + (static_cast<int64_t>(image) * sizes.channels + bin.channel) * plane;
            const int rows = static_cast<int>(down), columns = static_cast<int>(across);
            for (int j = 0; j < rows; ++j) {
                const A y = first_y + rounded_product(static_cast<A>(j) + A(0.5), step_y) / down;
                for (int k = 0; k < columns; ++k) {
                    const A x = first_x + rounded_product(static_cast<A>(k) + A(0.5), step_x) / across;
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
