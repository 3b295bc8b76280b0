// Sampling at points of a grid, as torch.nn.functional.grid_sample does it. interpolation_mode: 0 (bi-, tri-)linear, 1 nearest, 2 bicubic;
// padding_mode: 0 zeros, 1 border, 2 reflection.
#include "compute/vectorise.h"  // before all others

#define OPBRIDGE_ONE_VERSION  // compute/simd.h chooses the vectors
#include <opbridge/kernel.h>

#include "compute/grid_sample.h"
#include "compute/parallel.h"
#include "device/grid_sample.h"

using namespace opbridge;

namespace {

template <class T>
void grid_sample(Input<T> input, Input<T> grid, int64_t interpolation_mode, int64_t padding_mode, bool align_corners, Output<T> output,
                 Context& context) {
    const auto args = compute::grid_sample_arguments({input.sizes(), input.rank()}, {grid.sizes(), grid.rank()}, interpolation_mode,
                                                     padding_mode, align_corners);
    auto* scratch = context.scratch<accumulate_t<T>>(compute::grid_sample_scratch<T>(args));
    compute::grid_sample(args, input.data(), grid.data(), output.data(), scratch, compute::parallel_of(context));
}

template <class T>
void grid_sample_on_cuda(Input<T> input, Input<T> grid, int64_t interpolation_mode, int64_t padding_mode, bool align_corners,
                         Output<T> output, Context& context) {
    using compute::Interpolation;
    const auto args = compute::grid_sample_arguments({input.sizes(), input.rank()}, {grid.sizes(), grid.rank()}, interpolation_mode,
                                                     padding_mode, align_corners);
    if (output.empty()) return;
    const int64_t points = args.batch * args.out_points();
    const int64_t each = device::planes_of_a_thread(points, args.channels);
    const device::Sampled sizes{args.batch,        args.channels, each,         {args.in[0], args.in[1], args.in[2]},
                                args.out_points(), args.padding,  align_corners};
    const auto run = [&](auto kernel) {
        launch<decltype(kernel)::value>(context, blocks_for(points * compute::ceil_divide(args.channels, each), 256), 256, 0, sizes,
                                        input.data(), grid.data(), output.data());
    };
    const bool nearest = args.mode == Interpolation::nearest, cubic = args.mode == Interpolation::cubic;
    if (args.dims == 3 && nearest) run(device::kernel<device::sample_at_points<T, 3, Interpolation::nearest>>);
    else if (args.dims == 3) run(device::kernel<device::sample_at_points<T, 3, Interpolation::linear>>);
    else if (nearest) run(device::kernel<device::sample_at_points<T, 2, Interpolation::nearest>>);
    else if (cubic) run(device::kernel<device::sample_at_points<T, 2, Interpolation::cubic>>);
    else run(device::kernel<device::sample_at_points<T, 2, Interpolation::linear>>);
}

Shape grid_sample_shape(Shape input, Shape grid, int64_t, int64_t, bool) {
    require(input.rank() == 4 || input.rank() == 5,
            "input must be (batch, channels, height, width) or (batch, channels, depth, height, width)");
    require(grid.rank() == input.rank(),
            "grid must be (batch, height, width, 2) or (batch, depth, height, width, 3), as many dimensions as input");
    Shape output = {input[0], input[1]};
    for (int64_t axis = 1; axis + 1 < grid.rank(); ++axis) output.push_back(grid[axis]);
    return output;
}

}  // namespace

OPBRIDGE_CPU_CUDA_KERNEL(
    "opbridge_ops::grid_sample(Tensor input, Tensor grid, int interpolation_mode=0, int padding_mode=0, bool align_corners=False) -> "
    "Tensor",
    grid_sample, grid_sample_on_cuda, grid_sample_shape, floating);
