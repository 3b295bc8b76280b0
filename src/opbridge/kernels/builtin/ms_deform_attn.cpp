// Multi-scale deformable attention, as mmcv's MultiScaleDeformableAttention computes it.
#include "compute/vectorise.h"  // before all others

#define OPBRIDGE_ONE_VERSION  // compute/simd.h chooses the vectors
#include <opbridge/kernel.h>

#include "compute/ms_deform_attn.h"
#include "compute/parallel.h"
#include "device/ms_deform_attn.h"

using namespace opbridge;

namespace {

template <class T>
void ms_deform_attn(Input<T> value, Input<int64_t> spatial_shapes, Input<int64_t> level_start_index, Input<T> sampling_locations,
                    Input<T> attention_weights, Output<T> output, Context& context) {
    const auto args = compute::ms_deform_attn_arguments(
        {value.sizes(), value.rank()}, {spatial_shapes.sizes(), spatial_shapes.rank()},
        {level_start_index.sizes(), level_start_index.rank()}, {sampling_locations.sizes(), sampling_locations.rank()},
        {attention_weights.sizes(), attention_weights.rank()}, spatial_shapes.data(), level_start_index.data());
    auto* scratch = context.scratch<accumulate_t<T>>(compute::ms_deform_attn_scratch<T>(args));
    compute::ms_deform_attn(args, value.data(), sampling_locations.data(), attention_weights.data(), output.data(), scratch,
                            compute::parallel_of(context));
}

template <class T>
void ms_deform_attn_on_cuda(Input<T> value, Input<int64_t> spatial_shapes, Input<int64_t> level_start_index, Input<T> sampling_locations,
                            Input<T> attention_weights, Output<T> output, Context& context) {
    const auto args = compute::ms_deform_attn_sizes({value.sizes(), value.rank()}, {spatial_shapes.sizes(), spatial_shapes.rank()},
                                                    {level_start_index.sizes(), level_start_index.rank()},
                                                    {sampling_locations.sizes(), sampling_locations.rank()},
                                                    {attention_weights.sizes(), attention_weights.rank()});
    const device::Attention sizes{args.batch, args.keys, args.heads, args.dim, args.queries, args.levels, args.points};
    launch<device::attend<T>>(context, blocks_for(output.size(), 256), 256, 0, sizes, value.data(), spatial_shapes.data(),
                              level_start_index.data(), sampling_locations.data(), attention_weights.data(), output.data());
}

Shape ms_deform_attn_shape(Shape value, Shape, Shape, Shape sampling_locations, Shape) {
    require(value.rank() == 4, "value must be (batch, keys, heads, channels of a head)");
    require(sampling_locations.rank() == 6, "sampling_locations must be (batch, queries, heads, levels, points, 2)");
    return {value[0], sampling_locations[1], value[2] * value[3]};
}

}  // namespace

OPBRIDGE_CPU_CUDA_KERNEL(
    "opbridge_ops::ms_deform_attn(Tensor value, Tensor spatial_shapes, Tensor level_start_index, Tensor sampling_locations, "
    "Tensor attention_weights) -> Tensor",
    ms_deform_attn, ms_deform_attn_on_cuda, ms_deform_attn_shape, floating);
