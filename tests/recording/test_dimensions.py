from __future__ import annotations

import pytest
import torch

from opbridge.recording.dimensions import varying


def found(*calls, names=None):
    """The dimensions of calls, each given by the shapes of its inputs."""
    tensors = [torch.empty(shape, device="meta") for shape in calls[0]]
    names = names or [f"x{number}" for number in range(len(tensors))]
    return {each.name: list(each.places) for each in varying(names, tensors, calls)}


@pytest.mark.parametrize(
    ("calls", "wanted"),
    [
        ([[(2, 3)], [(2, 3)]], {}),
        ([[(2, 3)], [(4, 3)]], {"batch": [(0, 0)]}),
        ([[(2, 3)], [(4, 5)]], {"batch": [(0, 0)], "length": [(0, 1)]}),
        ([[(2,)], [(3,)]], {"x0_dim_0": [(0, 0)]}),
        ([[(2,), (2, 4)], [(3,), (3, 4)]], {"batch": [(0, 0), (1, 0)]}),
        ([[(2, 4, 8, 9)], [(2, 4, 9, 8)]], {"height": [(0, 2)], "width": [(0, 3)]}),
        ([[(2, 4, 8, 8)], [(2, 4, 9, 9)]], {"size": [(0, 2), (0, 3)]}),
        ([[(2, 4, 5, 8, 9)], [(2, 4, 6, 7, 9)]], {"frames": [(0, 2)], "height": [(0, 3)]}),
        ([[(2, 4, 8, 9), (8, 3)], [(2, 4, 7, 9), (7, 3)]], {"height": [(0, 2), (1, 0)]}),
        (
            [[(2, 5), (3, 7)], [(4, 6), (5, 9)]],
            {"batch": [(0, 0)], "length": [(0, 1)], "x1_dim_0": [(1, 0)], "x1_dim_1": [(1, 1)]},
        ),
    ],
)
def test_names(calls, wanted):
    assert found(*calls) == wanted


def test_names_of_nested_inputs():
    assert found([(2,)], [(3,)], names=["extra['a'][0]"]) == {"extra_a_0_dim_0": [(0, 0)]}


def test_numbers_among_the_inputs():
    tensors = [torch.empty(2, 3), 5, torch.empty(2)]
    calls = [((2, 3), None, (2,)), ((4, 3), None, (4,))]
    (only,) = varying(["x", "n", "y"], tensors, calls)
    assert only.places == ((0, 0), (2, 0)) and only.sizes == (2, 4)
