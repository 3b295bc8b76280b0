"""Nodes in domains other than ONNX's, and ONNX functions written with onnxscript."""

from __future__ import annotations

import onnxscript
import torch
import torch.nn.functional as F
from onnxscript import opset18 as op
from torch.onnx.symbolic_helper import parse_args

from cases.declare import aten, floats, library

X = floats(2, 3, 4)


@library(
    "(Tensor x, Tensor y, float attr1, int attr2) -> Tensor",
    lambda x, y, attr1, attr2: x * attr1 + y * attr2,
    0.5,
    3,
    args=(X, floats(4)),
    nodes="custom_domain::Foo",
    custom_opsets={"custom_domain": 2},
    verify=False,
)
@parse_args("v", "v", "f", "i")
def domain_with_version(g, x, y, attr1, attr2):
    return g.op("custom_domain::Foo", x, y, attr1_f=attr1, attr2_i=attr2)


@library(
    "(Tensor x) -> Tensor",
    lambda x: x.abs(),
    nodes="first.domain::Foo second_domain::Foo Abs",
    custom_opsets={"first.domain": 3, "second_domain": 4},
    verify=False,
)
def two_domains(g, x):
    y = g.op("second_domain::Foo", g.op("first.domain::Foo", x))
    return g.op("Abs", y)


@library("(Tensor x) -> Tensor", F.gelu, nodes="com.microsoft::Gelu", custom_opsets={"com.microsoft": 1})
def runtimes_own_domain(g, x):
    return g.op("com.microsoft::Gelu", x).setType(x.type())


@library(
    "(Tensor x, Tensor boxes, int[2] size, float ratio) -> Tensor",
    lambda x, boxes, size, ratio: x.new_zeros(boxes.shape[0], x.shape[1], *size),
    [7, 7],
    0.25,
    args=(floats(1, 3, 8, 8), floats(5, 5)),
    nodes="mmcv::RoIAlign",
    custom_opsets={"mmcv": 1},
    verify=False,
)
@parse_args("v", "v", "is", "f")
def plugin(g, x, boxes, size, ratio):
    return g.op(
        "mmcv::RoIAlign",
        x,
        boxes,
        output_height_i=size[0],
        output_width_i=size[1],
        spatial_scale_f=ratio,
        mode_s="avg",
        aligned_i=True,
    )


_domain = onnxscript.values.Opset("opcases.functions", 1)


@onnxscript.script(_domain, default_opset=op)
def Selu(x):
    """Selu of the constants in the paper, with `where` in place of two clips."""
    alpha = op.CastLike(1.67326, x)
    gamma = op.CastLike(1.0507, x)
    zero = op.CastLike(0.0, x)
    return gamma * op.Where(x > zero, x, alpha * (op.Exp(x) - op.CastLike(1.0, x)))


@aten(
    "aten::selu",
    F.selu,
    X,
    nodes="opcases.functions::Selu",
    custom_opsets={"opcases.functions": 1},
)
def onnxscript_function(g, x):
    return g.onnxscript_op(Selu, x).setType(x.type())


@onnxscript.script(_domain, default_opset=op)
def Scaled(x, factor: float):
    """x times an attribute."""
    return x * op.CastLike(op.Constant(value_float=factor), x)


@library(
    "(Tensor x, float factor) -> Tensor",
    lambda x, factor: x * factor,
    0.3,
    model=lambda op: lambda x: op(op(x, 0.5), 4.0),
    nodes="opcases.functions::Scaled opcases.functions::Scaled",
    custom_opsets={"opcases.functions": 1},
)
@parse_args("v", "f")
def onnxscript_function_with_attribute(g, x, factor):
    return g.onnxscript_op(Scaled, x, factor_f=factor).setType(x.type())


@library(
    "(Tensor x, int dim) -> Tensor",
    lambda x, dim: x.cumsum(dim),
    1,
    nodes="org.pytorch.aten::ATen",
    custom_opsets={"org.pytorch.aten": 1},
    mode="ONNX_ATEN_FALLBACK",
    verify=False,
)
@parse_args("v", "i")
def aten_node(g, x, dim):
    return g.at("cumsum", x, dim_i=dim).setType(x.type())


@library(
    "(Tensor x) -> Tensor",
    lambda x: torch.triu(x),
    args=(floats(3, 3),),
    nodes="org.pytorch.aten::ATen",
    custom_opsets={"org.pytorch.aten": 1},
    mode="ONNX_ATEN_FALLBACK",
    verify=False,
)
def aten_node_with_overload(g, x):
    return g.aten_op("triu", x, g.op("Constant", value_t=torch.tensor(0)), overload_name="default").setType(x.type())
