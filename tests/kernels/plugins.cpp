// Operators with every kind of argument and of shape function, as plug-ins of TensorRT. Their functions for CUDA devices run on the host,
// which the tensors of the tests are on: only the launch of `doubled` is a real one.
#include <opbridge/kernel.h>

#ifndef OPBRIDGE_ON_DEVICE
#include <stdexcept>
#endif

using namespace opbridge;

template <class T>
void doubled(int64_t i, View<const T> x, View<T> y) {
    y[i] = x[i] + x[i];
}

OPBRIDGE_ELEMENT_KERNEL("plugintest::doubled(Tensor x) -> Tensor", doubled, same_shape, types<float, double>);

#ifndef OPBRIDGE_ON_DEVICE

namespace {

// All kinds of attributes, written out.
template <class T>
void attributes(Input<float>, int64_t whole, double number, bool flag, const std::string& text, const Ints& ints, const Floats& floats,
                std::optional<int64_t> maybe, std::optional<double> some, Output<T> y) {
    const double values[] = {static_cast<double>(whole),
                             number,
                             flag ? 1.0 : 0.0,
                             static_cast<double>(text.size()),
                             static_cast<double>(ints.size()),
                             ints.empty() ? -1.0 : static_cast<double>(ints[0]),
                             static_cast<double>(floats.size()),
                             floats.empty() ? -1.0 : floats[0],
                             maybe ? static_cast<double>(*maybe) : -1.0,
                             some ? *some : -1.0};
    for (int64_t i = 0; i < y.size(); ++i) y[i] = static_cast<T>(values[i]);
}
Shape ten(Shape, Dim, double, bool, const std::string&, const std::vector<Dim>&, const Floats&, std::optional<Dim>, std::optional<double>) {
    return {10};
}
OPBRIDGE_KERNELS(
    "plugintest::attributes(Tensor x, int whole, float number=0.5, bool flag=False, str text='it', int[] ints=[7], float[] floats=[], "
    "int? maybe=None, float? some=None) -> Tensor",
    ten, cpu_cuda<attributes<float>, attributes<float>>);
OPBRIDGE_KERNELS(
    "plugintest::in_double(Tensor x, int whole, float number=0.5, bool flag=False, str text='it', int[] ints=[7], float[] floats=[], "
    "int? maybe=None, float? some=None) -> Tensor",
    ten, cpu_cuda<attributes<double>, attributes<double>>);

// Lists of tensors, in and out, with an optional tensor before them.
void joined(std::optional<Input<float>> first, Inputs<float> left, Inputs<float> right, Outputs<float> out) {
    const float begin = first ? (*first)[0] : 0;
    for (int64_t k = 0; k < out.size(); ++k) {
        for (int64_t i = 0; i < out[k].size(); ++i) out[k][i] = begin + left[k][i] + (k < right.size() ? right[k][i] : 0);
    }
}
Shapes joined_shapes(std::optional<Shape>, std::vector<Shape> left, std::vector<Shape>) { return Shapes(left); }
OPBRIDGE_KERNELS("plugintest::joined(Tensor? first, Tensor[] left, Tensor[] right) -> Tensor[]", joined_shapes, cpu_cuda<joined, joined>);

// Types that are not the same, and one that TensorRT's plug-ins do not have.
void places(Input<float> x, Input<int64_t> index, Output<int32_t> y) {
    for (int64_t i = 0; i < y.size(); ++i) y[i] = static_cast<int32_t>(x[i]) + static_cast<int32_t>(index[i]);
}
void places_of_int(Input<int32_t> x, Input<int64_t> index, Output<int32_t> y) {
    for (int64_t i = 0; i < y.size(); ++i) y[i] = x[i] - static_cast<int32_t>(index[i]);
}
void places_of_bool(Input<int8_t> x, Input<int64_t>, Output<bool> y) {
    for (int64_t i = 0; i < y.size(); ++i) y[i] = x[i] != 0;
}
Shape first_of_two(Shape x, Shape) { return x; }
OPBRIDGE_KERNELS("plugintest::places(Tensor x, Tensor index) -> Tensor", first_of_two, cpu_cuda<places, places>,
                 cpu_cuda<places_of_int, places_of_int>, cpu_cuda<places_of_bool, places_of_bool>);

void nothing(Input<float>, Output<float>) {}
void nothing_of(Input<float>, int64_t, Output<float>) {}
void nothing_of_two(Input<float>, Input<float>, Output<float>) {}

// Arithmetic of sizes.
Shape arithmetic(Shape x, Dim step) {
    require(x.rank() == 2, "x must have two dimensions");
    require(x[0] > 0, "x must not be empty");
    const Dim taken = (x[0] - 1) / step + 1;
    return {taken, x[1] % 3 + 1, min(x[0], 5), max(x[1], taken * 2), x[0] + x[1], -x[0] + x[0]};
}
OPBRIDGE_KERNELS("plugintest::arithmetic(Tensor x, int step) -> Tensor", arithmetic, cpu_cuda<nothing_of, nothing_of>);

// Comparisons whose sides have other sizes.
Shape branches(Shape x) {
    if (x[0] < 4) return {x[0] * 10, x[1]};
    if (x[1] == x[0]) return {x[0], 1};
    return {x[0] + x[1], x[1]};
}
OPBRIDGE_KERNELS("plugintest::branches(Tensor x) -> Tensor", branches, cpu_cuda<nothing, nothing>);

// What has no expression.
Shape ranks(Shape x) {
    if (x[0] == 1) return {x[1]};
    return x;
}
OPBRIDGE_KERNELS("plugintest::ranks(Tensor x) -> Tensor", ranks, cpu_cuda<nothing, nothing>);
Shape as_number(Shape x) { return {x[0].value() + 1}; }
OPBRIDGE_KERNELS("plugintest::as_number(Tensor x) -> Tensor", as_number, cpu_cuda<nothing, nothing>);
Shape computed(Shape x) { return {x[0], Dim::computed()}; }
OPBRIDGE_KERNELS("plugintest::computed(Tensor x) -> Tensor", computed, cpu_cuda<nothing, nothing>);
Shape throws_at_once(Shape) { throw std::runtime_error("the shape function ends"); }
OPBRIDGE_KERNELS("plugintest::throws(Tensor x) -> Tensor", throws_at_once, cpu_cuda<nothing, nothing>);
Shape throws_a_number(Shape) { throw 7; }
OPBRIDGE_KERNELS("plugintest::throws_number(Tensor x) -> Tensor", throws_a_number, cpu_cuda<nothing, nothing>);
Shape counting(Shape x) {
    int64_t least = 0;
    while (least < 4096 && x[0] > least) ++least;
    return {least};
}
OPBRIDGE_KERNELS("plugintest::counting(Tensor x) -> Tensor", counting, cpu_cuda<nothing, nothing>);
Shape many(Shape x) {
    Shape found;
    for (int64_t i = 0; i < 9; ++i) found.push_back(x[0]);
    return found;
}
OPBRIDGE_KERNELS("plugintest::many(Tensor x) -> Tensor", many, cpu_cuda<nothing, nothing>);

// A shape function that is not the truth: what TensorRT computed differs from what it says when it is asked again.
Shape changing(Shape x, Shape) { return x[0].is_known() ? Shape{x[0] + 1} : Shape{x[0]}; }
OPBRIDGE_KERNELS("plugintest::changing(Tensor x, Tensor y) -> Tensor", changing, cpu_cuda<nothing_of_two, nothing_of_two>);

// A tensor whose elements the host reads.
void scaled_by(Input<float> x, Input<float> scale, Output<float> y) {
    for (int64_t i = 0; i < y.size(); ++i) y[i] = scale[0] * x[i];
}
void scaled_by_on_cuda(Input<float> x, HostInput<float> scale, Output<float> y) {
    for (int64_t i = 0; i < y.size(); ++i) y[i] = scale[0] * x[i];
}
OPBRIDGE_KERNELS("plugintest::scaled_by(Tensor x, Tensor scale) -> Tensor", first_of_two, cpu_cuda<scaled_by, scaled_by_on_cuda>);

// Scratch memory, and an exception of a kernel.
void scratched(Input<float> x, Output<float> y, Context& context) {
    float* kept = context.scratch<float>(x.size());
    double* more = context.scratch<double>(x.size());
    for (int64_t i = 0; i < x.size(); ++i) kept[i] = 3 * x[i], more[i] = kept[i];
    if (x.size() > 0 && x[0] < 0) throw std::runtime_error("x begins with a negative number");
    for (int64_t i = 0; i < x.size(); ++i) y[i] = static_cast<float>(more[i]);
}
Shape same(Shape x) { return x; }
OPBRIDGE_KERNELS("plugintest::scratched(Tensor x) -> Tensor", same, cpu_cuda<scratched, scratched>);

// No kernel for CUDA devices.
template <class T>
void on_the_cpu(Input<T> x, Output<T> y) {
    for (int64_t i = 0; i < y.size(); ++i) y[i] = x[i];
}

}  // namespace

OPBRIDGE_KERNEL("plugintest::on_the_cpu(Tensor x) -> Tensor", on_the_cpu, same, types<float>);

#endif
