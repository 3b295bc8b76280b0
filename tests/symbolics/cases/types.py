"""Branches on rank, sizes, dtype and opset."""

from __future__ import annotations

import torch
from torch.onnx import JitScalarType, symbolic_helper
from torch.onnx._internal.torchscript_exporter._globals import GLOBALS
from torch.onnx.symbolic_helper import parse_args

from cases.declare import floats, integers, library

X = floats(2, 3, 4)


@library(
    "(Tensor x) -> Tensor",
    lambda x: x.transpose(-1, -2).contiguous(),
    args=(X, floats(3, 5)),
    model=lambda op: lambda x, y: (op(x), op(y)),
    nodes="Transpose Transpose",
)
def rank(g, x):
    if symbolic_helper._get_tensor_rank(x) == 2:
        return g.op("Transpose", x, perm_i=[1, 0])
    assert x.type().dim() == 3
    return g.op("Transpose", x, perm_i=[0, 2, 1])


@library(
    "(Tensor x) -> Tensor",
    lambda x: torch.div(x, 2, rounding_mode="floor"),
    args=(X, integers(4)),
    model=lambda op: lambda x, y: (op(x), op(y)),
    nodes="Div Floor Div",
)
def dtype(g, x):
    kind = JitScalarType.from_value(x)
    half = g.op("Div", x, g.op("Constant", value_t=torch.tensor(2, dtype=kind.dtype())))
    return g.op("Floor", half) if symbolic_helper._is_fp(x) else half


@library(
    "(Tensor x, Tensor y) -> Tensor",
    lambda x, y: x.to(torch.int64) + y,
    args=(integers(3, dtype=torch.int32), integers(3)),
    nodes="Cast Add",
)
def scalar_type_name(g, x, y):
    assert y.type().scalarType() == "Long"
    if x.type().scalarType() != y.type().scalarType():
        x = g.op("Cast", x, to_i=JitScalarType.from_value(y).onnx_type())
    return g.op("Add", x, y)


@library(
    "(Tensor x, Tensor y) -> Tensor",
    lambda x, y: x.double() * y,
    args=(floats(3), floats(3, dtype=torch.float64)),
    nodes="Cast Mul",
)
def promotion(g, x, y):
    assert not symbolic_helper.args_have_same_dtype([x, y])
    common = symbolic_helper._type_promote_from_values(x, y)
    assert symbolic_helper._try_get_scalar_type(y, x) == common
    x, y = (symbolic_helper._maybe_cast_to_type(g, value, common) for value in (x, y))
    return g.op("Mul", x, y)


@library("(Tensor x) -> Tensor", lambda x: x.flatten(1), nodes="Reshape")
def sizes(g, x):
    batch, *others = x.type().sizes()
    count = torch.Size(others).numel()
    return g.op("Reshape", x, g.op("Constant", value_t=torch.tensor([batch, count])))


@library("(Tensor x) -> Tensor", lambda x: x / 4**0.5, nodes="Div")
def dimension(g, x):
    width = symbolic_helper._get_tensor_dim_size(x, -1)
    assert symbolic_helper._get_tensor_sizes(x) == [2, 3, 4]
    return g.op("Div", x, g.op("Constant", value_t=torch.tensor(float(width)).sqrt()))


@library(
    "(Tensor x, int axis) -> Tensor",
    lambda x, axis: x.unsqueeze(axis).clone(),
    1,
    nodes={11: "Unsqueeze", 13: "Unsqueeze", 18: "Unsqueeze"},
)
@parse_args("v", "i")
def opset_of_the_graph(g, x, axis):
    if g.opset < 13:
        return g.op("Unsqueeze", x, axes_i=[axis])
    return g.op("Unsqueeze", x, g.op("Constant", value_t=torch.tensor([axis])))


@library(
    "(Tensor x) -> Tensor",
    lambda x: torch.nn.functional.gelu(x),
    nodes={17: "Div Erf Add Mul Mul", 20: "Gelu"},
)
def opset_of_the_exporter(g, x):
    if GLOBALS.export_onnx_opset_version >= 20:
        return g.op("Gelu", x)
    root = g.op("Div", x, torch.tensor(2.0).sqrt())
    erf = g.op("Add", g.op("Erf", root), torch.tensor(1.0))
    return g.op("Mul", g.op("Mul", x, erf), torch.tensor(0.5))


@library(
    "(Tensor x, Tensor y) -> Tensor",
    lambda x, y: x.add(y),
    args=(X, floats(4)),
    nodes="Add",
)
def kinds_of_types(g, x, y):
    assert x.isCompleteTensor() and x.type().kind() == "TensorType"
    assert x.type().isSubtypeOf(torch._C.TensorType.get())
    assert x.type().sizes() == [2, 3, 4] and x.type().dtype() == torch.float32
    assert y.type().varyingSizes() == [4]
    return g.op("Add", x, y)


@library(
    "(Tensor x) -> Tensor",
    lambda x: x.sum(-1),
    args=(integers(2, 3, dtype=torch.int32),),
    nodes="Cast ReduceSum",
)
def integer_reduction(g, x):
    # PyTorch sums integers in int64.
    x = symbolic_helper._maybe_cast_reduce_op_input(g, x)
    return symbolic_helper._reducesum_helper(g, x, axes_i=[-1], keepdims_i=0)


@library(
    "(Tensor x) -> Tensor",
    lambda x: torch.relu(x),
    args=(integers(2, 3, dtype=torch.int32),),
    nodes={12: "Cast Relu Cast", 18: "Relu"},
)
def optional_float_cast(g, x):
    return symbolic_helper._op_with_optional_float_cast(g, "Relu", x, opset_before=14)


@library("(Tensor x, float value) -> Tensor", lambda x, value: x * value, 0.1, nodes="Mul")
@parse_args("v", "f")
def implicit_cast(g, x, value):
    # A double beside float32: the exporter writes the constant in x's type.
    return g.op("Mul", x, g.op("Constant", value_t=torch.tensor(value, dtype=torch.float64)))


@library("(Tensor x) -> Tensor", lambda x: 2 * x + 1, nodes="Mul Add")
def implicit_cast_of_integers(g, x):
    return g.op("Add", g.op("Mul", torch.tensor(2), x), g.op("Constant", value_t=torch.tensor(1)))


@library(
    "(Tensor x, Tensor y) -> Tensor",
    lambda x, y: x * y,
    args=(floats(3), integers(3)),
    nodes="Cast Mul",
)
def implicit_cast_of_inputs(g, x, y):
    # Two inputs of different types: the exporter puts the Cast that PyTorch's promotion asks for.
    return g.op("Mul", x, y)


@library(
    "(Tensor x, Tensor y) -> Tensor",
    lambda x, y: x == y.int(),
    args=(integers(3, dtype=torch.int32), integers(3)),
    nodes="Cast Equal",
)
def implicit_cast_in_a_comparison(g, x, y):
    return g.op("Equal", x, y)
