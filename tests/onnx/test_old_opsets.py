"""Models of opsets 9 to 17: every operator of the table matches eager PyTorch there, or is refused with its opset."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import onnx
import onnx_ir as ir
import pytest
import torch
import torch.nn.functional as F
from helpers.matching import assert_matches, assert_same_results
from helpers.rows import slow_but_first
from helpers.running import run
from helpers.shape_inference import assert_shapes_agree
from torch import nn

import opbridge

OPSETS = (9, 11, 13, 16, 17)
NAN, INF = math.nan, math.inf


@dataclass
class Case:
    function: Any
    inputs: tuple[torch.Tensor, ...]
    since: int
    keywords: dict[str, Any]


TABLE: dict[str, Case] = {}


def case(name: str, function: Any, *inputs: torch.Tensor, since: int = 9, **keywords: Any) -> None:
    """A row: it works from opset `since` on, and is refused below."""
    assert name not in TABLE
    TABLE[name] = Case(function, inputs, since, keywords)


def _write(x):
    x = x.clone()
    x[:, 0] = 1
    return x


torch.manual_seed(0)
X = torch.randn(2, 3, 4)
IMAGE = torch.randn(1, 3, 8, 8)
INTEGERS = torch.tensor([[3, -1, 4], [1, 5, -9]])
OTHERS = torch.tensor([[2, 7, 4], [8, 2, 8]])
LEFT = torch.tensor([1.0, NAN, 3.0, -2.0, NAN, INF])
RIGHT = torch.tensor([1.0, 2.0, NAN, -1.0, NAN, INF])
ROWS = {"dynamic_shapes": ({0: "rows"},)}

# Arithmetic
case("add", torch.add, X, X + 1)
case("add, integers", torch.add, INTEGERS, OTHERS)
case("mul", lambda x: x * 2.5, X)
case("div", torch.div, X, X.abs() + 1)
case("floor_divide", lambda x: x // 2, INTEGERS)
case("remainder, integers", lambda x, y: x % y - x % -y, INTEGERS, OTHERS)
case("remainder", lambda x: x % 3, X, since=10)
case("matmul", torch.matmul, X, torch.randn(4, 5))
case("linear", nn.Linear(4, 5), X)
case("linear, no bias", nn.Linear(4, 5, bias=False), X[0])
case("addmm", torch.addmm, torch.randn(5), torch.randn(3, 4), torch.randn(4, 5))
case("einsum", lambda x, y: torch.einsum("bij,bkj->bik", x, y), X, X)
case("pow", lambda x: x.abs() ** 1.5, X)
case("pow, integer exponent", lambda x: x**2, X)
case("pow, tensor", torch.pow, X.abs(), X)
for each in ("sqrt", "exp", "erf", "log", "sin", "tanh", "sigmoid", "rsqrt", "floor", "trunc", "sign", "log1p"):
    case(each, getattr(torch, each), X.abs())
case("round", torch.round, torch.tensor([0.5, 1.5, 2.5, -0.5]), since=11)
case("bitwise and", lambda x: x & 3, INTEGERS, since=18)
case("shift", lambda x: x << 2, INTEGERS, since=11)

# Comparisons and bounds
for each in ("eq", "ne", "lt", "le", "gt", "ge"):
    case(each, getattr(torch, each), LEFT, RIGHT)
    case(f"{each}, a number", lambda x, each=each: getattr(x, each)(1.0), LEFT)
    case(f"{each}, integers", getattr(torch, each), INTEGERS, OTHERS)
case("maximum", torch.maximum, LEFT, RIGHT)
case("maximum, integers", torch.maximum, INTEGERS, OTHERS)
case("minimum, bytes", torch.minimum, INTEGERS.to(torch.int8), OTHERS.to(torch.int8))
case("clamp", lambda x: x.clamp(-0.5, 0.5), LEFT)
case("clamp, from below", lambda x: x.clamp(min=0.0), torch.tensor([1.0, NAN, INF, -INF, -1.0]))
case("clamp, integers", lambda x: x.clamp(0, 4), INTEGERS)
case("clamp, float64", lambda x: x.clamp(-0.5, 0.1), X.double())
case("isinf", torch.isinf, torch.tensor([-INF, INF, NAN, 1.0]))
case("isneginf", torch.isneginf, torch.tensor([-INF, INF, NAN, 1.0]))
case("where", lambda x, y: torch.where(x > 0, x, y), X, -X)
case("where, truth values", lambda x, y: torch.where(x > 0, x > y, y > 1), X, -X)
case("masked_fill", lambda x: x.masked_fill(x > 0, -INF), X)
case("logic", lambda x, y: (x > 0) & (y > 0) | ~(x > 1) ^ (y > 1), X, -X)

# Activations
for each in ("relu", "gelu", "silu", "hardswish", "hardsigmoid", "elu", "celu", "selu", "mish", "softplus", "relu6"):
    case(each, getattr(F, each), X * 3)
case("celu, alpha", lambda x: F.celu(x, 0.5), X * 3)
case("relu, integers", torch.relu, INTEGERS)
case("glu", F.glu, X)
case("softmax, last", lambda x: x.softmax(-1), X)
case("softmax, middle", lambda x: x.softmax(1), X)
case("log_softmax, first", lambda x: x.log_softmax(0), X)

# Layers
case("conv2d", nn.Conv2d(3, 4, 3, padding=1, stride=2), IMAGE)
case("conv_transpose2d", nn.ConvTranspose2d(3, 4, 3, stride=2), IMAGE)
case("batch_norm", nn.BatchNorm2d(3).eval(), IMAGE)
case("instance_norm", nn.InstanceNorm2d(3), IMAGE)
case("group_norm", nn.GroupNorm(3, 6), torch.randn(2, 6, 4))
case("layer_norm", nn.LayerNorm([3, 4]), X)
case("layer_norm, float16", nn.LayerNorm(4).half(), X.half())
case("max_pool", nn.MaxPool2d(2), IMAGE)
case("max_pool, dilated", nn.MaxPool2d(2, dilation=2), IMAGE, since=10)
case("max_pool, rounded up", nn.MaxPool2d(3, 2, ceil_mode=True), IMAGE, since=10)
case("max_pool, indices", nn.MaxPool2d(2, return_indices=True), IMAGE)
case("avg_pool", nn.AvgPool2d(2), IMAGE)
case("avg_pool, rounded up", nn.AvgPool2d(3, 2, 1, ceil_mode=True), IMAGE, since=10)
case("adaptive_avg_pool", nn.AdaptiveAvgPool2d(2), IMAGE)
case("adaptive_avg_pool, uneven", nn.AdaptiveAvgPool2d(3), IMAGE)
case("dropout", nn.Dropout().eval(), X)
case("embedding", nn.Embedding(10, 4), torch.tensor([[1, 2], [3, 9]]))
case("attention", lambda q: F.scaled_dot_product_attention(q, q, q, is_causal=True), torch.randn(1, 2, 5, 4))
case("transformer", nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval(), torch.randn(2, 5, 8))
case("lstm", nn.LSTM(4, 5), X)
case("nearest", lambda x: F.interpolate(x, scale_factor=2), IMAGE)
case("nearest, to a multiple", lambda x: F.interpolate(x, size=(16, 24)), IMAGE)
case("nearest, to any size", lambda x: F.interpolate(x, size=(5, 11)), IMAGE, since=11)
case("bilinear", lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), IMAGE, since=11)
case("bilinear, corners", lambda x: F.interpolate(x, size=(5, 9), mode="bilinear", align_corners=True), IMAGE, since=11)
case("pixel_shuffle", lambda x: F.pixel_shuffle(x, 2), torch.randn(1, 8, 3, 3))
case(
    "grid_sample", lambda x, grid: F.grid_sample(x, grid, align_corners=False), IMAGE, torch.rand(1, 4, 4, 2), since=16
)
case("cross_entropy", F.cross_entropy, torch.randn(3, 4), torch.tensor([1, 0, 3]))

# Reductions
for each in ("sum", "mean", "amax", "prod"):
    case(each, lambda x, each=each: getattr(x, each)(-1), X)
case("sum, all", torch.sum, X)
case("sum, several", lambda x: x.sum((0, -1), keepdim=True), X)
case("sum, integers", lambda x: x.sum(1), INTEGERS)
case("var", lambda x: x.var(1), X)
case("norm", lambda x: x.norm(dim=-1), X)
case("logsumexp", lambda x: x.logsumexp((0, -1)), X)
case("max", lambda x: x.max(1), X)
case("argmax", lambda x: x.argmax(-1), X)
case("argmin, all", torch.argmin, X)
case("any", lambda x: (x > 0).any(1), X)

# Shapes
case("cat", lambda x, y: torch.cat([x, y], -1), X, X)
case("stack", lambda x, y: torch.stack([x, y], -1), X, X)
case("split", lambda x: x.split([1, 2], 1), X)
case("chunk", lambda x: x.chunk(3, -1), X)
case("unbind", lambda x: x.unbind(-1), X)
case("flatten", lambda x: x.flatten(1), X)
case("reshape", lambda x: x.reshape(4, -1), X)
case("reshape, empty", lambda x: x.reshape(0, 5), torch.zeros(2, 0))
case("transpose", lambda x: x.transpose(-1, 0), X)
case("permute", lambda x: x.permute(2, 0, 1), X)
case("squeeze", lambda x: x.squeeze(-1), torch.randn(2, 1, 1))
case("unsqueeze", lambda x: x.unsqueeze(-1), X)
case("expand", lambda x: x.expand(2, 3, 4), torch.randn(3, 1))
case("repeat", lambda x: x.repeat(2, 1, 3), X)
case("pad", lambda x: F.pad(x, (1, 2, 0, 1), value=1.5), X)
case("pad, reflect", lambda x: F.pad(x, (1, 2), mode="reflect"), X)
case("pad, integers", lambda x: F.pad(x, (1, 2), value=7), INTEGERS, since=11)
case("tril", torch.tril, X)
case("triu", lambda x: x.triu(1), X)
case("zeros_like", torch.zeros_like, X)
case("rows counted", lambda x: torch.arange(x.shape[0]), X, **ROWS)
case("rows kept", lambda x: x.reshape(x.shape[0], -1, 2), X, **ROWS)
case("rows and columns", torch.tril, torch.randn(3, 4), dynamic_shapes=({0: "rows", 1: "columns"},))
case("rows in chunks", lambda x: x.chunk(2), torch.randn(4, 3), since=10, **ROWS)

# Elements
case("slice", lambda x: x[:, 1:, :-1], X)
case("slice, steps", lambda x: x[..., ::2], X)
case("slice, bound computed", lambda x: x[:, : x.shape[0]], X, since=10, **ROWS)
case("flip", lambda x: x.flip(1, 2), X)
case("select", lambda x: x[:, -1], X)
case("select, last row", lambda x: x[-1], X, **ROWS)
case("index_select", lambda x, i: x.index_select(1, i), X, torch.tensor([2, 0]))
case("index", lambda x, i, j: x[:, i, j], X, torch.tensor([1, 0, -1]), torch.tensor([1, -2, 0]))
case("gather", lambda x, i: x.gather(1, i), X, torch.randint(0, 3, (2, 2, 4)))
case("gather, rows", lambda x, i: x.gather(0, i), X, torch.randint(0, 2, (2, 3, 4)), dynamic_shapes=({0: "rows"}, {}))
case("mask", lambda x: x[x > 0], X)
case("nonzero", lambda x: (x > 0).nonzero(), X)
case("topk", lambda x: x.topk(2), X)
case("topk, smallest", lambda x: x.topk(2, 1, largest=False), X)
case("sort", torch.sort, X)
case("cumsum", lambda x: x.cumsum(1), X, since=11)
case("scatter", lambda x, i, y: x.scatter(-1, i, y), X, torch.zeros(2, 3, 1, dtype=torch.int64), X)
case("scatter_add", lambda x, i, y: x.scatter_add(1, i, y), X, torch.zeros(2, 3, 4, dtype=torch.int64), X)
for how in ("sum", "prod", "mean", "amax", "amin"):
    for include in (True, False):
        case(
            f"scatter_reduce, {how}, {include}",
            lambda x, i, y, how=how, include=include: x.scatter_reduce(1, i, y, how, include_self=include),
            *(X, torch.tensor([[[0, 2, 0, 2], [0, 1, 1, 2]]] * 2), torch.stack([X[0], X[1] * NAN])),
        )
BLOCKS = torch.cat([torch.randn(2, 12, 11), torch.full((2, 12, 1), INF)], -1)
case("fold", lambda x: F.fold(x, (4, 5), 2), BLOCKS)
case("fold, all options", lambda x: F.fold(x, (7, 10), (2, 3), (2, 1), (1, 0), (2, 3)), BLOCKS[:, :6])
case("fold, float64", lambda x: F.fold(x.double(), (4, 5), 2), BLOCKS)
case("fold, float16", lambda x: F.fold(x.half(), (4, 5), 2), BLOCKS.round())
case(
    "fold, dynamic size",
    lambda x, y: F.fold(x, y.shape, 2),
    *(BLOCKS, torch.zeros(4, 5)),
    since=10,
    dynamic_shapes=({0: "n", 2: "m"}, {0: "h", 1: "w"}),
)
case("index_add", lambda x, i, y: x.index_add(-1, i, y), X, torch.tensor([0, 3, 0]), X[..., :3])
case("index_reduce", lambda x, i, y: x.index_reduce(0, i, y, "amin"), X, torch.tensor([1, 1]), X)
case(
    "index_put, accumulated",
    lambda x, i, j, y: x.index_put((i, j), y, accumulate=True),
    *(X, torch.tensor([[1], [0]]), torch.tensor([2, 0, -1]), torch.randn(3, 4)),
    since=11,
)
case("index_put", lambda x, i, y: x.index_put((i,), y), X, torch.tensor([1]), torch.randn(1, 3, 4), since=11)
case("written to", _write, X)


def told_apart(program: opbridge.Program, older: int, newer: int) -> bool:
    """Whether ONNX changed an operator of a program of the newer opset since the older one."""
    kinds = {node.op_type for node in program.model.graph.all_nodes() if node.domain == ""}
    return any(onnx.defs.get_schema(kind, newer).since_version > older for kind in kinds)


@pytest.mark.parametrize("name", slow_but_first(TABLE))
def test_matches_or_names_the_opset(name):
    """At the newest of the older opsets, and at each below at which an operator of the graph is another one."""
    row = TABLE[name]
    refused = [opset for opset in OPSETS if opset < row.since]
    for opset in {*refused[:1], *refused[-1:]}:
        with pytest.raises(opbridge.MissingOperators, match=rf"opset_version={row.since} or newer"):
            opbridge.export(row.function, row.inputs, opset_version=opset, verify=False, **row.keywords)
    program, newer = None, 0
    for opset in reversed(OPSETS[len(refused) :]):
        if program is not None and not told_apart(program, opset, newer):
            continue
        program = assert_matches(row.function, *row.inputs, opset_version=opset, **row.keywords)
        newer = opset
        assert program.model.opset_imports[""] == opset
        # By ONNX's own rules too, which know the form of every operator at every opset.
        proto = ir.to_proto(program.model)
        onnx.checker.check_model(proto, full_check=True)
        assert_shapes_agree(proto)


@pytest.mark.slow
@pytest.mark.parametrize("opset", [9, 10, 13])
def test_sizes_known_only_when_the_model_runs(opset):
    names = (
        "softmax, middle",
        "layer_norm",
        "argmax",
        "gather",
        "mask",
        "pad",
        "triu",
        "max",
        "repeat",
        "cat",
        "nearest",
    )
    for name in names:
        row = TABLE[name]
        assert_matches(row.function, *row.inputs, opset_version=opset, dynamic_shapes="auto")


@pytest.mark.parametrize(("opset", "ir_version"), [(9, 4), (10, 5), (11, 6), (13, 7), (14, 7), (15, 8), (17, 8)])
def test_the_file_format_is_that_of_the_opset(opset, ir_version):
    assert opbridge.export(nn.ReLU(), (X,), opset_version=opset).model.ir_version == ir_version


@pytest.mark.slow
@pytest.mark.torchvision
@pytest.mark.parametrize("opset", [9, 17])
def test_resnet18(opset):
    import torchvision

    torch.manual_seed(0)
    model = torchvision.models.resnet18(weights=None).eval()
    program = opbridge.export(
        model,
        (torch.randn(2, 3, 64, 64),),
        opset_version=opset,
        dynamic_shapes=({0: "batch"},),
        verify=False,
    )
    kinds = {node.op_type for node in program.model.graph}
    assert kinds <= {"Conv", "BatchNormalization", "Relu", "MaxPool", "Add", "GlobalAveragePool", "ReduceMean"} | {
        "Flatten",
        "Reshape",
        "Gemm",
        "MatMul",
    }
    batch = torch.randn(3, 3, 64, 64)
    assert_same_results(run(program, (batch,)), model, (batch,), rtol=1e-4, atol=1e-4)
