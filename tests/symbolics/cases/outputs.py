"""Outputs: several, unused ones, lists, an input handed back, and the types that a symbolic function sets."""

from __future__ import annotations

import torch
from torch.onnx import symbolic_helper
from torch.onnx.symbolic_helper import parse_args

from cases.declare import aten, define, floats, library

X = floats(2, 3, 4)
CUSTOM = {"custom_domain": 1}


@library(
    "(Tensor x, int k, int dim) -> (Tensor, Tensor)",
    lambda x, k, dim: tuple(torch.topk(x, k, dim)),
    2,
    1,
    nodes="TopK",
)
@parse_args("v", "i", "i")
def several(g, x, k, dim):
    values, indices = g.op("TopK", x, g.op("Constant", value_t=torch.tensor([k])), axis_i=dim, outputs=2)
    return values, indices


@library(
    "(Tensor x) -> (Tensor, Tensor)",
    lambda x: (x.abs(), x.neg()),
    nodes="Abs Neg",
)
def several_as_list(g, x):
    return [g.op("Abs", x), g.op("Neg", x)]


@library(
    "(Tensor x, int k) -> (Tensor, Tensor)",
    lambda x, k: tuple(torch.topk(x, k, -1)),
    model=lambda op: lambda x: op(x, 3)[1],
    nodes="TopK",
)
@parse_args("v", "i")
def first_unused(g, x, k):
    return g.op("TopK", x, g.op("Constant", value_t=torch.tensor([k])), axis_i=-1, outputs=2)


@library(
    "(Tensor x) -> (Tensor, Tensor)",
    lambda x: (x.abs(), x.neg()),
    model=lambda op: lambda x: op(x)[0],
    nodes="Abs",
)
def second_unused(g, x):
    # What no output depends on is not in the file.
    return g.op("Abs", x), g.op("Neg", x)


@library(
    "(Tensor x) -> (Tensor, Tensor)",
    lambda x: (x.sqrt(), x.mean(-1)),
    args=(X.abs(),),
    model=lambda op: lambda x: op(x)[0],
    nodes="Sqrt",
)
def unused_is_none(g, x):
    return g.op("Sqrt", x), None


@library("(Tensor x, float p) -> Tensor", lambda x, p: x.clone(), 0.5, nodes="Identity")
def own_input(g, x, p):
    return x


@library(
    "(Tensor x, float p) -> Tensor",
    lambda x, p: x.clone(),
    model=lambda op: lambda x: torch.neg(op(torch.abs(x), 0.5)),
    nodes="Abs Neg",
)
def own_input_in_between(g, x, p):
    return x


@library(
    "(Tensor x, Tensor y) -> (Tensor, Tensor)",
    lambda x, y: (y.clone(), x.clone()),
    args=(X, floats(2)),
    model=lambda op: lambda x, y: op(torch.abs(x), torch.neg(y)),
    nodes="Neg Abs",
)
def inputs_exchanged(g, x, y):
    return y, x


@library(
    "(Tensor x) -> (Tensor, Tensor)",
    lambda x: (x.abs(), x.abs()),
    model=lambda op: lambda x: torch.sub(*op(x)),
    nodes="Abs Sub",
)
def one_value_twice(g, x):
    y = g.op("Abs", x)
    return y, y


@aten("aten::split", lambda x: torch.split(x, 2, 2), X, nodes="Split")
@parse_args("v", "i", "i", "i")
def list_of_outputs(g, x, size, dim, _outputs=None):
    # How many tensors the list holds is told by `_outputs`.
    return g.op("Split", x, g.op("Constant", value_t=torch.tensor([size] * _outputs)), axis_i=dim, outputs=_outputs)


@library(
    "(Tensor x) -> Tensor",
    lambda x: x.abs(),
    nodes="custom_domain::Same",
    custom_opsets=CUSTOM,
    verify=False,
)
def type_of_the_input(g, x):
    return g.op("custom_domain::Same", x).setType(x.type())


@library(
    "(Tensor x) -> Tensor",
    lambda x: x.sum((1, 2)).long(),
    nodes="custom_domain::Count",
    custom_opsets=CUSTOM,
    verify=False,
)
def type_with_dtype_and_sizes(g, x):
    return g.op("custom_domain::Count", x).setType(x.type().with_dtype(torch.int64).with_sizes([x.type().sizes()[0]]))


@library(
    "(Tensor x) -> (Tensor, Tensor, Tensor)",
    lambda x: (x.sum(-1).int(), x.abs(), x.mean(-1)),
    nodes="custom_domain::Detect",
    custom_opsets=CUSTOM,
    verify=False,
)
def types_of_several(g, x):
    # The shape of detection plugins: counts, boxes, scores.
    counts, boxes, scores = g.op("custom_domain::Detect", x, limit_i=10, outputs=3)
    sizes = x.type().sizes()
    counts.setType(x.type().with_dtype(torch.int32).with_sizes(sizes[:-1]))
    boxes.setType(x.type())
    scores.setType(x.type().with_sizes(sizes[:-1]))
    return counts, boxes, scores


define("outlined", "(Tensor x) -> Tensor", lambda x: x.permute(2, 1, 0).contiguous())


def _by_rank(g, x):
    rank = symbolic_helper._get_tensor_rank(x)
    return g.op("Transpose", x, perm_i=list(reversed(range(rank))))


@aten(
    "aten::sinh",
    lambda x: torch.ops.opcases.outlined(torch.sinh(x)),
    X,
    others={"opcases::outlined": _by_rank},
    nodes="custom_domain::Sinh Transpose",
    custom_opsets=CUSTOM,
    verify=False,
)
def type_for_the_next(g, x):
    # The next symbolic function reads the rank that this one sets.
    return g.op("custom_domain::Sinh", x).setType(x.type())
