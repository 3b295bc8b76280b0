"""Decisions in the verification: what stands on their sides is compared as everything else is."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from onnxscript import opset18 as op

import opbridge


class RoundingOnASide(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.shape[0] > 4:
            x = torch.round(x * 4) / 4
            return x * 3 if x.max() > 2 else x - 3
        return x * 2


def _half_up(self: Any, **_: Any) -> Any:
    return op.Floor(op.Add(self, op.CastLike(op.Constant(value_float=0.5), self)))


@pytest.mark.slow
def test_a_tie_on_a_side_is_forgiven() -> None:
    ties = (torch.arange(64).reshape(8, 8) * 37 % 64 - 32) / 8  # every second one times 4 is a half
    table = {"aten::round": _half_up}
    program = opbridge.export(RoundingOnASide(), (ties,), dynamic_shapes=({0: "rows"},), custom_translation_table=table)
    (output,) = program.verification.outputs  # type: ignore[union-attr]
    assert output.worst.forgiven and "elements of aten::round at " in output.worst.remark


class Deciding(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x.exp()
        if x.sum() > 0:
            y = y * 3
            y = torch.asinh(y) if x.min() > 0 else torch.tanh(y)
            return y + 1
        return y - 1


@pytest.mark.slow
@pytest.mark.parametrize("sign", [1, -1])
def test_the_operator_on_a_side_is_named(sign: int) -> None:
    with opbridge.override():

        @opbridge.translation("aten::asinh", opset=18)
        def asinh(self):
            return op.Relu(self)

        x = torch.rand(3, 4) + 0.1
        with pytest.raises(
            opbridge.VerificationError, match=r"first operator that differs is aten::asinh at .*\.py:\d+"
        ):
            opbridge.export(Deciding(), (x * sign,))


class Repeating(torch.nn.Module):
    def forward(self, x: torch.Tensor, count: torch.Tensor) -> torch.Tensor:
        while count > 0:
            x = torch.asinh(x) + 0.5
            count = count - 1
        return x * 2


@pytest.mark.slow
def test_the_loop_is_named_in_which_an_operator_differs() -> None:
    with opbridge.override():

        @opbridge.translation("aten::asinh", opset=18)
        def asinh(self):
            return op.Relu(self)

        with pytest.raises(
            opbridge.VerificationError, match=r"first operator that differs is higher_order::while_loop at .*\.py:\d+"
        ):
            opbridge.export(Repeating(), (torch.rand(3, 4), torch.tensor(3)))
