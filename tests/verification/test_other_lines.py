"""Models that compute something else while they are captured."""

from __future__ import annotations

import pytest
import torch

import opbridge


class Asking(torch.nn.Module):
    def __init__(self, other):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
        self.other = other

    def forward(self, x):
        x = self.linear(x)
        if torch.compiler.is_exporting():
            return (x * self.other).relu()  # in a capture alone
        return (x + x).relu()


def test_the_line_that_only_the_capture_runs_is_named():
    with pytest.raises(opbridge.VerificationError) as raised:
        opbridge.export(Asking(3).eval(), (torch.randn(2, 4),))
    message = str(raised.value)
    assert "The captured computation differs from the model: it includes" in message
    assert "test_other_lines.py:20" in message and "(x * self.other).relu()" in message
    assert "No single operator exceeds the tolerance" not in message and "aten::" not in message


def test_a_model_that_computes_the_same_passes():
    assert opbridge.export(Asking(2).eval(), (torch.randn(2, 4),)).verification.ok


def test_a_model_whose_lines_are_the_same():
    class Factor(torch.nn.Module):
        def forward(self, x):
            return x * (3 if torch.compiler.is_exporting() else 2)

    with pytest.raises(
        opbridge.VerificationError, match=r"captured computation differs from the model\. The model may test"
    ):
        opbridge.export(Factor(), (torch.randn(2, 4),))
