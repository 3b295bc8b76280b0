"""Functions that take numbers, with numbers that are sizes, on sizes and counts that were not captured."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import opbridge


class Of(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


def _heads(x: torch.Tensor) -> torch.Tensor:
    return torch.stack([x, x * 2, x - 1], -1)[None]


FORMS = {
    "padding with a size": lambda x: F.pad(x, [0, 1], value=x.shape[0] - 1),
    "padding with a quotient": lambda x: F.pad(input=x, pad=(1, 2), value=1 / x.shape[0]),
    "padding of integers": lambda x: F.pad((x * 3).long(), [0, 1], value=x.shape[0]),
    "padding by a size with a size": lambda x: F.pad(x, [x.shape[0], 0], "constant", x.shape[0]),
    "a scale of attention": lambda x: F.scaled_dot_product_attention(*[_heads(x)] * 3, scale=x.shape[0] ** -0.5),
    "trapezoids over x": lambda x: torch.trapezoid(x[x > 0] * 2, x[x > 0]),
    "trapezoids with a width": lambda x: torch.trapz(x[x > 0], dx=0.5),
    "trapezoids along a dimension": lambda x: torch.trapezoid(_heads(x[x > 0])[0], x[x > 0], dim=0),
    "cumulative trapezoids": lambda x: torch.cumulative_trapezoid(x[x < 1], x[x < 1] ** 2),
    "trapezoids of a known number": lambda x: torch.trapezoid(x, x * 2),
}


@pytest.mark.parametrize("name", FORMS)
def test_other_numbers(name):
    model = Of(FORMS[name])
    program = opbridge.export(model, (torch.linspace(-1, 2, 7),), dynamic_shapes=({0: "n"},))
    for count in (2, 3, 12):
        assert opbridge.verify(program, model, (torch.linspace(-0.5, 3, count),)).ok
