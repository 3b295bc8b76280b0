"""Symbolic functions that call PyTorch's own."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch.onnx import symbolic_opset9, symbolic_opset11, symbolic_opset12, symbolic_opset14
from torch.onnx.symbolic_helper import parse_args

from cases.declare import aten, floats, library

X = floats(2, 3, 4)


@library("(Tensor x) -> Tensor", torch.relu, nodes="Relu")
def stock_relu(g, x):
    return symbolic_opset9.relu(g, x)


@library("(Tensor x, float beta) -> Tensor", lambda x, beta: x * torch.sigmoid(beta * x), 1.5, nodes="Mul Sigmoid Mul")
def stock_swish(g, x, beta):
    return symbolic_opset9.mul(g, x, symbolic_opset9.sigmoid(g, symbolic_opset9.mul(g, x, beta)))


@library(
    "(Tensor x, Tensor weight, Tensor? bias) -> Tensor",
    F.linear,
    args=(X, floats(5, 4), floats(5)),
    nodes="Transpose MatMul Add",
)
def stock_linear(g, x, weight, bias):
    return symbolic_opset9.linear(g, x, weight, bias)


@aten(
    "aten::gelu",
    lambda x: F.gelu(x, approximate="tanh"),
    X,
    nodes="Mul Mul Mul Add Mul Tanh Add Mul Mul",
)
@parse_args("v", "s")
def stock_gelu(g, x, approximate="none"):
    return symbolic_opset9.gelu(g, x, approximate)


@library("(Tensor x, int dim) -> Tensor", lambda x, dim: torch.log_softmax(x, dim), -1, nodes="LogSoftmax")
@parse_args("v", "i")
def stock_log_softmax(g, x, dim):
    return symbolic_opset9.log_softmax(g, x, dim)


@aten("aten::hardswish", F.hardswish, X, nodes={12: "HardSigmoid Mul", 18: "HardSwish"})
def stock_hardswish(g, x):
    if g.opset >= 14:
        return symbolic_opset14.hardswish(g, x)
    return symbolic_opset9.hardswish(g, x)


@library(
    "(Tensor x, float lower, float upper) -> Tensor",
    torch.clamp,
    -0.5,
    0.5,
    nodes="Cast Cast Clip",
)
def stock_clamp(g, x, lower, upper):
    return symbolic_opset11.clamp(g, x, lower, upper)


@library(
    "(str equation, Tensor[] tensors) -> Tensor",
    lambda equation, tensors: torch.einsum(equation, *tensors),
    args=(floats(2, 3), floats(3, 4)),
    model=lambda op: lambda x, y: op("ij,jk->ik", [x, y]),
    nodes="Einsum",
)
@parse_args("s", "v")
def stock_einsum(g, equation, tensors):
    return symbolic_opset12.einsum(g, equation, tensors, None)


@library(
    "(Tensor x, float eps) -> Tensor",
    lambda x, eps: x * torch.rsqrt(x.pow(2).mean(-1, True) + eps),
    1e-5,
    nodes={17: "Pow ReduceMean Add Sqrt Div Mul"},
)
@parse_args("v", "f")
def stock_rms_norm(g, x, eps):
    square = symbolic_opset9.pow(g, x, g.op("Constant", value_t=torch.tensor(2.0)))
    mean = g.op("ReduceMean", square, axes_i=[-1])
    root = symbolic_opset9.rsqrt(g, symbolic_opset9.add(g, mean, g.op("Constant", value_t=torch.tensor(eps))))
    return symbolic_opset9.mul(g, x, root)


@aten(
    "aten::layer_norm",
    lambda x: F.layer_norm(x, (4,)),
    X,
    nodes={13: "ReduceMean Sub Pow ReduceMean Add Sqrt Div"},
)
@parse_args("v", "is", "v", "v", "f", "none")
def stock_layer_norm(g, x, normalized_shape, weight, bias, eps, cudnn_enable):
    return symbolic_opset9.layer_norm(g, x, normalized_shape, weight, bias, eps, cudnn_enable)


@library(
    "(Tensor x, int[] shape) -> Tensor",
    lambda x, shape: x.expand(shape).clone(),
    [5, 2, 3, 4],
    nodes="Shape ConstantOfShape Mul Equal Where Expand",
)
def stock_expand(g, x, shape):
    return symbolic_opset9.expand(g, x, shape, None)
