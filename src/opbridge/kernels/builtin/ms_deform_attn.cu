// Multi-scale deformable attention on CUDA devices.
#include "device/indices.h"
#include "device/ms_deform_attn.h"

namespace opbridge::device {

template <class T>
__global__ void __launch_bounds__(256) attend(Attention sizes, const T* value, const int64_t* level_sizes, const int64_t* level_starts,
                                              const T* locations, const T* weights, T* output) {
    using A = accumulate_t<T>;
    const int64_t count = sizes.batch * sizes.queries * sizes.heads * sizes.dim, stride = sizes.heads * sizes.dim;
    for (int64_t i = thread_index(); i < count; i += thread_count()) {
        int64_t item = i;
        const int64_t d = take_index(item, sizes.dim);
        int64_t rest = item;
        const int64_t head = take_index(rest, sizes.heads), batch = rest / sizes.queries;
        const T* location = locations + item * sizes.levels * sizes.points * 2;
        const T* weight = weights + item * sizes.levels * sizes.points;
        const T* keys = value + batch * sizes.keys * stride + head * sizes.dim + d;
        A sum = 0;
        for (int64_t l = 0; l < sizes.levels; ++l) {
            const int64_t height = level_sizes[2 * l], width = level_sizes[2 * l + 1], start = level_starts[l];
            const bool within = height >= 0 && width >= 0 && start >= 0 && height <= sizes.keys && width <= sizes.keys &&
                                (height == 0 || width <= (sizes.keys - start) / height) && start <= sizes.keys;
            if (!within) sum += A(0) / A(0);
            const T* map = keys + start * stride;
            for (int64_t p = 0; p < sizes.points; ++p, location += 2, ++weight) {
                const A x = static_cast<A>(location[0]) * static_cast<A>(width) - A(0.5);
                const A y = static_cast<A>(location[1]) * static_cast<A>(height) - A(0.5);
                if (!within || !(x > A(-1) && y > A(-1) && x < static_cast<A>(width) && y < static_cast<A>(height))) continue;
                const int64_t left = static_cast<int64_t>(math::floor(x)), top = static_cast<int64_t>(math::floor(y));
                const A right_share = x - static_cast<A>(left), low_share = y - static_cast<A>(top);
                const bool has_left = left >= 0, has_right = left + 1 < width, has_top = top >= 0, has_low = top + 1 < height;
                const T* at = map + (top * width + left) * stride;
                A sample = 0;
                if (has_top && has_left) sample += (1 - low_share) * (1 - right_share) * static_cast<A>(at[0]);
                if (has_top && has_right) sample += (1 - low_share) * right_share * static_cast<A>(at[stride]);
                if (has_low && has_left) sample += low_share * (1 - right_share) * static_cast<A>(at[width * stride]);
                if (has_low && has_right) sample += low_share * right_share * static_cast<A>(at[(width + 1) * stride]);
                sum += static_cast<A>(*weight) * sample;
            }
        }
        output[i] = T(sum);
    }
}

}  // namespace opbridge::device
