"""What a capture says of the sizes that it is for."""

from __future__ import annotations

import pytest
import torch
from torch.export import Dim

import opbridge
from opbridge.capture import capture


def refuses_77(x):
    if x.shape[0] == 77:
        raise ValueError
    return x + 1


def doubles_products_of_77(x):
    return x * 2 if x.shape[0] * x.shape[1] == 77 else x + 1


@pytest.mark.parametrize(
    ("model", "expected"), [(refuses_77, "n != 77"), (doubles_products_of_77, "m*n != 77")], ids=["one", "a product"]
)
def test_a_single_size_that_is_left_out_is_told(model, expected):
    taken = capture(model, (torch.ones(12, 5),), dynamic_shapes={"x": {0: "n", 1: "m"}})
    assert [condition for condition, _ in taken.demands] == [expected]
    assert any(f"valid only for {expected} " in note for note in taken.notes)


@pytest.mark.slow
def test_a_dim_has_no_sizes_that_are_left_out():
    with pytest.raises(opbridge.CaptureError, match="it requires n != 77"):
        capture(refuses_77, (torch.ones(12, 5),), dynamic_shapes={"x": {0: Dim("n")}})
    taken = capture(refuses_77, (torch.ones(12, 5),), dynamic_shapes={"x": {0: Dim("n", max=76)}})
    assert not taken.notes
