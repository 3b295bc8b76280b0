"""Recurrent layers and cells."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from helpers.matching import assert_matches
from torch.export import Dim

import opbridge

LAYERS: dict[str, tuple[type[torch.nn.Module], dict[str, Any]]] = {
    "LSTM": (torch.nn.LSTM, {}),
    "GRU": (torch.nn.GRU, {}),
    "tanh": (torch.nn.RNN, {}),
    "relu": (torch.nn.RNN, {"nonlinearity": "relu"}),
}

FORMS = list(itertools.product((1, 2), (False, True), (False, True), (False, True)))


def made(kind: str, layers: int = 2, **options: Any) -> torch.nn.Module:
    layer, extra = LAYERS[kind]
    return layer(6, 5, layers, **extra, **options).eval()


@pytest.mark.slow
@pytest.mark.parametrize("kind", LAYERS)
def test_layers(kind: str) -> None:
    for layers, bidirectional, batch_first, bias in FORMS:
        module = made(kind, layers, bidirectional=bidirectional, batch_first=batch_first, bias=bias)
        assert_matches(module, torch.randn(4, 3, 6), others=[(torch.randn(4, 3, 6),)])


@pytest.mark.slow
@pytest.mark.parametrize("kind", LAYERS)
def test_first_states(kind: str) -> None:
    def states() -> Any:
        return (torch.randn(4, 3, 5), torch.randn(4, 3, 5)) if kind == "LSTM" else torch.randn(4, 3, 5)

    module = made(kind, bidirectional=True)
    inputs = torch.randn(4, 3, 6), states()
    for opset in (18, 21, 23):
        assert_matches(module, *inputs, others=[(torch.randn(4, 3, 6), states())], opset_version=opset)
    assert_matches(module, torch.randn(4, 6))


@pytest.mark.parametrize("kind", LAYERS)
def test_any_batch(kind: str) -> None:
    module = made(kind, bidirectional=True, batch_first=True)
    shapes = ({0: Dim("batch")},)
    assert_matches(module, torch.randn(4, 3, 6), dynamic_shapes=shapes, others=[(torch.randn(2, 3, 6),)])


@pytest.mark.parametrize("kind", LAYERS)
def test_half_precision(kind: str) -> None:
    assert_matches(made(kind).half(), torch.randn(4, 3, 6).half(), rtol=1e-2, atol=1e-2)


def test_weights_that_are_inputs() -> None:
    def layer(x: torch.Tensor, hidden: torch.Tensor, *weights: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.gru(x, hidden, list(weights), True, 1, 0.0, False, False, False)

    def tensors() -> list[torch.Tensor]:
        shapes = (4, 3, 6), (1, 3, 5), (15, 6), (15, 5), (15,), (15,)
        return [torch.randn(*shape) for shape in shapes]

    assert_matches(layer, *tensors(), others=[tensors()])


def test_known_weights_are_put_in_order_at_export() -> None:
    program = assert_matches(torch.nn.LSTM(64, 64).eval(), torch.randn(3, 2, 64))
    assert [node.op_type for node in program.model.graph] == ["LSTM", "Squeeze"]
    half = torch.nn.LSTM(64, 64).eval().bfloat16()
    program = opbridge.export(half, (torch.randn(3, 2, 64).bfloat16(),), target="tensorrt:10.15")
    assert [node.op_type for node in program.model.graph] == ["Concat", "LSTM", "Squeeze"] and program.verification.ok


@pytest.mark.slow
@pytest.mark.parametrize("bias", [False, True])
def test_cells(bias: bool) -> None:
    cells = [
        torch.nn.LSTMCell(6, 5, bias=bias),
        torch.nn.GRUCell(6, 5, bias=bias),
        torch.nn.RNNCell(6, 5, bias=bias),
        torch.nn.RNNCell(6, 5, bias=bias, nonlinearity="relu"),
    ]
    for cell in cells:
        assert_matches(cell, torch.randn(4, 6), dynamic_shapes=({0: Dim("batch")},), others=[(torch.randn(2, 6),)])
        assert_matches(cell, torch.randn(6))


@pytest.mark.parametrize(
    ("module", "dtype", "said"),
    [
        (torch.nn.GRU(6, 5).double(), torch.float64, "float32"),
    ],
    ids=["double"],
)
def test_what_onnx_cannot_do(module: torch.nn.Module, dtype: torch.dtype, said: str) -> None:
    with pytest.raises(opbridge.MissingOperators, match=said):
        opbridge.export(module.eval(), (torch.randn(4, 3, 6, dtype=dtype),), verify=False)


def test_dropout_in_training_is_refused() -> None:
    module = torch.nn.LSTM(6, 5, 2, dropout=0.5).train()
    with pytest.raises(opbridge.MissingOperators, match=r"model.eval\(\)"):
        opbridge.export(module, (torch.randn(4, 3, 6),), verify=False)
