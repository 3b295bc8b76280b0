"""Inputs: optional ones, lists of tensors, parameters, and tensors given straight to `g.op`."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch.onnx import symbolic_helper
from torch.onnx.symbolic_helper import parse_args

from cases.declare import aten, floats, integers, library

X = floats(2, 3, 4)
ONE = torch.tensor(0.5)


@library(
    "(Tensor x, Tensor? lower, Tensor? upper) -> Tensor",
    lambda x, lower, upper: torch.clamp(x, lower, upper),
    args=(X, ONE),
    model=lambda op: lambda x, upper: op(x, None, upper),
    nodes="Clip",
)
def optional_in_the_middle(g, x, lower, upper):
    return g.op("Clip", x, lower, upper)


@library(
    "(Tensor x, Tensor weight, Tensor? bias) -> Tensor",
    lambda x, weight, bias: F.conv1d(x, weight, bias),
    None,
    args=(X, floats(5, 3, 2)),
    nodes="Conv",
)
def optional_at_the_end(g, x, weight, bias):
    return g.op("Conv", x, weight, bias, kernel_shape_i=[2])


@library(
    "(Tensor x, Tensor weight, Tensor? bias=None) -> Tensor",
    lambda x, weight, bias=None: F.conv1d(x, weight, bias),
    args=(X, floats(5, 3, 2), floats(5)),
    nodes="Conv",
)
def optional_given(g, x, weight, bias=None):
    inputs = [x, weight] if symbolic_helper._is_none(bias) else [x, weight, bias]
    return g.op("Conv", *inputs, kernel_shape_i=[2])


@library(
    "(Tensor x, Tensor upper) -> Tensor",
    lambda x, upper: torch.clamp(x, max=upper),
    args=(X, ONE),
    nodes="Clip",
)
def optional_placeholder(g, x, upper):
    return g.op("Clip", x, symbolic_helper._optional_input_placeholder_tensor(g), upper)


@library(
    "(Tensor[] parts, int dim) -> Tensor",
    lambda parts, dim: torch.cat(parts, dim),
    args=(X, floats(2, 1, 4)),
    model=lambda op: lambda x, y: op([x, y, x], 1),
    nodes="Concat",
)
@parse_args("v", "i")
def list_of_tensors(g, parts, dim):
    assert symbolic_helper._is_packed_list(parts)
    return g.op("Concat", *symbolic_helper._unpack_list(parts), axis_i=dim)


@aten(
    "aten::index",
    lambda x, rows: x[:, rows],
    X,
    torch.tensor([0, 2]),
    nodes="Gather",
)
def list_with_none(g, x, indices):
    # x[:, rows]: the list holds None for every dimension that is taken whole.
    given = [
        (dim, index)
        for dim, index in enumerate(symbolic_helper._unpack_list(indices))
        if not symbolic_helper._is_none(index)
    ]
    ((dim, index),) = given
    return g.op("Gather", x, index, axis_i=dim)


@library("(Tensor x) -> Tensor", lambda x: x * torch.tensor([1.0, 2.0, 3.0, 4.0]), nodes="Mul")
def tensor_given_to_op(g, x):
    return g.op("Mul", x, g.op("Constant", value_t=torch.tensor([1.0, 2.0, 3.0, 4.0])))


@library("(Tensor x) -> Tensor", lambda x: 0.5 * x, nodes="Mul")
def scalar_tensor_given_to_op(g, x):
    # Tensors of one element may stand among the inputs as they are.
    return g.op("Mul", torch.tensor([0.5]), x)


class _Weighted(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(floats(3, 4))
        self.register_buffer("offset", floats(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.ops.opcases.parameters(x, self.weight, self.offset)


@library(
    "(Tensor x, Tensor weight, Tensor offset) -> Tensor",
    lambda x, weight, offset: F.linear(x, weight, offset),
    args=(floats(2, 4),),
    model=lambda op: _Weighted(),
    nodes="Gemm",
)
def parameters(g, x, weight, offset):
    return g.op("Gemm", x, weight, offset, transB_i=1, alpha_f=1.0, beta_f=1.0)


@library(
    "(Tensor x, Tensor index) -> Tensor",
    lambda x, index: x.gather(1, index),
    args=(X, integers(2, 2, 4, high=3)),
    nodes="GatherElements",
)
def integer_input(g, x, index):
    return g.op("GatherElements", x, index, axis_i=1)


@library(
    "(Tensor condition, Tensor x) -> Tensor",
    lambda condition, x: torch.where(condition, x, torch.zeros(())),
    args=(floats(2, 3) > 0, floats(2, 3)),
    nodes="Where",
)
def boolean_input(g, condition, x):
    return g.op("Where", condition, x, torch.tensor([0.0]))


@library(
    "(Tensor unused, Tensor x) -> Tensor",
    lambda unused, x: x.abs(),
    args=(floats(2, 3), X),
    nodes="Abs",
)
def unused_input(g, unused, x):
    return g.op("Abs", x)


@library(
    "(Tensor x, float scale) -> Tensor",
    lambda x, scale: F.elu(x, scale),
    model=lambda op: lambda x: op(op(x, 0.5), 1.5),
    nodes="Elu Elu",
)
@parse_args("v", "f")
def called_twice(g, x, scale):
    return g.op("Elu", x, alpha_f=scale)


@aten("aten::relu", lambda x: torch.neg(x).relu_(), X, nodes="Neg Max")
def in_place(g, x):
    # Registered for aten::relu, reached through aten::relu_.
    return g.op("Max", x, g.op("Constant", value_t=torch.tensor(0.0)))


@library(
    "(Tensor x, *, ScalarType? dtype=None, Layout? layout=None, bool? pin_memory=None,"
    " MemoryFormat? memory_format=None) -> Tensor",
    lambda x, **_: x.double() + 2,
    named={"dtype": torch.float64},
    nodes="Cast Shape ConstantOfShape Add",
)
@parse_args("v", "i", "v", "v", "v")
def factory_arguments(g, x, dtype=None, layout=None, pin_memory=False, memory_format=None):
    # All of the schema's arguments come, those too that say how a tensor is stored.
    assert dtype == 7 and symbolic_helper._is_none(memory_format)
    twos = g.op("ConstantOfShape", g.op("Shape", x), value_t=torch.tensor([2.0], dtype=torch.float64))
    return g.op("Add", g.op("Cast", x, to_i=11), twos)


@aten("aten::cumsum", lambda x: x.cumsum(1, dtype=torch.float64), X, nodes="Cast CumSum")
@parse_args("v", "i", "i")
def keyword_dtype(g, x, dim, dtype=None):
    assert dtype == 7
    return g.op("CumSum", g.op("Cast", x, to_i=11), g.op("Constant", value_t=torch.tensor(dim)))
