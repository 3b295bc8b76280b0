// Kernels of one function of an element, for the CPU and for CUDA devices.
#include <opbridge/kernel.h>

#ifndef OPBRIDGE_ON_DEVICE
#include <vector>
#endif

using namespace opbridge;

template <class T>
void scaled_add(int64_t i, View<const T> a, View<const T> b, double alpha, View<T> out) {
    out[i] = static_cast<T>(T(alpha) * a[i] + b[i]);
}

OPBRIDGE_ELEMENT_KERNEL("elementtest::scaled_add(Tensor a, Tensor b, *, float alpha=2.0) -> Tensor", scaled_add, same_shape, floating);
OPBRIDGE_ELEMENT_KERNEL("elementtest::broadcast_add(Tensor a, Tensor b, *, float alpha=2.0) -> Tensor", scaled_add, broadcast_shape,
                        numeric);

// Several outputs, of other types, an input that may be left out, and attributes of each kind.
template <class T>
void split(int64_t i, const View<const T>& x, Optional<View<const int64_t>> shift, Optional<double> scale, int64_t least, bool flip,
           View<T> value, View<bool> chosen) {
    const accumulate_t<T> found = math::abs(accumulate_t<T>(x[i])) * accumulate_t<T>(scale ? *scale : 1.0);
    const int64_t moved = shift ? (*shift)[i] : 0;
    value[i] = T(flip ? -found : found) + T(float(moved));
    chosen[i] = found >= accumulate_t<T>(least);
}

OPBRIDGE_ELEMENT_KERNEL(
    "elementtest::split(Tensor x, Tensor? shift=None, float? scale=None, *, int least=1, bool flip=False) -> (Tensor, Tensor)", split,
    same_shape, floating);

// A shape function of its own, and indices.
namespace {

template <class T>
accumulate_t<T> at(const View<const T, 3>& x, int64_t b, int64_t c, int64_t t) {
    return t < 0 || t >= x.size(2) ? 0 : accumulate_t<T>(x(b, c, t));
}

template <class T>
void smooth(int64_t i, View<const T, 3> x, int64_t step, View<T, 3> y) {
    const auto place = y.index(i);
    const int64_t t = place[2] * step;
    y[i] = T((at(x, place[0], place[1], t - 1) + at(x, place[0], place[1], t) + at(x, place[0], place[1], t + 1)) / 3);
}

Shape smooth_shape(Shape x, Dim step) {
    require(x.rank() == 3, "x must be (batch, channels, time)");
    return {x[0], x[1], (x[2] - 1) / step + 1};
}

}  // namespace

OPBRIDGE_ELEMENT_KERNEL("elementtest::smooth(Tensor x, int step) -> Tensor", smooth, smooth_shape, floating);

// A kernel for the CPU alone, in the same file.
template <class T>
void total(Input<T> x, Output<T> y, Context& context) {
    T* sum = context.scratch<T>(1);
    sum[0] = 0;
    for (int64_t i = 0; i < x.size(); ++i) sum[0] += x[i];
    y[0] = sum[0];
}

Shape total_shape(Shape) { return {1}; }

OPBRIDGE_KERNEL("elementtest::total(Tensor x) -> Tensor", total, total_shape, types<float>);
