"""The helpers of torch.onnx.symbolic_helper that build nodes."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch.onnx import symbolic_helper
from torch.onnx.symbolic_helper import parse_args

from cases.declare import floats, integers, library

X = floats(2, 3, 4)
IMAGE = floats(1, 2, 3, 4)


@library(
    "(Tensor x, int[] dims) -> Tensor",
    lambda x, dims: x[:, None, :, None].clone(),
    [1, 3],
    args=(floats(2, 3),),
    nodes={11: "Unsqueeze", 18: "Unsqueeze"},
)
@parse_args("v", "is")
def unsqueeze_helper(g, x, dims):
    return symbolic_helper._unsqueeze_helper(g, x, dims)


@library(
    "(Tensor x, int dim) -> Tensor",
    lambda x, dim: x.squeeze(dim).clone(),
    1,
    args=(floats(2, 1, 3),),
    nodes={11: "Squeeze", 18: "Squeeze"},
)
@parse_args("v", "i")
def squeeze_helper(g, x, dim):
    return symbolic_helper._squeeze_helper(g, x, [dim])


@library(
    "(Tensor x, int[] dims, bool keepdim) -> Tensor",
    lambda x, dims, keepdim: x.sum(dims, keepdim),
    [0, -1],
    True,
    nodes={11: "ReduceSum", 18: "ReduceSum"},
)
@parse_args("v", "is", "i")
def reducesum_helper(g, x, dims, keepdim):
    return symbolic_helper._reducesum_helper(g, x, axes_i=dims, keepdims_i=keepdim)


@library(
    "(Tensor x) -> Tensor",
    lambda x: x[:, 1:, ::2].contiguous(),
    nodes={11: "Slice", 18: "Slice"},
)
def slice_helper(g, x):
    return symbolic_helper._slice_helper(g, x, axes=[1, 2], starts=[1, 0], ends=[3, 4], steps=[1, 2])


@library(
    "(Tensor x, int k, int dim, bool largest, bool sorted) -> (Tensor, Tensor)",
    lambda x, k, dim, largest, sorted: tuple(torch.topk(x, k, dim, largest, sorted)),
    2,
    1,
    False,
    True,
    nodes="TopK",
)
@parse_args("v", "i", "i", "i", "i")
def topk_helper(g, x, k, dim, largest, sorted):
    return symbolic_helper._topk_helper(g, x, k, dim, largest=largest, sorted=sorted)


@library(
    "(Tensor x, int k) -> Tensor",
    lambda x, k: torch.topk(x, k, -1).values,
    2,
    nodes="Reshape TopK",
)
def topk_helper_of_a_value(g, x, k):
    values, _ = symbolic_helper._topk_helper(g, x, k, -1, sorted=True)
    return values


@library(
    "(Tensor x, int dim, bool descending) -> (Tensor, Tensor)",
    lambda x, dim, descending: tuple(torch.sort(x, dim=dim, descending=descending)),
    -1,
    True,
    nodes="Shape Gather TopK",
)
@parse_args("v", "i", "i")
def sort_helper(g, x, dim, descending):
    return symbolic_helper._sort_helper(g, x, dim, descending=descending)


@library(
    "(Tensor x, int[] shape) -> Tensor",
    lambda x, shape: x.reshape(shape).clone(),
    [4, 6],
    nodes={13: "Reshape", 18: "Reshape"},
)
def reshape_helper(g, x, shape):
    return symbolic_helper._reshape_helper(g, x, shape)


@library(
    "(Tensor x, int dim) -> Tensor",
    lambda x, dim: x * x.shape[dim],
    1,
    nodes="Shape Gather Cast Mul",
)
def size_helper(g, x, dim):
    return g.op("Mul", x, g.op("Cast", symbolic_helper._size_helper(g, x, dim), to_i=1))


@library(
    "(Tensor x, int dim, int index) -> Tensor",
    lambda x, dim, index: x.narrow(dim, index, 1).clone(),
    1,
    -1,
    nodes="Gather",
)
@parse_args("v", "i", "v")
def select_helper(g, x, dim, index):
    return symbolic_helper._select_helper(g, x, dim, index, apply_reshape=False)


@library(
    "(Tensor x, int[] size) -> Tensor",
    lambda x, size: F.interpolate(x, size),
    [6, 8],
    args=(IMAGE,),
    nodes="Resize",
)
def interpolate_size_to_scales(g, x, size):
    scales = symbolic_helper._interpolate_size_to_scales(g, x, size, 4)
    return _resize(g, x, scales)


@library(
    "(Tensor x, float? scale) -> Tensor",
    lambda x, scale: F.interpolate(x, scale_factor=scale),
    2.0,
    args=(IMAGE,),
    nodes="Unsqueeze Cast Concat Resize",
)
def interpolate_get_scales(g, x, scale):
    return _resize(g, x, symbolic_helper._interpolate_get_scales(g, scale, 4))


@library(
    "(Tensor x, float[]? scales) -> Tensor",
    lambda x, scales: F.interpolate(x, scale_factor=scales),
    [2.0, 3.0],
    args=(IMAGE,),
    nodes="Concat Resize",
)
def interpolate_scales_if_available(g, x, scales):
    return _resize(g, x, symbolic_helper._interpolate_get_scales_if_available(g, [scales]))


def _resize(g, x, scales):
    none = symbolic_helper._optional_input_placeholder_tensor(g)
    return g.op(
        "Resize",
        x,
        none,
        scales,
        mode_s="nearest",
        nearest_mode_s="floor",
        coordinate_transformation_mode_s="asymmetric",
    )


@library(
    "(Tensor x, int dim, Tensor index, float value) -> Tensor",
    lambda x, dim, index, value: x.index_fill(dim, index, value),
    args=(X, torch.tensor([2, 0])),
    model=lambda op: lambda x, index: op(x, 1, index, 0.5),
    nodes="Unsqueeze Shape Unsqueeze Shape ScatterElements "
    "Shape ConstantOfShape Mul Equal Where Expand Expand ScatterElements",
)
def index_fill_reshape_helper(g, x, dim, index, value):
    shape, expanded = symbolic_helper._index_fill_reshape_helper(g, x, dim, index)
    number = symbolic_helper._maybe_get_const(value, "f")
    filled = g.op("Expand", g.op("Constant", value_t=torch.tensor(number)), shape)
    return g.op("ScatterElements", x, expanded, filled, axis_i=1)


@library(
    "(Tensor x, int dim, Tensor index, Tensor source) -> Tensor",
    lambda x, dim, index, source: x.scatter(dim, index, source),
    args=(X, integers(2, 3, 4, high=1), floats(2, 3, 4)),
    model=lambda op: lambda x, index, source: op(x, 1, index, source),
    nodes="ScatterElements",
)
def scatter_helper(g, x, dim, index, source):
    return symbolic_helper._scatter_helper(g, x, dim, index, source)


@library(
    "(Tensor x) -> Tensor",
    lambda x: x.flatten(1, 2).clone(),
    args=(IMAGE,),
    nodes="Shape Slice Slice Concat Reshape",
)
def flatten_helper(g, x):
    return symbolic_helper._flatten_helper(g, x, 1, 2, symbolic_helper._get_tensor_rank(x))


@library("(Tensor x, Tensor y) -> Tensor", torch.lt, args=(X, floats(4)), nodes="Less")
def lt_helper(g, x, y):
    return symbolic_helper._lt_helper(g, x, y)


@library("(Tensor x) -> Tensor", lambda x: x / x.numel(), nodes="Shape ReduceProd Cast Div")
def numel_helper(g, x):
    return g.op("Div", x, g.op("Cast", symbolic_helper._numel_helper(g, x), to_i=1))


@library(
    "(Tensor x, int? dim, bool keepdim) -> Tensor",
    lambda x, dim, keepdim: x.argmax(dim, keepdim),
    args=(X,),
    model=lambda op: lambda x: (op(x, 1, True), op(x, None, False)),
    nodes="ArgMax Reshape ArgMax",
)
@parse_args("v", "v", "b")
def argmax_helper(g, x, dim, keepdim):
    return symbolic_helper._argmin_argmax_helper(g, x, dim, keepdim, "ArgMax")


@library("(Tensor x) -> Tensor", lambda x: (x * 0.25).double() + 1, nodes="Mul Cast Add")
def wrapped_number(g, x):
    quarter = symbolic_helper._if_scalar_type_as(torch.tensor(0.25), x)
    wide = g.op("Cast", g.op("Mul", x, quarter), to_i=symbolic_helper.scalar_type_to_onnx[7])
    return g.op("Add", wide, symbolic_helper._generate_wrapped_number(g, 1.0))


@library(
    "(Tensor x, Tensor y) -> (Tensor, Tensor, Tensor)",
    lambda x, y: (torch.maximum(x, y), *x.max(1, True)),
    args=(X, floats(4)),
    nodes={13: "Max ReduceMax ArgMax", 18: "Max ReduceMax ArgMax"},
)
def max_helper(g, x, y):
    dim, keepdim = (g.op("Constant", value_t=torch.tensor(number)) for number in (1, 1))
    return symbolic_helper._max_helper(g, x, y), *symbolic_helper._max_helper(g, x, dim, keepdim)


@library("(Tensor x) -> Tensor", torch.tanh, nodes="Tanh")
@symbolic_helper.quantized_args(True)
@parse_args("v")
def quantized_args(g, x):
    # For tensors that are not quantized the decorator changes nothing.
    return g.op("Tanh", x)


@library("(Tensor x) -> Tensor", torch.amax, nodes="ReduceMax")
def reduce_over_everything(g, x):
    return symbolic_helper._handle_reduce_dim_none(g, x, "ReduceMax")


@library(
    "(Tensor x) -> (Tensor, Tensor)",
    lambda x: torch.var_mean(x, (1, 2), correction=1, keepdim=True),
    nodes={17: "ReduceMean Sub Mul ReduceMean Shape Gather ReduceProd Cast Mul Sub Div ReduceMean"},
)
def var_mean_helper(g, x):
    return symbolic_helper._var_mean_helper(g, x, [1, 2], 1, True)
