// Bicubic interpolation by scales that are known when it runs: a tensor of two, for height and width.
#include "compute/vectorise.h"  // before all others

#define OPBRIDGE_ONE_VERSION  // compute/simd.h chooses the vectors
#include <opbridge/kernel.h>

#include "compute/parallel.h"
#include "compute/upsample_bicubic.h"

using namespace opbridge;

namespace {

template <class T, class S>
void upsample_bicubic(Input<T> input, Input<S> scales, bool align_corners, Output<T> output, Context& context) {
    require(scales.rank() == 1 && scales.size() == 2, "scales must have two elements, for height and width");
    const double given[2] = {static_cast<double>(scales[0]), static_cast<double>(scales[1])};
    const auto args = compute::upsample_bicubic_arguments({input.sizes(), input.rank()}, given, 2, align_corners);
    output.allocate({input.size(0), input.size(1), args.out[0], args.out[1]});
    compute::upsample_bicubic(args, input.data(), output.data(), compute::parallel_of(context));
}

Shape upsample_bicubic_shape(Shape input, Shape, bool) {
    require(input.rank() == 4, "input must be (batch, channels, height, width)");
    return {input[0], input[1], Dim::computed(), Dim::computed()};
}

}  // namespace

OPBRIDGE_KERNELS("opbridge_ops::upsample_bicubic(Tensor input, Tensor scales, bool align_corners=False) -> Tensor", upsample_bicubic_shape,
                 upsample_bicubic<float, float>, upsample_bicubic<float, double>, upsample_bicubic<double, float>,
                 upsample_bicubic<double, double>, upsample_bicubic<Half, Half>, upsample_bicubic<Half, float>,
                 upsample_bicubic<Half, double>, upsample_bicubic<BFloat16, BFloat16>, upsample_bicubic<BFloat16, float>,
                 upsample_bicubic<BFloat16, double>);
