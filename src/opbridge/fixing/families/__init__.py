"""The repairs, one file a family, each registered for the rules whose findings it repairs. Results stay as they are.

bits           Bitwise operators and BitShift
bounds         inputs that a target has to know: Clip, Pad, NonZero
branches       an If that shapes decide
columns        Col2Im
combining      ScatterElements and ScatterND with a reduction, in few elements
deforming      DeformConv, and the kernel of it that comes with opbridge
drawing        random numbers
early_sizes    sizes of values that are computed before the run
einsum         Einsum
flat           convolutions over one dimension
folding        what depends on constants alone
fusions        what an optimiser makes of a model
gathering      Gather of one element, Pad by Gather
groups         products of groups of rows
kernels        forms that a kernel computes wrongly
loops          Loops that run a known number of times, or have no condition
masked         rows that are masked as a whole, and GatherElements of smaller indices
names          names, initializers, inputs that are outputs
older          operators in other operators: those that they were before, or that ONNX defines them by
outputs        GRU, LSTM and RNN that leave out outputs
places         NonZero
pooling        MaxPool with places
quantization   zero points, and constants that are quantised
ranking        TopK of many elements
ranks          reductions of one number, Softmax of a vector
reducing       ReduceL1, ReduceL2, ReduceLogSum, ReduceLogSumExp, ReduceSumSquare
regions        RoiAlign
reported       what people report
resampling     Resize
running        CumSum
sampling       GridSample
scattering     ScatterND
signals        DFT and STFT
small          IsNaN, OneHot, Size, Xor
sizes          sizes computed from data that are dimensions of tensors
suppressing    NonMaxSuppression
types          inputs of one operator that differ in type
vectors        MatMul of vectors
widths         types that a target does not take
"""

from opbridge.fixing.families import (
    bits,
    bounds,
    branches,
    columns,
    combining,
    deforming,
    drawing,
    early_sizes,
    einsum,
    flat,
    folding,
    fusions,
    gathering,
    groups,
    kernels,
    loops,
    masked,
    names,
    older,
    outputs,
    places,
    pooling,
    quantization,
    ranking,
    ranks,
    reducing,
    regions,
    reported,
    resampling,
    running,
    sampling,
    scattering,
    signals,
    sizes,
    small,
    suppressing,
    types,
    vectors,
    widths,
)

__all__ = [
    "bits",
    "bounds",
    "branches",
    "columns",
    "combining",
    "deforming",
    "drawing",
    "early_sizes",
    "einsum",
    "flat",
    "folding",
    "fusions",
    "gathering",
    "groups",
    "kernels",
    "loops",
    "masked",
    "names",
    "older",
    "outputs",
    "places",
    "pooling",
    "quantization",
    "ranking",
    "ranks",
    "reducing",
    "regions",
    "reported",
    "resampling",
    "running",
    "sampling",
    "scattering",
    "signals",
    "sizes",
    "small",
    "suppressing",
    "types",
    "vectors",
    "widths",
]
