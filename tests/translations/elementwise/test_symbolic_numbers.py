"""Arithmetic of sizes that are known only when the model runs."""

from __future__ import annotations

import math

import pytest
import torch
from helpers.matching import assert_matches
from helpers.tables import assert_all_match

SIZES = {
    "floordiv": lambda x, n: x.new_zeros(n // 2),
    "floordiv up": lambda x, n: x.new_zeros(-(-n // 3)),
    "floordiv numbers": lambda x, n: (n // 2, (3 - n) // 2, n // 3 - 1),
    "truediv": lambda x, n: x * (n / 3),
    "truediv of integers": lambda x, n: x.long() * (n / 2),
    "int": lambda x, n: torch.arange(torch.sym_int(n * 0.7)),
    "ceil": lambda x, n: torch.arange(math.ceil(n / 2)),
    "floor": lambda x, n: torch.arange(math.floor(n * 1.5)),
    "trunc": lambda x, n: torch.arange(math.trunc(n * 1.5)),
    "mod": lambda x, n: x[: n % 2 + 1],
    "arithmetic": lambda x, n: (n + 1, 2 * n, n - 7, 1 - n, n**2, -n, n**3 - n),
    "max": lambda x, n: (torch.zeros(max(n, 4)), torch.sym_max(n, 7), torch.zeros(torch.sym_min(n, 4))),
    "float": lambda x, n: x * torch.sym_float(n),
    "pow": lambda x, n: x / n**0.5,
    "sum": lambda x, n: torch.sym_sum([n, n, 1]),
    "ite": lambda x, n: torch.sym_ite(n > 4, torch.sym_max(n, 9), 2 * n),
    "not": lambda x, n: torch.sym_ite(torch.sym_not(n > 4), n + 1, 2 * n),
    "comparisons": lambda x, n: [torch.sym_ite(t, n, 1 - n) for t in (n >= 5, n < 5, n <= 7, n * 2 > 9, n + 1 < 9)],
    "tensor and size": lambda x, n: (x + n, x.int() + n, x.bool() * n, n - x, x.long() // n, x.int() % n),
    "numel": lambda x, n: (x.numel(), x[1:].numel(), x.size(0)),
    "full": lambda x, n: (torch.full((2,), n), torch.full((2, n), n / 2), x.new_full((2,), n), torch.full_like(x, n)),
    "scalar_tensor": lambda x, n: (torch.scalar_tensor(n), torch.scalar_tensor(n, dtype=torch.int32)),
    "views": lambda x, n: (x.view(n * 3), x.view(-1), x.reshape(3, n), x.view(1, n, 3).expand(2, n, 3)),
    "slices": lambda x, n: (x[n // 2 :], x[: n - 1], x[-2:], x[n - 2], x[:: n - 1]),
    "arange": lambda x, n: (
        torch.arange(n),
        torch.arange(1, n),
        torch.arange(0, 2 * n, 2),
        torch.arange(n, dtype=torch.float32),
    ),
    "arange float": lambda x, n: (torch.arange(0.0, n, 0.5), torch.arange(n, 0, -1), torch.arange(-n, n, 3)),
    "creation": lambda x, n: (torch.ones(n, 2), torch.zeros(2, n), torch.eye(n), torch.eye(n, 3), torch.zeros_like(x)),
    "repeat": lambda x, n: (x.repeat(1, n), x.repeat(n, 2), x[:1].expand(n, 3), x[0].repeat_interleave(n)),
    "tile": lambda x, n: (x.tile(2, 2), x.roll(1, 0), x.flip(0), x.roll(n // 2, 0)),
    "split": lambda x, n: x.split([1, n - 1]),
    "narrow": lambda x, n: (x.narrow(0, 1, n - 1), x.select(0, n - 1), x.narrow(0, n - 2, 2)),
    "cat": lambda x, n: (torch.cat([x, x[:2]]), torch.stack([x, x], 1), torch.cat([x, x.new_zeros(n, 2)], 1)),
    "triangles": lambda x, n: (torch.tril(x.new_ones(n, n)), torch.full((n, n), -1.0).triu(1), x.tril(1)),
    "meshgrid": lambda x, n: torch.meshgrid(torch.arange(n), torch.arange(3), indexing="ij"),
    "flatten": lambda x, n: (
        x.flatten(),
        x.unflatten(1, (3, 1)),
        x.unsqueeze(0).flatten(1),
        x.T,
        x.view(n, 1, 3).squeeze(1),
    ),
    "unfold": lambda x, n: (x.unfold(0, 2, 1), x.unfold(0, 2, 2)),
    "diagonal": lambda x, n: (x.diagonal(), x[:, 0].diag(), torch.diag_embed(x)),
    "round": lambda x, n: round(n / 4) + n,
}


@pytest.mark.slow
def test_sizes() -> None:
    batch = torch.export.Dim("batch", min=2, max=1000)

    def bound(function):
        return lambda x: function(x, x.shape[0])

    assert_all_match(
        {name: bound(function) for name, function in SIZES.items()},
        torch.randn(5, 3),
        others=[(torch.randn(8, 3),), (torch.randn(3, 3),), (torch.randn(2, 3),)],
        dynamic_shapes={"x": {0: batch}},
    )


def test_numbers_from_tensors() -> None:
    table = {
        "size": lambda x: torch.zeros(x.item()),
        "factor": lambda x: x * x.item(),
        "truth": lambda x: torch.zeros(2) + (x > 4).item(),
        "list": lambda x: x.tolist(),
    }
    assert_all_match(table, torch.tensor([3]), others=[(torch.tensor([5]),)])
    assert_matches(lambda x: x * x.sum().item(), torch.tensor([0.5, 2.0]), others=[(torch.tensor([1.5, -2.0]),)])
