"""Padding, against PyTorch, with negative amounts too."""

from __future__ import annotations

import pytest
import torch
from helpers.matching import assert_matches
from helpers.tables import accepted, assert_all_match

F = torch.nn.functional
AUTO = torch.export.Dim.AUTO

LINE = [(1, 2), (-1, 1), (0, 0), (2, -3)]
PLANE = [(1, 2, 3, 0), (-2, 1, 1, -1), (-2, 3, -2, 3), (0, 0, 2, 1)]


def _table(amounts, modes=("reflect", "replicate", "circular")):
    return {f"{mode} {pad}": lambda x, pad=pad, mode=mode: F.pad(x, pad, mode) for mode in modes for pad in amounts}


CONSTANT = {
    "zeros": lambda x: F.pad(x, (1, 2, 0, 3)),
    "number": lambda x: F.pad(x, (1, -1), value=2),
    "all dimensions": lambda x: F.pad(x, (1, 1, -1, 0, 0, 2), value=-3),
    "nothing": lambda x: F.pad(x, (0, 0)),
    "constant_pad_nd": lambda x: torch.constant_pad_nd(x, (2, 1), 4),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.int64])
def test_beyond_the_edge(dtype):
    plane = (torch.randn(2, 3, 6, 5) * 9).to(dtype)
    line = plane[:, :, 0].clone()
    assert_all_match(accepted(_table(PLANE), plane), plane, others=[(plane * 2,)])
    assert_all_match(accepted(_table(LINE), line), line, others=[(line * 2,)])


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.int16, torch.bool])
def test_constant(dtype):
    x = (torch.randn(2, 3, 5) * 9).to(dtype)
    table = CONSTANT if dtype != torch.bool else {name: CONSTANT[name] for name in ("zeros", "nothing")}
    assert_all_match(table, x, others=[(x.flip(2).contiguous(),)])


def test_a_constant_of_infinity():
    assert_matches(lambda x: F.pad(x, (1, 1), value=float("-inf")), torch.randn(2, 3))


def test_volumes():
    table = _table([(1, 1, 1, 0, 2, 1)])
    assert_all_match(table, torch.randn(1, 2, 3, 3, 3), others=[(torch.randn(1, 2, 3, 3, 3),)])


def test_direct_forms():
    aten = torch.ops.aten
    assert_all_match(
        {
            "reflection": lambda x: aten.reflection_pad2d(x, [1, 2, 0, 3]),
            "replication": lambda x: aten.replication_pad2d(x, [1, 2, 0, 3]),
        },
        torch.randn(2, 3, 5, 4),
        others=[(torch.randn(2, 3, 5, 4),)],
    )


@pytest.mark.slow
@pytest.mark.parametrize("opset", [18, 23])
def test_dynamic_sizes(opset):
    assert_all_match(
        _table(PLANE[:2]) | {"constant": lambda x: F.pad(x, (1, -1, 2, 0), value=1.5)},
        torch.randn(2, 3, 6, 5),
        others=[(torch.randn(2, 3, 9, 8),)],
        dynamic_shapes={"x": {2: AUTO, 3: AUTO}},
        opset_version=opset,
    )


def test_up_to_a_multiple():
    """The amount is known only when the model runs."""
    assert_matches(
        lambda x: F.pad(x, (0, -x.shape[1] % 8)),
        torch.randn(2, 5),
        others=[(torch.randn(2, 13),), (torch.randn(2, 16),)],
        dynamic_shapes={"x": {1: AUTO}},
    )


@pytest.mark.parametrize("mode", ["constant", "reflect", "replicate", "circular"])
def test_amounts_that_are_known_only_when_the_model_runs(mode):
    """They may be negative on one side and positive on the other."""

    def model(x, y):
        more = y.shape[0] - 3
        return F.pad(x, (more, 1), mode), F.pad(x, (-more, more), mode), F.pad(x, (2, more), mode)

    x = torch.randn(2, 3, 7)
    assert_matches(
        model,
        x,
        torch.zeros(5),
        others=[(x + 1, torch.zeros(size)) for size in (1, 2, 3, 4, 6)],
        dynamic_shapes=({}, {0: AUTO}),
    )
