// One operator for each thing that a kernel can be, for the tests.
#include <cmath>
#include <string>
#include <vector>

#include <opbridge/kernel.h>
using namespace opbridge;

// One template, every element type.
template <class T>
void twice(Input<T> x, Output<T> y) {
    for (int64_t i = 0; i < x.size(); ++i) y[i] = static_cast<T>(x[i] + x[i]);
}
Shape same(Shape x) { return x; }
OPBRIDGE_KERNEL("kerneltest::twice(Tensor x) -> Tensor", twice, same, every);

// Two element types, a rank, a size from an attribute.
template <class T, class I>
void pick(Input<T, 2> x, Input<I, 1> rows, Output<T, 2> y) {
    for (int64_t i = 0; i < rows.size(); ++i) {
        if (rows[i] < 0 || rows[i] >= x.size(0)) throw std::out_of_range("row " + std::to_string(rows[i]) + " is not there");
        for (int64_t j = 0; j < x.size(1); ++j) y(i, j) = x(rows[i], j);
    }
}
Shape pick_shape(Shape x, Shape rows) { return {rows[0], x[1]}; }
OPBRIDGE_KERNELS("kerneltest::pick(Tensor x, Tensor rows) -> Tensor", pick_shape, pick<float, int64_t>, pick<float, int32_t>,
                 pick<double, int64_t>);

// An optional tensor before another, optional attributes, several outputs.
template <class T>
void affine(Input<T> x, std::optional<Input<T>> scale, Input<T> bias, std::optional<double> factor, Output<T> y, Output<int64_t> given) {
    for (int64_t i = 0; i < x.size(); ++i) {
        y[i] = static_cast<T>((scale ? (*scale)[i] : T(1)) * x[i] * static_cast<T>(factor.value_or(1)) + bias[i]);
    }
    given[0] = scale.has_value();
    given[1] = factor.has_value();
}
Shapes affine_shape(Shape x, std::optional<Shape> scale, Shape bias, std::optional<double>) {
    require(bias == x && (!scale || *scale == x), "scale and bias must have the shape of x");
    return {x, {2}};
}
OPBRIDGE_KERNEL("kerneltest::affine(Tensor x, Tensor? scale, Tensor bias, *, float? factor=None) -> (Tensor y, Tensor given)", affine,
                affine_shape, types<float, double>);

// Lists, of which one is followed by another tensor.
template <class T>
void blend(Inputs<T> left, Inputs<T> right, Input<T> start, Output<T> y) {
    for (int64_t i = 0; i < y.size(); ++i) {
        y[i] = start[i];
        for (const auto& each : left) y[i] = static_cast<T>(y[i] + each[i]);
        for (const auto& each : right) y[i] = static_cast<T>(y[i] - each[i]);
    }
}
Shape blend_shape(std::vector<Shape> left, std::vector<Shape> right, Shape start) {
    for (const Shape& each : left) require(each == start, "all must have the same shape");
    for (const Shape& each : right) require(each == start, "all must have the same shape");
    return start;
}
OPBRIDGE_KERNEL("kerneltest::blend(Tensor[] left, Tensor[] right, Tensor start) -> Tensor", blend, blend_shape, types<float>);

void total(Input<float> start, Inputs<float> rest, Output<float, 0> y) {
    y[0] = 0;
    for (float each : start) y[0] += each;
    for (const auto& tensor : rest) {
        for (float each : tensor) y[0] += each;
    }
}
Shape total_shape(Shape, std::vector<Shape>) { return {}; }
OPBRIDGE_KERNELS("kerneltest::total(Tensor start, Tensor[] rest) -> Tensor", total_shape, total);

// Lists of outputs: of a number that an attribute says, and behind another output, of as many as there are inputs.
template <class T>
void multiples(Input<T> x, int64_t, Outputs<T> parts) {
    for (int64_t k = 0; k < parts.size(); ++k) {
        for (int64_t i = 0; i < x.size(); ++i) parts[k][i] = static_cast<T>(static_cast<T>(k + 1) * x[i]);
    }
}
Shapes multiples_shapes(Shape x, int64_t count) {
    require(count >= 0, "count has to be 0 or more");
    return Shapes(std::vector<Shape>(static_cast<size_t>(count), x));
}
OPBRIDGE_KERNEL("kerneltest::multiples(Tensor x, int count) -> Tensor[]", multiples, multiples_shapes, types<float, double, int64_t>);

