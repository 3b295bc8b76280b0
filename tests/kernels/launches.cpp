// Operators whose kernels for CUDA devices are written in CUDA, in launches.cu. What the C++ compiler reads may use its library.
#include <opbridge/kernel.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "launches.h"

using namespace opbridge;

template <class T>
__global__ void softmax_rows(const T* x, T* y, int64_t columns);
template <class T>
__global__ void take(Array<const T> x, Array<const int64_t> index, Array<T> y);
template <class T>
__global__ void repeat_rows(const T* x, int64_t count, int64_t size, T* y);
__global__ void shares(const int* counts, int64_t total, float* out);
__global__ void count_positive(const float* x, int64_t count, unsigned int* found);
#pragma GCC diagnostic ignored "-Wunused-function"

namespace {

template <int bins, bool inside_only>
__global__ void count_bins(const float* x, int64_t count, Range range, int* counts);

template <class T>
void softmax_on_cpu(Input<T, 2> x, Output<T, 2> y) {
    using A = accumulate_t<T>;
    for (int64_t r = 0; r < x.size(0); ++r) {
        A largest = A(x(r, 0)), sum = 0;
        for (int64_t c = 0; c < x.size(1); ++c) largest = std::max(largest, A(x(r, c)));
        for (int64_t c = 0; c < x.size(1); ++c) sum += std::exp(A(x(r, c)) - largest);
        for (int64_t c = 0; c < x.size(1); ++c) y(r, c) = std::exp(A(x(r, c)) - largest) / sum;
    }
}

template <class T>
void softmax_on_cuda(Input<T, 2> x, Output<T, 2> y, Context& context) {
    constexpr int64_t threads = 64;
    if (x.empty()) return;
    launch<softmax_rows<T>>(context, x.size(0), threads, threads * sizeof(accumulate_t<T>), x.data(), y.data(), x.size(1));
}

Shape softmax_shape(Shape x) {
    require(x.rank() == 2, "x must be (rows, columns)");
    return x;
}

constexpr int bins = 8;

void histogram_on_cpu(Input<float> x, double low, double high, Output<float> out) {
    std::vector<int> counts(bins);
    for (float each : x) {
        const float place = (each - float(low)) / (float(high) - float(low)) * bins;
        if (place >= 0 && place < bins) ++counts[static_cast<size_t>(place)];
    }
    for (int64_t bin = 0; bin < bins; ++bin) out[bin] = x.empty() ? 0 : float(counts[static_cast<size_t>(bin)]) / float(x.size());
}

// Several launches, and memory that they share.
void histogram_on_cuda(Input<float> x, double low, double high, Output<float> out, Context& context) {
    int* counts = context.scratch<int>(bins);
    set_zero(context, counts, bins);
    launch<count_bins<bins, true>>(context, blocks_for(x.size(), 32), 32, 0, x.data(), x.size(), Range{float(low), float(high)}, counts);
    launch<shares>(context, 1, bins, 0, counts, x.size(), out.data());
}

Shape histogram_shape(Shape, double, double) { return {bins}; }

// An output whose size only the kernel knows.
void positive_on_cpu(Input<float> x, Output<float> out) {
    const int64_t count = std::count_if(x.begin(), x.end(), [](float each) { return each > 0; });
    out.allocate({count});
    std::fill(out.begin(), out.end(), 1.0f);
}

void positive_on_cuda(Input<float> x, Output<float> out, Context& context) {
    unsigned int* found = context.scratch<unsigned int>(1);
    set_zero(context, found, 1);
    launch<count_positive>(context, blocks_for(x.size(), 64), 64, 0, x.data(), x.size(), found);
    const int64_t count = copy_to_host(context, found, 1)[0];
    out.allocate({count});
    copy_to_device(context, std::vector<float>(static_cast<size_t>(count), 1.0f).data(), count, out.data());
}

Shape positive_shape(Shape) { return {Dim::computed()}; }

// Elements at indices that nobody has checked.
template <class T>
void take_on_cpu(Input<T> x, Input<int64_t> index, Output<T> y) {
    for (int64_t i = 0; i < y.size(); ++i) y[i] = x[index[i]];
}

template <class T>
void take_on_cuda(Input<T> x, Input<int64_t> index, Output<T> y, Context& context) {
    launch<take<T>>(context, blocks_for(y.size(), 32), 32, 0, x, index, y);
}

Shape take_shape(Shape, Shape index) { return index; }

// How often, the host reads from a tensor.
template <class T>
void repeat_on_cpu(Input<T> x, Input<int64_t> times, Output<T> y) {
    y.allocate({times[0] * x.size()});
    for (int64_t i = 0; i < y.size(); ++i) y[i] = x[i % x.size()];
}

template <class T>
void repeat_on_cuda(Input<T> x, HostInput<int64_t> times, Output<T> y, Context& context) {
    y.allocate({times[0] * x.size()});
    launch<repeat_rows<T>>(context, blocks_for(y.size(), 256), 256, 0, x.data(), y.size(), x.size(), y.data());
}

Shape repeat_shape(Shape, Shape) { return {Dim::computed()}; }

// Launches that CUDA does not allow: what, by number.
void wrong_on_cpu(Input<float> x, int64_t, Output<float> y) { std::copy(x.begin(), x.end(), y.begin()); }

void wrong_on_cuda(Input<float> x, int64_t what, Output<float> y, Context& context) {
    const Dim3 grid = what == 0 ? Dim3(int64_t{1} << 31) : what == 1 ? Dim3(1, 70000) : Dim3(1);
    const Dim3 block = what == 2 ? Dim3(2048) : what == 3 ? Dim3(64, 32) : Dim3(32);
    launch<repeat_rows<float>>(context, grid, block, what == 4 ? 100 << 10 : 0, x.data(), y.size(), x.size(), y.data());
}

Shape wrong_shape(Shape x, int64_t) { return x; }

}  // namespace

OPBRIDGE_CPU_CUDA_KERNEL("launchtest::softmax(Tensor x) -> Tensor", softmax_on_cpu, softmax_on_cuda, softmax_shape, floating);
OPBRIDGE_KERNELS("launchtest::histogram(Tensor x, float low, float high) -> Tensor", histogram_shape,
                 cpu_cuda<histogram_on_cpu, histogram_on_cuda>);
OPBRIDGE_KERNELS("launchtest::positive(Tensor x) -> Tensor", positive_shape, cpu_cuda<positive_on_cpu, positive_on_cuda>);
OPBRIDGE_ELEMENT_KERNEL("launchtest::pick(Tensor x, Tensor index) -> Tensor", pick, take_shape, types<float>);
OPBRIDGE_CPU_CUDA_KERNEL("launchtest::take(Tensor x, Tensor index) -> Tensor", take_on_cpu, take_on_cuda, take_shape, types<float, Half>);
OPBRIDGE_CPU_CUDA_KERNEL("launchtest::repeat(Tensor x, Tensor times) -> Tensor", repeat_on_cpu, repeat_on_cuda, repeat_shape,
                         types<float, double>);
OPBRIDGE_KERNELS("launchtest::wrong(Tensor x, int what) -> Tensor", wrong_shape, cpu_cuda<wrong_on_cpu, wrong_on_cuda>);
