"""Attributes of every kind, and arguments that `parse_args` reads in every way."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch.onnx import JitScalarType
from torch.onnx.symbolic_helper import parse_args

from cases.declare import floats, library

X = floats(2, 3, 4)
IMAGE = floats(1, 4, 6, 6)
CUSTOM = {"custom_domain": 1}


@library(
    "(Tensor x, float slope) -> Tensor",
    lambda x, slope: F.leaky_relu(x, slope),
    0.1,
    nodes={9: "LeakyRelu", 18: "LeakyRelu"},
)
@parse_args("v", "f")
def attribute_float(g, x, slope):
    return g.op("LeakyRelu", x, alpha_f=slope)


@library("(Tensor x, int dim) -> Tensor", lambda x, dim: torch.softmax(x, dim), 1, nodes="Softmax")
@parse_args("v", "i")
def attribute_int(g, x, dim):
    return g.op("Softmax", x, axis_i=dim)


@library(
    "(Tensor x, int block, str mode) -> Tensor",
    lambda x, block, mode: F.pixel_shuffle(x, block),
    2,
    "CRD",
    args=(IMAGE,),
    nodes="DepthToSpace",
)
@parse_args("v", "i", "s")
def attribute_string(g, x, block, mode):
    return g.op("DepthToSpace", x, blocksize_i=block, mode_s=mode)


@library(
    "(Tensor x, int[] order) -> Tensor",
    lambda x, order: x.permute(order).contiguous(),
    [2, 0, 1],
    nodes="Transpose",
)
@parse_args("v", "is")
def attribute_ints(g, x, order):
    return g.op("Transpose", x, perm_i=order)


@library(
    "(Tensor x, float[] edges) -> Tensor",
    lambda x, edges: torch.bucketize(x, torch.tensor(edges)).float(),
    [-0.1, 0.0, 0.3],
    nodes="custom_domain::Bins",
    custom_opsets=CUSTOM,
    verify=False,
)
@parse_args("v", "fs")
def attribute_floats(g, x, edges):
    return g.op("custom_domain::Bins", x, edges_f=edges)


@library(
    "(Tensor x) -> Tensor",
    torch.abs,
    nodes="custom_domain::Labelled",
    custom_opsets=CUSTOM,
    verify=False,
)
def attribute_strings(g, x):
    return g.op("custom_domain::Labelled", x, names_s=["cat", "dog"], kind_s="")


@library(
    "(Tensor x) -> Tensor",
    torch.abs,
    nodes="custom_domain::Lookup",
    custom_opsets=CUSTOM,
    verify=False,
)
def attribute_tensor(g, x):
    table = torch.tensor([[1, -2], [3, 4]], dtype=torch.int32)
    return g.op("custom_domain::Lookup", x, table_t=table, half_t=torch.tensor(0.5, dtype=torch.float16))


@library(
    "(Tensor x) -> Tensor",
    torch.abs,
    nodes="custom_domain::Lookups",
    custom_opsets=CUSTOM,
    verify=False,
)
def attribute_tensors(g, x):
    return g.op("custom_domain::Lookups", x, tables_t=[torch.tensor([1.0, 2.0]), torch.tensor([True])])


@library(
    "(Tensor x, int[] axes, float[] weights) -> Tensor",
    lambda x, axes, weights: x.clone(),
    [],
    [],
    nodes="custom_domain::Empty",
    custom_opsets=CUSTOM,
    verify=False,
)
@parse_args("v", "is", "fs")
def attribute_empty_lists(g, x, axes, weights):
    return g.op("custom_domain::Empty", x, axes_i=axes, weights_f=weights)


@library(
    "(Tensor x, int dim, bool keepdim) -> Tensor",
    lambda x, dim, keepdim: x.argmax(dim, keepdim),
    1,
    True,
    nodes="ArgMax",
)
@parse_args("v", "i", "b")
def attribute_bool(g, x, dim, keepdim):
    return g.op("ArgMax", x, axis_i=dim, keepdims_i=keepdim)


@library("(Tensor x, float? alpha=None) -> Tensor", lambda x, alpha=None: F.elu(x), nodes="Elu")
@parse_args("v", "f")
def attribute_none(g, x, alpha):
    # None leaves the attribute out.
    return g.op("Elu", x, alpha_f=alpha)


@library("(Tensor x) -> Tensor", lambda x: F.elu(x, 2.0), nodes="Elu")
def attribute_int_as_float(g, x):
    return g.op("Elu", x, alpha_f=2)


@library(
    "(Tensor x, int[] kernel, int[] stride, int[] padding, bool ceil, bool count) -> Tensor",
    F.avg_pool2d,
    [3, 2],
    [2, 1],
    [1, 1],
    False,
    True,
    args=(IMAGE,),
    nodes="AveragePool",
)
@parse_args("v", "is", "is", "is", "b", "b")
def attributes_many(g, x, kernel, stride, padding, ceil, count):
    return g.op(
        "AveragePool",
        x,
        kernel_shape_i=kernel,
        strides_i=stride,
        pads_i=padding + padding,
        ceil_mode_i=ceil,
        count_include_pad_i=int(count),
    )


@library("(Tensor x, ScalarType dtype) -> Tensor", lambda x, dtype: x.to(dtype), torch.float64, nodes="Cast")
@parse_args("v", "i")
def argument_dtype(g, x, dtype):
    return g.op("Cast", x, to_i=JitScalarType(dtype).onnx_type())


@library(
    "(Tensor x, ScalarType? dtype=None) -> Tensor",
    lambda x, dtype=None: x.clone() if dtype is None else x.to(dtype),
    nodes="Identity",
)
@parse_args("v", "i")
def argument_dtype_none(g, x, dtype):
    return g.op("Identity", x) if dtype is None else g.op("Cast", x, to_i=JitScalarType(dtype).onnx_type())


@library(
    "(Tensor x, int[]? dim=None, bool keepdim=False) -> Tensor",
    lambda x, dim=None, keepdim=False: x.mean(dim, keepdim),
    nodes={11: "ReduceMean", 18: "ReduceMean"},
)
@parse_args("v", "is", "b")
def argument_optional_ints(g, x, dim=None, keepdim=False):
    if dim is None:
        return g.op("ReduceMean", x, keepdims_i=keepdim)
    return g.op("ReduceMean", x, axes_i=dim, keepdims_i=keepdim)


@library(
    "(Tensor x, *, float lower=-1.0, float upper=1.0) -> Tensor",
    lambda x, *, lower=-1.0, upper=1.0: x.clamp(lower, upper),
    named={"upper": 0.5},
    nodes="Clip",
)
@parse_args("v", "f", "f")
def argument_keyword_only(g, x, lower, upper):
    low = g.op("Constant", value_t=torch.tensor(lower, dtype=torch.float32))
    high = g.op("Constant", value_t=torch.tensor(upper, dtype=torch.float32))
    return g.op("Clip", x, low, high)


@library(
    "(Tensor x, float alpha=1.5, float gamma=1.25, bool unused=False) -> Tensor",
    lambda x, alpha=1.5, gamma=1.25, unused=False: gamma * F.elu(x, alpha),
    2.0,
    nodes="Selu",
    verify=False,
)
@parse_args("v", "f", "f", "none")
def argument_defaults(g, x, alpha, gamma, unused):
    # The schema's default stands in for what the caller left out.
    return g.op("Selu", x, alpha_f=alpha, gamma_f=gamma)


@library("(Tensor x, float value) -> Tensor", lambda x, value: x * value, 0.3, nodes="Mul")
@parse_args("v", "t")
def argument_as_tensor(g, x, value):
    return g.op("Mul", x, g.op("Constant", value_t=value.to(torch.float32)))


@library(
    "(Tensor x, str? mode=None, str other='linear') -> Tensor",
    lambda x, mode=None, other="linear": x.clone(),
    nodes="custom_domain::Modes",
    custom_opsets=CUSTOM,
    verify=False,
)
@parse_args("v", "s", "s")
def argument_optional_string(g, x, mode, other):
    return g.op("custom_domain::Modes", x, mode_s=mode, given_i=mode is not None, other_s=other)


@library(
    "(Tensor x, SymInt[] shape) -> Tensor",
    lambda x, shape: x.reshape(shape).clone(),
    [6, -1],
    nodes="Reshape",
)
@parse_args("v", "is")
def argument_sizes(g, x, shape):
    return g.op("Reshape", x, g.op("Constant", value_t=torch.tensor(shape)))


@library("(Tensor x, Scalar value) -> Tensor", lambda x, value: x + value, 2.5, nodes="Add")
def argument_number(g, x, value):
    # The number arrives as a constant of the graph, and is made float32 by the exporter, like any number beside x.
    return g.op("Add", x, value)


@library("(Tensor x, int[2] size, int dim=-1) -> Tensor", lambda x, size, dim=-1: x.tile(size), [1, 3], nodes="Tile")
@parse_args("v", "is", "i")
def argument_fixed_length(g, x, size, dim):
    return g.op("Tile", x, g.op("Constant", value_t=torch.tensor([1, *size], dtype=torch.int64)))
