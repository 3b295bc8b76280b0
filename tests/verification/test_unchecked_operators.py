"""Regions in images that are not there: an error where a verification invents them, and not the end of the process."""

from __future__ import annotations

import pytest
import torch

import opbridge
from opbridge.capture import capture
from opbridge.verification.unchecked_operators import checked

ops = pytest.importorskip("torchvision.ops", reason="its operators are tested")
pytestmark = pytest.mark.torchvision

_X, _REGIONS = torch.randn(2, 4, 8, 8), torch.tensor([[0.0, 1, 1, 6, 6], [1, 0, 2, 5, 7]])


class Pooled(torch.nn.Module):
    """Regions of the batch, if there are any."""

    def forward(self, x, regions):
        """x: (B, 4, H, W); regions: (N, 5)."""
        if regions[:, 1:].sum() > 0:
            return ops.roi_align(x, regions, 2, 0.5, 0)
        return x.new_zeros(regions.shape[0], 4, 2, 2)


@pytest.mark.parametrize("name", ["roi_align", "roi_pool", "ps_roi_align", "ps_roi_pool"])
@pytest.mark.parametrize(
    ("column", "number", "fault"),
    [
        (0, 2.0, "the batch of 2"),
        (0, -1.0, "the batch of 2"),
        (0, float("nan"), "not finite"),
        (3, float("inf"), "not finite"),
        (3, 1e9, "too many samples"),
    ],
)
def test_a_region_that_would_be_read_elsewhere_raises(name, column, number, fault):
    def pooled(x, regions):
        return getattr(ops, name)(x, regions, 2)

    found = capture(pooled, (_X, _REGIONS))
    wrong = _REGIONS.clone()
    wrong[1, column] = number
    with checked(found):
        given = pooled(_X, _REGIONS)
        with pytest.raises(IndexError, match=f"torchvision::{name}.*{fault}"):
            pooled(_X, wrong)
        with pytest.raises(IndexError, match="no elements"):
            pooled(_X[:, :, :0], _REGIONS)
        assert pooled(_X[:0], _REGIONS[:0]).shape[0] == 0
    assert torch.equal(given, pooled(_X, _REGIONS))


def test_models_without_such_operators_run_as_they_are():
    with checked(capture(torch.relu, (_X,))) as mode, checked(None) as none:
        assert mode is None and none is None


@pytest.mark.slow
def test_a_verification_that_invents_an_empty_batch_ends(tmp_path):
    """In a process of its own it would end with a signal: torchvision reads an image that is not there."""
    dynamic = ({0: "batch", 2: "height", 3: "width"}, {0: "regions"})
    program = opbridge.export(Pooled(), (_X, _REGIONS), tmp_path / "model.onnx", dynamic_shapes=dynamic)
    assert program.verification.ok