void negatives(Inputs<float> xs, Output<int64_t, 1> sizes, Outputs<float> ys) {
    for (int64_t k = 0; k < xs.size(); ++k) {
        sizes[k] = xs[k].size();
        for (int64_t i = 0; i < xs[k].size(); ++i) ys[k][i] = -xs[k][i];
    }
}
Shapes negatives_shapes(const std::vector<Shape>& xs) {
    std::vector<Shape> all{Shape{static_cast<int64_t>(xs.size())}};
    all.insert(all.end(), xs.begin(), xs.end());
    return Shapes(all);
}
OPBRIDGE_KERNELS("kerneltest::negatives(Tensor[] xs) -> (Tensor sizes, Tensor[] ys)", negatives_shapes, negatives);

// A list of tensors whose sizes the kernel computes.
void halves(Input<float, 1> x, double at, Outputs<float, 1> parts) {
    for (int64_t half = 0; half < 2; ++half) {
        std::vector<float> found;
        for (float each : x) {
            if ((each < at) == (half == 0)) found.push_back(each);
        }
        parts[half].allocate({static_cast<int64_t>(found.size())});
        std::copy(found.begin(), found.end(), parts[half].begin());
    }
}
Shapes halves_shapes(Shape, double) { return {{Dim::computed()}, {Dim::computed()}}; }
OPBRIDGE_KERNELS("kerneltest::halves(Tensor x, float at) -> Tensor[]", halves_shapes, halves);

// A list of a length that a size decides.
void rows(Input<float, 2> x, Outputs<float, 1> ys) {
    for (int64_t k = 0; k < ys.size(); ++k) std::copy(&x(k, 0), &x(k, 0) + x.size(1), ys[k].begin());
}
Shapes rows_shapes(Shape x) { return Shapes(std::vector<Shape>(static_cast<size_t>(x[0].value()), Shape{x[1]})); }
OPBRIDGE_KERNELS("kerneltest::rows(Tensor x) -> Tensor[]", rows_shapes, rows);

// Every kind of attribute, told back as numbers.
void attributes(Input<float>, int64_t i, double f, bool b, const std::string& s, const Ints& is, const Floats& fs, Output<double> y) {
    std::vector<double> all{double(i), f, double(b), double(s.size())};
    for (char c : s) all.push_back(c);
    for (int64_t each : is) all.push_back(double(each));
    all.insert(all.end(), fs.begin(), fs.end());
    for (size_t k = 0; k < all.size(); ++k) y[int64_t(k)] = all[k];
}
Shape attributes_shape(Shape, Dim, double, bool, const std::string& s, const std::vector<Dim>& is, const Floats& fs) {
    return {4 + s.size() + is.size() + fs.size()};
}
OPBRIDGE_KERNELS(
    "kerneltest::attributes(Tensor x, int i=-3, float f=1e-3, bool b=True, str s=\"a'b c\", int[2] ks=7, float[] fs=[0.5, 2]) "
    "-> Tensor",
    attributes_shape, attributes);

// Sizes that only the kernel can tell.
template <class T>
void positive(Input<T, 1> x, Output<T> values, Output<int64_t> places) {
    int64_t count = 0;
    for (T each : x) count += each > T(0);
    values.allocate({count});
    places.allocate({count});
    for (int64_t i = 0, next = 0; i < x.size(); ++i) {
        if (x[i] > T(0)) values[next] = x[i], places[next++] = i;
    }
}
Shapes positive_shape(Shape) {
    const Dim count = Dim::computed();
    return {{count}, {count}};
}
OPBRIDGE_KERNEL("kerneltest::positive(Tensor x) -> (Tensor values, Tensor places)", positive, positive_shape, types<float, int64_t>);

