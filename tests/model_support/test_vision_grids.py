"""Indices of patches by their grids, compared with transformers' own functions."""

from __future__ import annotations

import pytest
import torch
from helpers import known_functions

import opbridge

vision_utils = pytest.importorskip("transformers.vision_utils", reason="this transformers has no such module")


def _known(name):
    """transformers' function, and what computes the same at once."""
    original = getattr(vision_utils, name)
    return original, known_functions.computed(original)


def _grids(generator, side, *, frames=True, count=None, dtype=torch.int64):
    count = count or int(torch.randint(1, 5, (), generator=generator))
    sides = side * torch.randint(1, 14, (count, 2), generator=generator)
    if frames:
        sides = torch.cat([torch.randint(1, 4, (count, 1), generator=generator), sides], 1)
    return sides.to(dtype)


def _same(computed, expected):
    torch.testing.assert_close(computed, expected, rtol=0, atol=0)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_positions_in_blocks_are_those_of_transformers(seed, dtype):
    original, computed = _known("get_vision_position_ids")
    generator = torch.Generator().manual_seed(seed)
    for side in (1, 2, 3):
        grids = _grids(generator, side, dtype=dtype)
        for with_frames in (False, True):
            _same(computed(grids, side, with_frames), original(grids, side, with_frames))


def test_positions_in_blocks_of_a_side_for_each_image():
    original, computed = _known("get_vision_position_ids")
    grids, sides = torch.tensor([[1, 4, 6], [2, 3, 6], [3, 1, 5]]), torch.tensor([2, 3, 1])
    _same(computed(grids, sides), original(grids, sides))


def test_a_block_that_does_not_fit_is_an_error():
    original, computed = _known("get_vision_position_ids")
    for function in (original, computed):
        with pytest.raises((RuntimeError, IndexError)):
            function(torch.tensor([[1, 4, 6], [1, 3, 4]]), 2)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_windows_are_those_of_transformers(seed, dtype):
    original, computed = _known("get_vision_window_index")
    generator = torch.Generator().manual_seed(seed)
    for merged, window, patch in ((2, 112, 14), (1, 4, 1), (2, 28, 14), (1, 8, 2)):
        # A side that is no multiple of the merged one: what is over belongs to no token.
        grids = _grids(generator, 1, dtype=dtype)
        for each in (grids, grids * merged):
            _same(computed(each, merged, window, patch), original(each, merged, window, patch))


@pytest.mark.parametrize("seed", range(20))
def test_nearest_positions_are_those_of_transformers(seed):
    original, computed = _known("get_vision_nearest_position_ids")
    generator = torch.Generator().manual_seed(seed)
    for side in (1, 7, 70):
        sizes = _grids(generator, 1, frames=False) * (seed + 1)
        _same(computed(sizes, side), original(sizes, side))


@pytest.mark.parametrize(
    ("name", "given", "others"),
    [
        ("get_vision_position_ids", {"position_ids": torch.ones(3, 2)}, (2,)),
        ("get_vision_window_index", {"window_index": torch.ones(3), "cu_window_seqlens": torch.ones(2)}, (2, 112, 14)),
        ("get_vision_nearest_position_ids", {"position_ids": torch.ones(3)}, (7,)),
    ],
)
def test_what_a_user_has_computed_is_taken(name, given, others):
    _, computed = _known(name)
    found = computed(torch.ones(1, 3, dtype=torch.int64), *others, kwargs=(kept := {**given, "other": 1}))
    expected = tuple(given.values())
    assert found is expected[0] if len(expected) == 1 else found == expected
    assert kept == {"other": 1}


class _Windows(torch.nn.Module):
    """Attention's order of patches, as in Qwen2.5-VL."""

    def forward(self, states, grids):
        index, ends = get_vision_window_index(grids, 2, 4, 1)
        positions = get_vision_position_ids(grids, 2)
        sums = (states + positions).reshape(-1, 4, states.shape[1])[index].cumsum(0)
        return sums.reshape(states.shape), ends, get_vision_nearest_position_ids(grids[:, 1:], 9)


get_vision_window_index = getattr(vision_utils, "get_vision_window_index", None)
get_vision_position_ids = getattr(vision_utils, "get_vision_position_ids", None)
get_vision_nearest_position_ids = getattr(vision_utils, "get_vision_nearest_position_ids", None)


@pytest.mark.slow
def test_they_are_exported_for_any_grids():
    for name in ("get_vision_window_index", "get_vision_position_ids", "get_vision_nearest_position_ids"):
        _known(name)
    model = _Windows()

    def inputs(*grids):
        grids = torch.tensor(grids)
        return torch.randn(int(grids.prod(1).sum()), 2), grids

    program = opbridge.export(
        model,
        inputs([1, 4, 6], [2, 8, 2]),
        dynamic_shapes=({0: "patches"}, {0: "images"}),
        inputs=[inputs([1, 2, 2]), inputs([3, 6, 10], [1, 2, 4], [1, 4, 4])],
    )
    assert not [each for each in program.model.graph.all_nodes() if each.op_type in ("Loop", "Scan", "If")]
    assert get_vision_window_index is vision_utils.get_vision_window_index
