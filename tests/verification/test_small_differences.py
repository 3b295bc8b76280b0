"""Differences within the tolerance that rounding does not explain."""

from __future__ import annotations

import pytest
import torch
from onnxscript import opset18 as op

import opbridge


class Nearly(torch.nn.Module):
    """A model in which an operator changes its output by less than the tolerance."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + 2e-4 * torch.asinh(x)


def test_an_operator_that_hardly_shows_is_found() -> None:
    with opbridge.override():

        @opbridge.translation("aten::asinh", opset=18)
        def asinh(self):
            return op.Relu(self)

        with pytest.raises(opbridge.VerificationError) as raised:
            opbridge.export(Nearly(), (torch.randn(3, 4),))

    said = str(raised.value)
    assert "first operator that differs is aten::asinh at" in said
    assert "4 times PyTorch's own error" in said and "larger error against float64 than PyTorch" in said


def test_a_tolerance_that_is_given_stands() -> None:
    with opbridge.override():

        @opbridge.translation("aten::asinh", opset=18)
        def asinh(self):
            return op.Relu(self)

        program = opbridge.export(Nearly(), (torch.randn(3, 4),), rtol=1e-3)

    assert program.verification is not None and program.verification.ok


def test_a_difference_without_an_operator_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A view that reads other elements, as an operator that gives the same for the same inputs."""
    monkeypatch.setattr("opbridge.capture.functionalize.read_in_memory_order", lambda *args, **options: False)

    def model(x):
        return x.sum() + 1e-2 * x.t().as_strided((3, 2), (1, 2))

    torch.manual_seed(0)
    program = opbridge.export(model, (torch.rand(4, 6) + 1,))

    assert program.verification is not None and program.verification.ok
    (said,) = program.verification.notes
    assert "is not explained by rounding" in said and "No single operator was found that differs" in said


@pytest.mark.parametrize("width", [1, 64])
def test_rounding_is_no_difference(width: int) -> None:
    """Sums that cancel are as far from float64 in PyTorch as in the file."""

    def model(x):
        y = x @ x.t()
        return (y + 1e3) - 1e3, torch.softmax(30 * y, -1), torch.exp(y).var(-1, correction=0)

    torch.manual_seed(0)
    program = opbridge.export(model, (torch.randn(5, width),))

    assert program.verification is not None and program.verification.ok
    assert not program.verification.notes
