"""Constants read back: from the graph's Constant nodes, lists and None, in all the ways that the helpers know."""

from __future__ import annotations

import torch
from torch.onnx import symbolic_helper

from cases.declare import floats, library

X = floats(2, 3, 4)
CUSTOM = {"custom_domain": 1}


@library(
    "(Tensor x, int dim, bool keepdim) -> Tensor",
    lambda x, dim, keepdim: x.argmin(dim, keepdim),
    2,
    False,
    nodes="ArgMin",
)
def maybe_get_const(g, x, dim, keepdim):
    dim = symbolic_helper._maybe_get_const(dim, "i")
    keepdim = symbolic_helper._maybe_get_const(keepdim, "b")
    assert (dim, keepdim) == (2, False)
    return g.op("ArgMin", x, axis_i=dim, keepdims_i=keepdim)


@library(
    "(Tensor x, int[] order) -> Tensor",
    lambda x, order: x.permute(order).contiguous(),
    [1, 0, 2],
    nodes="Transpose",
)
def maybe_get_const_list(g, x, order):
    return g.op("Transpose", x, perm_i=symbolic_helper._maybe_get_const(order, "is"))


@library(
    "(Tensor x, Tensor y) -> Tensor",
    lambda x, y: x * y,
    args=(X, floats(4)),
    nodes="Mul",
)
def maybe_get_const_of_a_value(g, x, y):
    # What is no constant comes back as it is.
    assert symbolic_helper._maybe_get_const(y, "t") is y
    assert symbolic_helper._maybe_get_const(None, "f") is None
    return g.op("Mul", x, symbolic_helper._maybe_get_const(y, "t"))


@library(
    "(Tensor x, int axis, str name, float f) -> Tensor",
    lambda x, axis, name, f: torch.cumsum(x, axis),
    1,
    "sum",
    0.25,
    nodes="CumSum",
)
def get_const(g, x, axis, name, f):
    assert symbolic_helper._get_const(name, "s", "name") == "sum"
    assert symbolic_helper._get_const(f, "f", "f") == 0.25
    axis = symbolic_helper._get_const(axis, "i", "axis")
    return g.op("CumSum", x, g.op("Constant", value_t=torch.tensor(axis)))


@library("(Tensor x, Scalar value) -> Tensor", lambda x, value: x * value, 3, nodes="Mul")
def maybe_get_scalar(g, x, value):
    number = symbolic_helper._maybe_get_scalar(value)
    assert number.shape == () and symbolic_helper._scalar(number) == 3
    return g.op("Mul", x, g.op("Constant", value_t=number.to(torch.float32)))


@library(
    "(Tensor x, Tensor weight) -> Tensor",
    lambda x, weight: x + weight,
    args=(X,),
    model=lambda op: lambda x: op(x, torch.tensor([1.0, 2.0, 3.0, 4.0])),
    nodes="Sum",
)
def tensor_constant(g, x, weight):
    # A tensor that forward makes is a constant of the graph.
    assert symbolic_helper._is_constant(weight)
    read = symbolic_helper._maybe_get_const(weight, "t")
    assert read.tolist() == [1.0, 2.0, 3.0, 4.0]
    return g.op("Sum", x, g.op("Constant", value_t=read))


@library(
    "(Tensor x, Tensor y) -> Tensor",
    lambda x, y: x * y,
    args=(X, floats(2, 3, 4)),
    model=lambda op: lambda x, y: op(op(x, y), torch.tensor(2.0)),
    nodes="Mul Add",
)
def is_constant(g, x, y):
    # One function, two uses: by a value it multiplies, a constant 2 it writes as a sum.
    assert not symbolic_helper._is_constant(x)
    return g.op("Add", x, x) if symbolic_helper._is_constant(y) else g.op("Mul", x, y)


@library(
    "(Tensor x, Tensor? weight, int? axis) -> Tensor",
    lambda x, weight, axis: x.clone(),
    None,
    None,
    nodes="Identity",
)
def is_none(g, x, weight, axis):
    assert symbolic_helper._is_none(weight) and symbolic_helper._is_none(axis) and symbolic_helper._is_none(None)
    assert not symbolic_helper._is_none(x)
    assert weight.node().mustBeNone()
    return g.op("Identity", x)


