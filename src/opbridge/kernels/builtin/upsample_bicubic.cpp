// Bicubic interpolation by scales that are known when it runs: a tensor of two, for height and width.
#include "compute/vectorise.h"  // before all others

#define OPBRIDGE_ONE_VERSION  // compute/simd.h chooses the vectors
#include <opbridge/kernel.h>

#include "compute/parallel.h"
#include "compute/upsample_bicubic.h"
#include "device/upsample_bicubic.h"

using namespace opbridge;

namespace {

template <class T, class S>
compute::UpsampleBicubicArguments arguments(const Input<T>& input, const Input<S>& scales, bool align_corners) {
    require(scales.rank() == 1 && scales.size() == 2, "scales must have two elements, for height and width");
    const double given[2] = {static_cast<double>(scales[0]), static_cast<double>(scales[1])};
    return compute::upsample_bicubic_arguments({input.sizes(), input.rank()}, given, 2, align_corners);
}

template <class T, class S>
void upsample_bicubic(Input<T> input, Input<S> scales, bool align_corners, Output<T> output, Context& context) {
    const auto args = arguments(input, scales, align_corners);
    output.allocate({input.size(0), input.size(1), args.out[0], args.out[1]});
    compute::upsample_bicubic(args, input.data(), output.data(), compute::parallel_of(context));
}

template <class T, class S>
void upsample_bicubic_on_cuda(Input<T> input, HostInput<S> scales, bool align_corners, Output<T> output, Context& context) {
    const auto args = arguments<T, S>(input, scales, align_corners);
    output.allocate({input.size(0), input.size(1), args.out[0], args.out[1]});
    const int64_t pixels = args.out[0] * args.out[1], each = device::planes_of_a_thread(pixels, args.planes);
    const device::Scaled sizes{args.planes,  each, {args.in[0], args.in[1]}, {args.out[0], args.out[1]}, {args.ratio[0], args.ratio[1]},
                               align_corners};
    launch<device::upsample<T>>(context, blocks_for(pixels * compute::ceil_divide(args.planes, each), 256), 256, 0, sizes, input.data(),
                                output.data());
}

template <class T, class S>
inline constexpr auto upsample_bicubic_of = cpu_cuda<upsample_bicubic<T, S>, upsample_bicubic_on_cuda<T, S>>;

Shape upsample_bicubic_shape(Shape input, Shape, bool) {
    require(input.rank() == 4, "input must be (batch, channels, height, width)");
    return {input[0], input[1], Dim::computed(), Dim::computed()};
}

}  // namespace

OPBRIDGE_KERNELS("opbridge_ops::upsample_bicubic(Tensor input, Tensor scales, bool align_corners=False) -> Tensor", upsample_bicubic_shape,
                 upsample_bicubic_of<float, float>, upsample_bicubic_of<float, double>, upsample_bicubic_of<double, float>,
                 upsample_bicubic_of<double, double>, upsample_bicubic_of<Half, Half>, upsample_bicubic_of<Half, float>,
                 upsample_bicubic_of<Half, double>, upsample_bicubic_of<BFloat16, BFloat16>, upsample_bicubic_of<BFloat16, float>,
                 upsample_bicubic_of<BFloat16, double>);
