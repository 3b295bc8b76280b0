// A kernel for the node that symbolic_deform_conv2d.py creates. Its parameters are the node's inputs in order, then its attributes; the
// built-in opbridge_ops::deform_conv2d computes the same many times as fast.
#include <opbridge/kernel.h>

#include <algorithm>
#include <cmath>
using namespace opbridge;

template <class T>
struct Image {
    const T* pixels;
    int64_t height, width;

    T at(int64_t y, int64_t x) const { return y < 0 || x < 0 || y >= height || x >= width ? T(0) : pixels[y * width + x]; }

    T at(T y, T x) const {
        if (!(y > -1 && x > -1 && y < T(height) && x < T(width))) return T(0);
        const int64_t top = int64_t(std::floor(y)), left = int64_t(std::floor(x));
        const T low = y - T(top), right = x - T(left);
        return (1 - low) * ((1 - right) * at(top, left) + right * at(top, left + 1)) +
               low * ((1 - right) * at(top + 1, left) + right * at(top + 1, left + 1));
    }
};

template <class T>
void deform_conv2d(Input<T, 4> x, Input<T, 4> weight, Input<T, 4> offset, Input<T> mask, Input<T> bias, Ints stride, Ints padding,
                   Ints dilation, int64_t groups, int64_t offset_groups, bool use_mask, Output<T> y, Context& context) {
    const int64_t channels = weight.size(1), rows = weight.size(2), columns = weight.size(3), taps = rows * columns;
    const int64_t height = offset.size(2), width = offset.size(3), points = height * width, outputs = weight.size(0);
    require(groups > 0 && channels * groups == x.size(1) && outputs % groups == 0, "weight does not fit x and groups");
    require(
        offset_groups > 0 && x.size(1) % offset_groups == 0 && offset.size(0) == x.size(0) && offset.size(1) == 2 * offset_groups * taps,
        "offset does not fit x, weight and offset_groups");
    require(!use_mask || mask.size() * 2 == offset.size(), "mask does not fit offset");
    require(bias.size() == outputs, "bias does not fit weight");
    context.parallel_for(x.size(0) * outputs, 1, [&](int64_t begin, int64_t end) {
        for (int64_t plane = begin; plane < end; ++plane) {
            const int64_t image = plane / outputs, output = plane % outputs;
            T* to = y.data() + plane * points;
            std::fill(to, to + points, bias[output]);
            for (int64_t c = 0; c < channels; ++c) {
                const int64_t channel = output / (outputs / groups) * channels + c;
                const int64_t moved = image * offset_groups + channel / (x.size(1) / offset_groups);
                const Image<T> from{x.data() + (image * x.size(1) + channel) * x.size(2) * x.size(3), x.size(2), x.size(3)};
                for (int64_t tap = 0; tap < taps; ++tap) {
                    const T* down = offset.data() + (moved * taps + tap) * 2 * points;
                    const T* share = use_mask ? mask.data() + (moved * taps + tap) * points : nullptr;
                    const T factor = weight.data()[(output * channels + c) * taps + tap];
                    for (int64_t p = 0; p < points; ++p) {
                        const T row = T(p / width * stride[0] - padding[0] + tap / columns * dilation[0]) + down[p];
                        const T column = T(p % width * stride[1] - padding[1] + tap % columns * dilation[1]) + down[points + p];
                        to[p] += factor * (share ? share[p] : T(1)) * from.at(row, column);
                    }
                }
            }
        }
    });
}

Shape deform_conv2d_shape(Shape x, Shape weight, Shape offset, Shape, Shape, Ints stride, Ints padding, Ints dilation, int64_t, int64_t,
                          bool) {
    require(x.rank() == 4 && weight.rank() == 4 && offset.rank() == 4, "x, weight and offset must have four dimensions");
    require(stride.size() == 2 && padding.size() == 2 && dilation.size() == 2, "stride, padding and dilation must have two elements each");
    return {x[0], weight[0], offset[2], offset[3]};
}

OPBRIDGE_KERNEL(
    "custom::deform_conv2d(Tensor x, Tensor weight, Tensor offset, Tensor mask, Tensor bias, int[] stride, int[] padding, int[] dilation, "
    "int groups, int offset_groups, bool use_mask) -> Tensor",
    deform_conv2d, deform_conv2d_shape, types<float, double>);
