"""Sizes, amounts and positions that are computed from a dynamic dimension, on other sizes than the example has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from helpers.matching import assert_matches

import opbridge

Model = Callable[[torch.Tensor, int], Any]

SIZES: dict[str, Model] = {
    "narrow": lambda y, n: (y.narrow(0, n - 3, 2), y.narrow(0, -n, n - 1)),
    "topk": lambda y, n: (y.topk(n, 0)[0], y.topk(n // 2)[0]),
    "tril": lambda y, n: (y.tril(n - 5), y.triu(3 - n)),
    "repeat": lambda y, n: (y[:2].repeat(n, 2), y[0].tile((n,)), y.repeat_interleave(n, 1)),
    "roll": lambda y, n: (y.roll(n, 0), y.roll(2 - n, 1), y.roll(n)),
    "pad": lambda y, n: (F.pad(y, (n, 1)), F.pad(y, (2 - n, 1, n, -1)), F.pad(y, (n, n), value=2.5)),
    "index": lambda y, n: (y[n], y[-n], y[n - 3 : n], y[-n:], y[:: n - 1], y[:, torch.tensor([0, n])]),
    "split": lambda y, n: (*y.split([n, 9 - n]), *y.chunk(2), *y.tensor_split([n])),
    "expand": lambda y, n: (y[:1].expand(n, -1), y[:n].reshape(3, n * 3)),
    "as_strided": lambda y, n: (y.as_strided((n, 2), (1, 2)), y.as_strided((3, 2), (n, 1), n)),
    "arange": lambda y, n: (torch.arange(n), torch.arange(1, n, 2), torch.arange(n, 0, -1)),
    "creation": lambda y, n: (torch.eye(n, 3), torch.zeros(n, 2), torch.full((2, n), n), y.new_zeros(n, n)),
    "interpolate": lambda y, n: (
        F.interpolate(y[None, None], size=(n, 3)),
        F.interpolate(y[None, None], size=(n, n), mode="bilinear"),
        F.interpolate(y[None, None], size=(n, 6), mode="bicubic"),
    ),
    "adaptive_avg_pool2d": lambda y, n: F.adaptive_avg_pool2d(y[None], (n, 2)),
    "padded convolution": lambda y, n: F.conv1d(y[None], torch.ones(2, 9, 3), padding=n),
    "reflection": lambda y, n: F.pad(y[None], (n - 1, 1), mode="reflect"),
    "kthvalue": lambda y, n: y.kthvalue(n, 0)[0],
    "layer_norm": lambda y, n: F.layer_norm(y[:, :n], (n,)),
    "scatter": lambda y, n: (
        y.select_scatter(torch.zeros(9), 0, n),
        y.slice_scatter(torch.zeros(2, 9), 0, n - 3, n - 1),
        torch.nonzero_static(y > 0, size=n),
    ),
    "numbers": lambda y, n: (torch.pow(y, n), n**y, torch.fmod(y, n), (y * 10) // n, y.clamp(max=n / 4 - 1)),
    "linspace": lambda y, n: (torch.linspace(0, 1, n), torch.linspace(-2, 9, n + 1, dtype=torch.int64)),
    "scale": lambda y, n: F.scaled_dot_product_attention(y[None], y[None], y[None], scale=1 / n),
    "trapezoid": lambda y, n: (torch.trapezoid(y, dx=n), torch.cumulative_trapezoid(y, dx=1 / n, dim=0)),
    "tensors": lambda y, n: (torch.tensor([n, 2, n * 2]), torch.tensor(n / 2), torch.where(y > 0, n, y)),
}

# torch fixes these numbers, or their count of steps is the file's: refused, and never the example's number.
REFUSED: dict[str, tuple[Model, str]] = {
    "diagonal": (lambda y, n: y.diagonal(n - 4), "needs n == 5"),
    "unfold": (lambda y, n: y.unfold(0, n, 1), "needs n == 5"),
    "rot90": (lambda y, n: torch.rot90(y, n), "needs n == 5"),
    "eps": (lambda y, n: F.layer_norm(y, (9,), eps=1 / n), "needs n == 5"),
    "order of cdist": (lambda y, n: torch.cdist(y, y, p=n / 1.5), "needs n == 5"),
    "stride": (lambda y, n: F.conv1d(y[None], torch.ones(2, 9, 3), stride=n - 2), "stride and a dilation"),
    "dilation": (lambda y, n: F.conv1d(y[None], torch.ones(2, 9, 2), dilation=n - 2), "stride and a dilation"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SIZES)
def test_sizes_are_those_of_the_run(name: str) -> None:
    def model(x: torch.Tensor, y: torch.Tensor) -> Any:
        return SIZES[name](y, x.shape[0])

    assert_matches(
        model,
        torch.randn(5, 4),
        torch.randn(9, 9),
        others=[(torch.randn(size, 4), torch.randn(9, 9)) for size in (3, 4, 8)],
        dynamic_shapes=({0: torch.export.Dim("n", min=3, max=8)}, None),
    )


@pytest.mark.parametrize("name", REFUSED)
def test_sizes_that_cannot_be_those_of_the_run_are_refused(name: str) -> None:
    function, words = REFUSED[name]

    def model(x: torch.Tensor, y: torch.Tensor) -> Any:
        return function(y, x.shape[0])

    dynamic = ({0: torch.export.Dim("n", min=3, max=8)}, None)
    with pytest.raises((opbridge.MissingOperators, opbridge.CaptureError), match=words):
        opbridge.export(model, (torch.randn(5, 4), torch.randn(9, 9)), dynamic_shapes=dynamic, verify=False)
