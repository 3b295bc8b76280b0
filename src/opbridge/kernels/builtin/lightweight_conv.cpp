// Convolution over time with weights that stay the same, and its gradients.
#define OPBRIDGE_ONE_VERSION  // compute/simd.h chooses the vectors
#include <opbridge/kernel.h>

#include "compute/dynamic_conv.h"
#include "compute/parallel.h"
#include "device/launch_over_time.h"

using namespace opbridge;

namespace {

template <class T>
compute::DynamicConvArguments arguments(const Input<T>& x, const Input<T>& weight, int64_t padding_l) {
    return compute::dynamic_conv_arguments(false, {x.sizes(), x.rank()}, {weight.sizes(), weight.rank()}, padding_l);
}

template <class T>
void lightweight_conv(Input<T> x, Input<T> weight, int64_t padding_l, Output<T> y, Context& context) {
    compute::dynamic_conv(arguments(x, weight, padding_l), x.data(), weight.data(), y.data(), compute::parallel_of(context));
}

template <class T>
void lightweight_conv_backward(Input<T> grad, Input<T> x, Input<T> weight, int64_t padding_l, Output<T> x_grad, Output<T> weight_grad,
                               Context& context) {
    const auto args = arguments(x, weight, padding_l);
    compute::check_gradient(args, {grad.sizes(), grad.rank()});
    compute::dynamic_conv_backward_x(args, grad.data(), weight.data(), x_grad.data(), compute::parallel_of(context));
    compute::dynamic_conv_backward_weight(args, x.data(), grad.data(), weight_grad.data(), compute::parallel_of(context));
}

template <class T>
void lightweight_conv_on_cuda(Input<T> x, Input<T> weight, int64_t padding_l, Output<T> y, Context& context) {
    device::launch_correlation<false, false>(context, arguments(x, weight, padding_l), x.data(), weight.data(), y.data());
}

template <class T>
void lightweight_conv_backward_on_cuda(Input<T> grad, Input<T> x, Input<T> weight, int64_t padding_l, Output<T> x_grad,
                                       Output<T> weight_grad, Context& context) {
    const auto args = arguments(x, weight, padding_l);
    compute::check_gradient(args, {grad.sizes(), grad.rank()});
    device::launch_correlation<false, true>(context, args, grad.data(), weight.data(), x_grad.data());
    const int64_t weights = weight_grad.size(), rows = args.batch * args.head_size();
    const int64_t parts = std::clamp<int64_t>(rows, 1, 16);
    double* partial = context.scratch<double>(parts * weights);
    launch<device::lightweight_weight_sums<T>>(context, {weights, parts}, 128, 0, device::over_time(args), x.data(), grad.data(), partial);
    launch<device::lightweight_weight_gradient<T>>(context, blocks_for(weights, 128), 128, 0, device::over_time(args), parts, partial,
                                                   weight_grad.data());
}

Shape lightweight_conv_shape(Shape x, Shape, int64_t) { return x; }
Shapes lightweight_conv_backward_shapes(Shape, Shape x, Shape weight, int64_t) { return {x, weight}; }

}  // namespace

OPBRIDGE_CPU_CUDA_KERNEL("opbridge_ops::lightweight_conv(Tensor x, Tensor weight, int padding_l) -> Tensor", lightweight_conv,
                         lightweight_conv_on_cuda, lightweight_conv_shape, floating);
OPBRIDGE_CPU_CUDA_KERNEL("opbridge_ops::lightweight_conv_backward(Tensor grad, Tensor x, Tensor weight, int padding_l) -> (Tensor, Tensor)",
                         lightweight_conv_backward, lightweight_conv_backward_on_cuda, lightweight_conv_backward_shapes, floating);
