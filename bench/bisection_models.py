"""The models of bisection.py: small ones of PyTorch, torchvision and transformers, and graphs with bodies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import nn

__all__ = ["ITERATIONS", "MODELS"]

_RNG = np.random.default_rng(0)


class _Residual(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.inner(x)


class _Gated(nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.up, self.gate, self.down = nn.Linear(size, 32), nn.Linear(size, 32), nn.Linear(32, size)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(self.up(x) * nn.functional.silu(self.gate(x)))


def _net(*layers: nn.Module, shape: tuple[int, ...] = (2, 16)) -> Callable[[], Any]:
    return lambda: (nn.Sequential(*layers).eval(), (torch.randn(shape),))


def _image(*layers: nn.Module) -> Callable[[], Any]:
    return _net(*layers, shape=(1, 8, 16, 16))


def _blocks(count: int, make: Callable[[], nn.Module], shape: tuple[int, ...] = (2, 16)) -> Callable[[], Any]:
    return lambda: (nn.Sequential(*(make() for _ in range(count))).eval(), (torch.randn(shape),))


def _vision(name: str) -> Callable[[], Any]:
    def build() -> Any:
        import torchvision

        return getattr(torchvision.models, name)(weights=None).eval(), (torch.randn(1, 3, 64, 64),)

    return build


class _Tokens(nn.Module):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.model(input_ids=ids, use_cache=False)[0]
        return found


def _language(name: str, **config: Any) -> Callable[[], Any]:
    def build() -> Any:
        import transformers

        made = getattr(transformers, f"{name}Config")(vocab_size=100, **config)
        model = _Tokens(getattr(transformers, f"{name}Model")(made)).eval()
        return model, (torch.randint(0, 8, (2, 7)),)

    return build


def _node(operator: str, given: str, output: str, **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(operator, given.split(), [output], name=f"{operator}_{output}", **attributes)


def _graph(nodes: list[onnx.NodeProto], functions: list[onnx.FunctionProto] | None = None) -> onnx.ModelProto:
    rotation = np.linalg.qr(_RNG.standard_normal((8, 8)))[0].astype(np.float32)
    stored = [
        numpy_helper.from_array(rotation, "w"),
        numpy_helper.from_array(np.int64(3), "three"),
        numpy_helper.from_array(np.bool_(True), "yes"),
        numpy_helper.from_array(np.float32(-100), "low"),
    ]
    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 8])
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, [4, 8])
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("my", 1)]
    graph = helper.make_graph(nodes, "g", [value], [result], stored)
    return helper.make_model(graph, opset_imports=opsets, ir_version=10, functions=functions or [])


def _chain(count: int, prefix: str, first: str, last: str) -> list[onnx.NodeProto]:
    names = [first, *(f"{prefix}{number}" for number in range(count - 1)), last]
    return [
        _node(
            "MatMul" if at % 3 == 1 else "Neg",  # a rotation: a difference reaches the end of any length
            f"{names[at]}{' w' * (at % 3 == 1)}",
            names[at + 1],
        )
        for at in range(count)
    ]


def _body(name: str, nodes: list[onnx.NodeProto], output: str) -> onnx.GraphProto:
    return helper.make_graph(nodes, name, [], [helper.make_tensor_value_info(output, TensorProto.FLOAT, None)])


def _with_ifs(depth: int) -> onnx.ModelProto:
    def branch(level: int, given: str) -> onnx.GraphProto:
        nodes = [_node("Sin", given, f"s{level}"), _node("Neg", f"s{level}", f"n{level}")]
        if level < depth:
            inner, other = (
                branch(level + 1, f"n{level}"),
                _body(f"o{level}", [_node("Tanh", f"n{level}", f"t{level}")], f"t{level}"),
            )
            nodes.append(
                helper.make_node("If", ["c"], [f"i{level}"], name=f"If_{level}", then_branch=inner, else_branch=other)
            )
        else:
            nodes.append(_node("Cos", f"n{level}", f"i{level}"))
        return _body(f"b{level}", nodes, f"i{level}")

    other = _body("o", [_node("Tanh", "x", "t")], "t")
    start = [_node("ReduceMax", "x", "m", keepdims=0), _node("Greater", "m low", "c")]
    chosen = helper.make_node("If", ["c"], ["i"], name="If_top", then_branch=branch(1, "x"), else_branch=other)
    return _graph([*start, chosen, _node("Neg", "i", "z"), _node("MatMul", "z w", "y")])


def _with_functions(count: int, nested: bool) -> onnx.ModelProto:
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("my", 1)]
    block = helper.make_function(
        "my", "Block", ["i"], ["o"], [_node("Sin", "i", "p"), _node("Neg", "p", "q"), _node("Add", "q i", "o")], opsets
    )
    outer = helper.make_function(
        "my",
        "Outer",
        ["i"],
        ["o"],
        [
            helper.make_node("Block", ["i"], ["p"], name="Block_p", domain="my"),
            _node("Cos", "p", "q"),
            _node("Add", "q i", "o"),
        ],
        opsets,
    )
    names = ["x", *(f"v{number}" for number in range(count - 1)), "y"]
    call = "Outer" if nested else "Block"
    nodes = [helper.make_node(call, [names[at]], [names[at + 1]], name=f"call{at}", domain="my") for at in range(count)]
    return _graph(nodes, [block, outer] if nested else [block])


def _with_loop() -> onnx.ModelProto:
    body = helper.make_graph(
        [_node("Identity", "go", "goes"), _node("Sin", "state", "s"), _node("Add", "s state", "next")],
        "body",
        [
            helper.make_tensor_value_info("turn", TensorProto.INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            helper.make_tensor_value_info("state", TensorProto.FLOAT, None),
        ],
        [
            helper.make_tensor_value_info("goes", TensorProto.BOOL, []),
            helper.make_tensor_value_info("next", TensorProto.FLOAT, None),
        ],
    )
    loop = helper.make_node("Loop", ["three", "yes", "a"], ["b"], name="Loop_b", body=body)
    return _graph([_node("MatMul", "x w", "a"), loop, *_chain(9, "c", "b", "y")])


class _Repeated(nn.Module):
    """A block as often as data say, and the states of all iterations."""

    def __init__(self, keeps: bool) -> None:
        super().__init__()
        self.block, self.keeps = _Gated(16), keeps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        states = []
        for _ in range(_times(x)):
            x = torch.tanh(x + self.block(x))
            if self.keeps:
                states.append(x)
        return torch.stack(states).sum(0) if self.keeps else x


class _Until(nn.Module):
    """A block until its result is small or data say so, with a branch in each iteration."""

    def __init__(self) -> None:
        super().__init__()
        self.block = nn.Linear(16, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(_times(x)):
            if x.abs().max() < 0.01:
                break
            step = torch.sin(self.block(x)) * 0.3
            x = x * 0.8 + step * 0.1 if step.sum() > 0 else x * 0.9 - step * 0.1
        return x


_TIMES = 20


def _times(x: torch.Tensor) -> int:
    """As many iterations for any data, which no exporter can know."""
    return int((x * 0).sum()) + _TIMES


def _repeated(keeps: bool) -> Callable[[], Any]:
    return lambda: (_Repeated(keeps).eval(), (torch.randn(2, 16),))


_SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}

ITERATIONS = {"loop": 3, "loop of data": _TIMES, "loop that keeps its states": _TIMES, "loop that is left": _TIMES}
"""How many iterations the loops of models have, or more."""

MODELS: dict[str, Callable[[], Any]] = {
    "chain of 30": lambda: _graph(_chain(30, "c", "x", "y")),
    "chain of 1000": lambda: _graph(_chain(1000, "c", "x", "y")),
    "chain of 5000": lambda: _graph(_chain(5000, "c", "x", "y")),
    "if": lambda: _with_ifs(1),
    "nested if": lambda: _with_ifs(3),
    "functions": lambda: _with_functions(12, False),
    "nested functions": lambda: _with_functions(12, True),
    "loop": _with_loop,
    "loop of data": _repeated(False),
    "loop that keeps its states": _repeated(True),
    "loop that is left": lambda: (_Until().eval(), (torch.randn(2, 16),)),
    "mlp": _blocks(4, lambda: nn.Sequential(nn.Linear(16, 16), nn.ReLU())),
    "deep mlp": _blocks(24, lambda: _Residual(nn.Sequential(nn.LayerNorm(16), nn.Linear(16, 16), nn.GELU()))),
    "gated": _blocks(6, lambda: _Residual(_Gated(16))),
    "rms norm": _blocks(8, lambda: _Residual(nn.Sequential(nn.RMSNorm(16), nn.Linear(16, 16), nn.Tanh()))),
    "convolutions": _image(*(layer for _ in range(5) for layer in (nn.Conv2d(8, 8, 3, padding=1), nn.ReLU()))),
    "batch norm": _image(*(layer for _ in range(5) for layer in (nn.Conv2d(8, 8, 3), nn.BatchNorm2d(8), nn.SiLU()))),
    "group norm": _image(*(layer for _ in range(4) for layer in (nn.Conv2d(8, 8, 3), nn.GroupNorm(2, 8), nn.GELU()))),
    "depthwise": _image(
        *(layer for _ in range(4) for layer in (nn.Conv2d(8, 8, 3, groups=8), nn.Hardswish(), nn.Conv2d(8, 8, 1)))
    ),
    "pooling": _image(
        nn.Conv2d(8, 8, 3), nn.MaxPool2d(2), nn.LeakyReLU(), nn.Conv2d(8, 8, 3), nn.AvgPool2d(2), nn.ELU()
    ),
    "up and down": _image(
        nn.Conv2d(8, 16, 3, 2, 1), nn.ReLU(), nn.ConvTranspose2d(16, 8, 2, 2), nn.Sigmoid(), nn.Conv2d(8, 4, 1)
    ),
    "convolutions 1d": _net(
        *(layer for _ in range(4) for layer in (nn.Conv1d(8, 8, 3, padding=1), nn.Tanh())), shape=(2, 8, 20)
    ),
    "encoder layer": _net(nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), shape=(2, 5, 16)),
    "encoder": lambda: (
        nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), 3).eval(),
        (torch.randn(2, 5, 16),),
    ),
    "lstm": lambda: (nn.LSTM(16, 16, 2).eval(), (torch.randn(5, 2, 16),)),
    "gru": lambda: (nn.GRU(16, 16, 2).eval(), (torch.randn(5, 2, 16),)),
    "bilinear": lambda: (_Residual(nn.Sequential(nn.Linear(16, 16), nn.Softmax(-1))).eval(), (torch.randn(3, 16),)),
    "resnet18": _vision("resnet18"),
    "mobilenet_v3_small": _vision("mobilenet_v3_small"),
    "squeezenet1_1": _vision("squeezenet1_1"),
    "shufflenet_v2_x0_5": _vision("shufflenet_v2_x0_5"),
    "mnasnet0_5": _vision("mnasnet0_5"),
    "regnet_y_400mf": _vision("regnet_y_400mf"),
    "efficientnet_b0": _vision("efficientnet_b0"),
    "densenet121": _vision("densenet121"),
    "swin_t": _vision("swin_t"),
    "BERT": _language("Bert", **_SMALL),
    "RoBERTa": _language("Roberta", **_SMALL),
    "ELECTRA": _language("Electra", embedding_size=32, **_SMALL),
    "DistilBERT": lambda: _distilbert(),
    "GPT-2": _language("GPT2", n_embd=32, n_layer=2, n_head=2, n_positions=32),
    "Llama": _language("Llama", num_key_value_heads=2, **_SMALL),
    "Qwen2": _language("Qwen2", num_key_value_heads=2, **_SMALL),
}


def _distilbert() -> Any:
    import transformers

    config = transformers.DistilBertConfig(vocab_size=100, dim=32, n_layers=2, n_heads=2, hidden_dim=64)
    model = transformers.DistilBertModel(config).eval()
    return model, (torch.randint(0, 8, (2, 7)),)
