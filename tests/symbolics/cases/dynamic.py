"""Sizes that are known only when the model runs."""

from __future__ import annotations

import torch
from torch.autograd import Function
from torch.onnx import symbolic_helper

from cases.declare import autograd, floats, library

X = floats(2, 3, 4)
BATCH = ({0: "batch"},)


@library(
    "(Tensor x) -> Tensor",
    lambda x: x.flatten(1).clone(),
    dynamic=BATCH,
    nodes="Shape Slice Concat Reshape",
)
def sizes_partly_unknown(g, x):
    sizes = symbolic_helper._get_tensor_sizes(x)
    assert sizes == [None, 3, 4] and symbolic_helper._get_tensor_rank(x) == 3
    batch = symbolic_helper._slice_helper(g, g.op("Shape", x), axes=[0], starts=[0], ends=[1])
    return g.op("Reshape", x, g.op("Concat", batch, g.op("Constant", value_t=torch.tensor([12])), axis_i=0))


@library(
    "(Tensor x) -> Tensor",
    lambda x: x / x.shape[0],
    dynamic=BATCH,
    nodes="Shape Gather Cast Div",
)
def dimension_unknown(g, x):
    assert symbolic_helper._get_tensor_dim_size(x, 0) is None and symbolic_helper._get_tensor_dim_size(x, 1) == 3
    count = g.op("Gather", g.op("Shape", x), g.op("Constant", value_t=torch.tensor(0)), axis_i=0)
    return g.op("Div", x, g.op("Cast", count, to_i=1))


@library("(Tensor x) -> Tensor", lambda x: x.abs(), dynamic=BATCH, nodes="Abs")
def no_static_sizes(g, x):
    assert symbolic_helper._get_tensor_sizes(x, allow_nonstatic=False) is None
    assert not x.isCompleteTensor() and x.type().dtype() == torch.float32
    return g.op("Abs", x) if x.type().sizes() is None else g.op("Neg", x)


@library(
    "(Tensor x) -> Tensor",
    lambda x: x.sum(-1),
    dynamic=BATCH,
    nodes="custom_domain::Sum",
    custom_opsets={"custom_domain": 1},
    verify=False,
)
def type_with_unknown_sizes(g, x):
    return g.op("custom_domain::Sum", x).setType(x.type().with_sizes([None, 3]))


@library(
    "(Tensor x, Tensor y) -> Tensor",
    lambda x, y: x.flatten(0, 1) @ y,
    args=(X, floats(4, 5)),
    dynamic=({0: "batch", 1: "time"}, None),
    nodes="Shape Slice Slice Concat Reshape MatMul",
)
def flatten_unknown(g, x, y):
    return g.op("MatMul", symbolic_helper._flatten_helper(g, x, 0, 1, 3), y)


@autograd(lambda f: f.apply, X, dynamic=BATCH, nodes="ReduceSum Shape Gather Cast Div")
class MeanOverBatch(Function):
    @staticmethod
    def forward(ctx, x):
        return x.sum(0) / x.shape[0]

    @staticmethod
    def symbolic(g, x):
        count = g.op("Gather", g.op("Shape", x), g.op("Constant", value_t=torch.tensor(0)))
        total = symbolic_helper._reducesum_helper(g, x, axes_i=[0], keepdims_i=0)
        return g.op("Div", total, g.op("Cast", count, to_i=1))


@autograd(lambda f: f.apply, X, dynamic=BATCH, nodes="Round")
class ThroughNumpyOfAnySize(Function):
    @staticmethod
    def forward(ctx, x):
        return torch.from_numpy(x.detach().numpy().round())

    @staticmethod
    def symbolic(g, x):
        assert x.type().varyingSizes() == [None, 3, 4]
        return g.op("Round", x)