// Windows: a size that is computed from others; scratch memory; threads.
void windows(Context& context, Input<float, 2> x, int64_t size, int64_t step, Output<float, 2> y) {
    float* sums = context.scratch<float>(y.size());
    context.parallel_for(y.size(), 16, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
            const int64_t row = i / y.size(1), first = i % y.size(1) * step;
            sums[i] = 0;
            for (int64_t j = 0; j < size; ++j) sums[i] += x(row, first + j);
        }
    });
    for (int64_t i = 0; i < y.size(); ++i) y[i] = sums[i];
}
Shape windows_shape(Shape x, Dim size, Dim step) {
    require(size >= 1 && step >= 1, "size and step must be positive");
    return {x[0], max((x[1] - size) / step + 1, 0)};
}
OPBRIDGE_KERNELS("kerneltest::windows(Tensor x, int size, int step=1) -> Tensor", windows_shape, windows);

// Pieces: each knows its number, which is its own while it runs.
void pieces(Context& context, Input<float> x, int64_t grain, Output<int64_t> y) {
    std::vector<std::atomic<int>> running(size_t(context.pieces(x.size(), grain)));
    context.parallel_for(x.size(), grain, [&](int64_t begin, int64_t end, int64_t piece) {
        if (running[size_t(piece)]++ != 0) throw std::logic_error("a piece runs twice");
        for (int64_t i = begin; i < end; ++i) {
            if (std::isnan(x[i])) throw std::runtime_error("element " + std::to_string(i) + " is no number");
            y[i] = piece;
        }
    });
}
Shape pieces_shape(Shape x, Dim) { return x; }
OPBRIDGE_KERNELS("kerneltest::pieces(Tensor x, int grain) -> Tensor", pieces_shape, pieces);

// Mistakes.
void fail(Input<float> x, int64_t how, Output<float> y) {
    if (how == 1) throw std::invalid_argument("the words of the kernel");
    if (how == 2) throw 3;
    if (how == 3) y.allocate({1});
    if (how == 4) x.size(7);
}
Shapes fail_shape(Shape x, int64_t how) {
    if (how == 5) return {x, x};
    if (how == 6) return {{-1}};
    if (how == 7) return {{int64_t(1) << 40, int64_t(1) << 40}};
    if (how == 8) return {{(x[0] + (int64_t(1) << 62)) * 4}};
    if (how == 9) return {{x[0] / (how - 9)}};
    if (how == 10) return {{Dim::computed()}};
    if (how == 11) return {{x[5]}};
    return x;
}
OPBRIDGE_KERNELS("kerneltest::fail(Tensor x, int how) -> Tensor", fail_shape, fail);

// A gradient that is a kernel.
template <class T>
void cube(Input<T> x, Output<T> y) {
    for (int64_t i = 0; i < x.size(); ++i) y[i] = x[i] * x[i] * x[i];
}
OPBRIDGE_KERNEL("kerneltest::cube(Tensor x) -> Tensor", cube, same, types<float, double>);

template <class T>
void cube_backward(Input<T> gradient, Input<T> x, Output<T> y) {
    for (int64_t i = 0; i < x.size(); ++i) y[i] = 3 * x[i] * x[i] * gradient[i];
}
Shape cube_backward_shape(Shape, Shape x) { return x; }
OPBRIDGE_KERNEL("kerneltest::cube_backward(Tensor gradient, Tensor x) -> Tensor", cube_backward, cube_backward_shape, types<float, double>);

// An overload.
void shifted(Input<float> x, double by, Output<float> y) {
    for (int64_t i = 0; i < x.size(); ++i) y[i] = x[i] + float(by);
}
Shape shifted_shape(Shape x, double) { return x; }
OPBRIDGE_KERNELS("kerneltest::shifted.number(Tensor x, float by) -> Tensor", shifted_shape, shifted);

// A double that a float does not hold.
void plus(Input<double> x, double by, const Floats& more, Output<double> y) {
    for (int64_t i = 0; i < x.size(); ++i) {
        y[i] = x[i] + by;
        for (double each : more) y[i] += each;
    }
}
Shape plus_shape(Shape x, double, Floats) { return x; }
OPBRIDGE_KERNELS("kerneltest::plus(Tensor x, float by=0.1, float[] more=[]) -> Tensor", plus_shape, plus);