@library("(Tensor x, int n) -> Tensor", lambda x, n: x * n, 3, nodes="Cast Mul")
def is_value(g, x, n):
    assert symbolic_helper._is_value(x) and symbolic_helper._is_value(n) and not symbolic_helper._is_value(3)
    assert symbolic_helper._is_tensor(x) and not symbolic_helper._is_list(x)
    return g.op("Mul", x, g.op("Cast", n, to_i=1))


@library("(Tensor x, int n, float f) -> Tensor", lambda x, n, f: x * n * f, 3, 0.1, nodes="Mul Mul")
def node_of_a_constant(g, x, n, f):
    assert n.node().kind() == "onnx::Constant" and x.node().kind() == "prim::Param"
    count = n.node().t("value").item()
    factor = symbolic_helper._node_get(f.node(), "value")
    return g.op("Mul", g.op("Mul", x, torch.tensor(float(count))), g.op("Constant", value_t=factor.float()))


@library(
    "(Tensor x, int[] pads) -> Tensor",
    lambda x, pads: torch.nn.functional.pad(x, [pads[1], pads[3]]),
    [0, 1, 0, 2],
    nodes="Pad",
)
def parsed_list(g, x, pads):
    assert not symbolic_helper._is_packed_list(x) and not symbolic_helper._is_packed_list(pads)
    pads = symbolic_helper._parse_arg(pads, "is")
    return g.op("Pad", x, g.op("Constant", value_t=torch.tensor([0, 0, pads[1], 0, 0, pads[3]])), mode_s="constant")


@library("(Tensor x) -> Tensor", lambda x: x.double() * 0.1, nodes="Cast Mul")
def double_constant(g, x):
    wide = g.op("Cast", x, to_i=11)
    return g.op("Mul", wide, g.op("Constant", value_t=torch.tensor([0.1], dtype=torch.float64)))


@library(
    "(Tensor x) -> (Tensor, Tensor, Tensor)",
    lambda x: (torch.cat([x.half(), torch.full((2, 3, 1), 0.5).half()], 2), x.int() + 7, (x > 0) & True),
    nodes="Cast Concat Cast Add Greater And",
)
def constants_of_other_dtypes(g, x):
    more = g.op("Constant", value_t=torch.full((2, 3, 1), 0.5, dtype=torch.half))
    half = g.op("Concat", g.op("Cast", x, to_i=10), more, axis_i=2)
    whole = g.op("Add", g.op("Cast", x, to_i=6), g.op("Constant", value_t=torch.tensor([7], dtype=torch.int32)))
    positive = g.op("Greater", x, g.op("Constant", value_t=torch.zeros(1)))
    return half, whole, g.op("And", positive, g.op("Constant", value_t=torch.tensor([True])))


@library("(Tensor x) -> Tensor", lambda x: x[:, 1:3].contiguous(), nodes="Slice")
def constants_of_a_slice(g, x):
    starts, ends, axes = (g.op("Constant", value_t=torch.LongTensor([number])) for number in (1, 3, 1))
    return g.op("Slice", x, starts, ends, axes)


@library("(Tensor x) -> Tensor", lambda x: x - 2.5, nodes="Shape ConstantOfShape Sub")
def constant_of_shape(g, x):
    return g.op("Sub", x, g.op("ConstantOfShape", g.op("Shape", x), value_t=torch.tensor([2.5])))


@library(
    "(Tensor x, float[] scales) -> Tensor",
    lambda x, scales: x * torch.tensor(scales),
    [1.0, 0.5, 0.25, 0.1],
    nodes="Mul",
)
def list_used_as_input(g, x, scales):
    # The list's constant is an input as it stands.
    return g.op("Mul", x, scales)


@library(
    "(Tensor x, SymInt n) -> Tensor",
    lambda x, n: x.expand(n, *x.shape[1:]).clone(),
    args=(floats(1, 4),),
    model=lambda op: lambda x: op(x, x.shape[1]),
    nodes="Unsqueeze Concat Expand",
)
def size_as_argument(g, x, n):
    # Where the shape is static, a size is a constant.
    size = symbolic_helper._unsqueeze_helper(g, n, [0])
    return g.op("Expand", x, g.op("Concat", size, g.op("Constant", value_t=torch.tensor([4])), axis_i=0))
