// Convolution over time with weights given for each moment, and its gradients.
#define OPBRIDGE_ONE_VERSION  // compute/simd.h chooses the vectors
#include <opbridge/kernel.h>

#include "compute/dynamic_conv.h"
#include "compute/parallel.h"
#include "device/launch_over_time.h"

using namespace opbridge;

namespace {

template <class T>
compute::DynamicConvArguments arguments(const Input<T>& x, const Input<T>& weight, int64_t padding_l) {
    return compute::dynamic_conv_arguments(true, {x.sizes(), x.rank()}, {weight.sizes(), weight.rank()}, padding_l);
}

template <class T>
void dynamic_conv(Input<T> x, Input<T> weight, int64_t padding_l, Output<T> y, Context& context) {
    compute::dynamic_conv(arguments(x, weight, padding_l), x.data(), weight.data(), y.data(), compute::parallel_of(context));
}

template <class T>
void dynamic_conv_on_cuda(Input<T> x, Input<T> weight, int64_t padding_l, Output<T> y, Context& context) {
    device::launch_correlation<true, false>(context, arguments(x, weight, padding_l), x.data(), weight.data(), y.data());
}

template <class T>
void dynamic_conv_backward(Input<T> grad, Input<T> x, Input<T> weight, int64_t padding_l, Output<T> x_grad, Output<T> weight_grad,
                           Context& context) {
    const auto args = arguments(x, weight, padding_l);
    compute::check_gradient(args, {grad.sizes(), grad.rank()});
    compute::dynamic_conv_backward_x(args, grad.data(), weight.data(), x_grad.data(), compute::parallel_of(context));
    compute::dynamic_conv_backward_weight(args, x.data(), grad.data(), weight_grad.data(), compute::parallel_of(context));
}

template <class T>
void dynamic_conv_backward_on_cuda(Input<T> grad, Input<T> x, Input<T> weight, int64_t padding_l, Output<T> x_grad, Output<T> weight_grad,
                                   Context& context) {
    const auto args = arguments(x, weight, padding_l);
    compute::check_gradient(args, {grad.sizes(), grad.rank()});
    device::launch_correlation<true, true>(context, args, grad.data(), weight.data(), x_grad.data());
    launch<device::dynamic_weight_gradient<T>>(context, blocks_for(weight_grad.size(), 256), 256, 0, device::over_time(args), x.data(),
                                               grad.data(), weight_grad.data());
}

// Checks what is known of the arguments: a call's all, a capture's perhaps not.
Shape dynamic_conv_shape(Shape x, Shape weight, int64_t padding_l) {
    compute::KnownSizes x_sizes, weight_sizes;
    if (x_sizes.set(x) && weight_sizes.set(weight)) {
        compute::dynamic_conv_arguments(true, x_sizes.shape(), weight_sizes.shape(), padding_l);
    }
    return x;
}

Shapes dynamic_conv_backward_shapes(Shape, Shape x, Shape weight, int64_t) { return {x, weight}; }

}  // namespace

OPBRIDGE_CPU_CUDA_KERNEL("opbridge_ops::dynamic_conv(Tensor x, Tensor weight, int padding_l) -> Tensor", dynamic_conv, dynamic_conv_on_cuda,
                         dynamic_conv_shape, floating);
OPBRIDGE_CPU_CUDA_KERNEL("opbridge_ops::dynamic_conv_backward(Tensor grad, Tensor x, Tensor weight, int padding_l) -> (Tensor, Tensor)",
                         dynamic_conv_backward, dynamic_conv_backward_on_cuda, dynamic_conv_backward_shapes, floating);
