// Deformable convolution on CUDA devices, as a product of matrices whose second one, what the taps read, is only ever in shared memory.
#include "device/deform_conv2d.h"
#include "device/indices.h"

namespace opbridge::device {

template <class T>
__global__ void __launch_bounds__(256) pack_deformed_weights(Deformed sizes, const T* weight, accumulate_t<T>* packed) {
    const int64_t count = sizes.out_channels * sizes.group_channels() * sizes.taps();
    for (int64_t i = thread_index(); i < count; i += thread_count()) {
        int64_t rest = i;
        const int64_t output = take_index(rest, sizes.group_outputs()), channel = take_index(rest, sizes.group_channels());
        const int64_t tap = take_index(rest, sizes.taps()), group = rest;
        const int64_t row = group * sizes.group_outputs() + output;
        packed[i] = static_cast<accumulate_t<T>>(weight[(row * sizes.group_channels() + channel) * sizes.taps() + tap]);
    }
}

namespace {

constexpr int depth = 16;     // steps of the sums that are taken together
constexpr int most_taps = 9;  // whose places are known at a time
constexpr int rows = 4, columns = 4;  // outputs and pixels of a thread

// Where a tap of a pixel reads, and what each of the four counts.
template <class A>
struct Places {
    int64_t corner[4];  // pixels of a channel; -1 is zero
    A share[4];
};

template <class T, class A>
__device__ Places<A> places_of(const Deformed& s, const T* offset, const T* mask, int64_t image, int64_t offset_group, int64_t tap,
                               int64_t pixel) {
    const int64_t first = (image * s.offset_groups + offset_group) * s.taps() + tap;
    const int64_t row = pixel / s.out_width, column = pixel % s.out_width;
    A y = static_cast<A>(row * s.stride_h - s.padding_h + tap / s.kernel_w * s.dilation_h) +
          static_cast<A>(offset[2 * first * s.pixels() + pixel]);
    A x = static_cast<A>(column * s.stride_w - s.padding_w + tap % s.kernel_w * s.dilation_w) +
          static_cast<A>(offset[(2 * first + 1) * s.pixels() + pixel]);
    A factor = mask ? static_cast<A>(mask[first * s.pixels() + pixel]) : A(1);
    // Outside, only zeros are read; what is no number is neither inside nor outside, and stays none.
    if (x != x || y != y) factor = x + y;
    const bool inside = y > A(-1) && y < static_cast<A>(s.height) && x > A(-1) && x < static_cast<A>(s.width);
    if (!inside) x = y = A(0);
    const int64_t top = static_cast<int64_t>(math::floor(y)), left = static_cast<int64_t>(math::floor(x));
    const A low_y = y - static_cast<A>(top), low_x = x - static_cast<A>(left);
    const bool has_top = inside && top >= 0, has_low = inside && top + 1 < s.height;
    const bool has_left = left >= 0, has_right = left + 1 < s.width;
    const int64_t at = top * s.width + left;
    return {{has_top && has_left ? at : -1, has_top && has_right ? at + 1 : -1, has_low && has_left ? at + s.width : -1,
             has_low && has_right ? at + s.width + 1 : -1},
            {(1 - low_y) * (1 - low_x) * factor, (1 - low_y) * low_x * factor, low_y * (1 - low_x) * factor, low_y * low_x * factor}};
}

}  // namespace

// blockIdx.x: image and block of pixels; blockIdx.y: group and block of its output channels.
template <class T>
__global__ void __launch_bounds__(deformed_threads)
    convolve_deformed(Deformed sizes, const T* x, const accumulate_t<T>* packed, const T* offset, const T* mask, const T* bias, T* y) {
    using A = accumulate_t<T>;
    __shared__ A weights[depth][deformed_outputs];
    __shared__ A values[depth][deformed_pixels];
    __shared__ int corners[most_taps][4][deformed_pixels];
    __shared__ A shares[most_taps][4][deformed_pixels];
    const int thread = static_cast<int>(threadIdx.x);
    const int64_t pixels = sizes.pixels(), taps = sizes.taps(), of_group = sizes.group_channels(), outputs = sizes.group_outputs();
    const int64_t blocks_of_pixels = (pixels + deformed_pixels - 1) / deformed_pixels;
    const int64_t blocks_of_outputs = (outputs + deformed_outputs - 1) / deformed_outputs;
    const int64_t image = blockIdx.x / blocks_of_pixels, first_pixel = blockIdx.x % blocks_of_pixels * deformed_pixels;
    const int64_t group = blockIdx.y / blocks_of_outputs, first_output = blockIdx.y % blocks_of_outputs * deformed_outputs;
    const int64_t by_offset = sizes.channels / sizes.offset_groups, plane = sizes.height * sizes.width;
    const A* own_weights = packed + group * outputs * of_group * taps + first_output;
    const int row = thread / 16 * rows, column = thread % 16 * columns;
    A sums[rows][columns] = {};

    // Channels of one group and one group of offsets, some of their taps, and then `depth` steps of the sums at a time.
    for (int64_t begin = group * of_group, last = begin + of_group; begin < last;) {
        const int64_t offset_group = begin / by_offset;
        const int64_t end = math::min<int64_t>(last, (offset_group + 1) * by_offset);
        const int here = static_cast<int>(end - begin);
        for (int64_t first_tap = 0; first_tap < taps; first_tap += most_taps) {
            const int some_taps = static_cast<int>(math::min<int64_t>(most_taps, taps - first_tap));
            __syncthreads();
            for (int i = thread; i < some_taps * deformed_pixels; i += deformed_threads) {
                const int tap = i / deformed_pixels, p = i % deformed_pixels;
                Places<A> places{{-1, -1, -1, -1}, {}};
                if (first_pixel + p < pixels) {
                    places = places_of<T, A>(sizes, offset, mask, image, offset_group, first_tap + tap, first_pixel + p);
                }
                for (int k = 0; k < 4; ++k) {
                    corners[tap][k][p] = static_cast<int>(places.corner[k]);
                    shares[tap][k][p] = places.share[k];
                }
            }
            const int steps = some_taps * here;
            for (int step = 0; step < steps; step += depth) {
                __syncthreads();
                for (int i = thread; i < depth * deformed_outputs; i += deformed_threads) {
                    const int k = i / deformed_outputs, o = i % deformed_outputs;
                    const int at = step + k, tap = at / here, channel = at % here;
                    const bool there = at < steps && first_output + o < outputs;
                    weights[k][o] =
                        there ? own_weights[((first_tap + tap) * of_group + (begin - group * of_group) + channel) * outputs + o] : A(0);
                }
                for (int i = thread; i < depth * deformed_pixels; i += deformed_threads) {
                    const int k = i / deformed_pixels, p = i % deformed_pixels;
                    const int at = step + k, tap = at / here, channel = at % here;
                    A value = 0;
                    if (at < steps) {
                        const T* from = x + (image * sizes.channels + begin + channel) * plane;
                        for (int j = 0; j < 4; ++j) {
                            const int corner = corners[tap][j][p];
                            value += shares[tap][j][p] * (corner < 0 ? A(0) : static_cast<A>(from[corner]));
                        }
                    }
                    values[k][p] = value;
                }
                __syncthreads();
#ifdef __CUDACC_RTC__
#pragma unroll
#endif
                for (int k = 0; k < depth; ++k) {
                    A left[rows], right[columns];
                    for (int r = 0; r < rows; ++r) left[r] = weights[k][row + r];
                    for (int c = 0; c < columns; ++c) right[c] = values[k][column + c];
                    for (int r = 0; r < rows; ++r) {
                        for (int c = 0; c < columns; ++c) sums[r][c] += left[r] * right[c];
                    }
                }
            }
        }
        begin = end;
    }
    for (int r = 0; r < rows; ++r) {
        const int64_t output = first_output + row + r;
        if (output >= outputs) break;
        const int64_t of_all = group * outputs + output;
        const A start = bias ? static_cast<A>(bias[of_all]) : A(0);
        for (int c = 0; c < columns; ++c) {
            const int64_t pixel = first_pixel + column + c;
            if (pixel < pixels) y[(image * sizes.out_channels + of_all) * pixels + pixel] = T(sums[r][c] + start);
        }
    }
}

}  // namespace opbridge::device
