"""What opbridge knows of neuralforecast: replacements give what the functions give, and models of it are captured."""

from __future__ import annotations

import importlib.util

import pytest
import torch
from helpers.matching import assert_matches

from opbridge.model_support import changed_sources, comparison
from opbridge.model_support.neuralforecast.support import SUPPORT

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("neuralforecast") is None, reason="neuralforecast is not installed"
)


@pytest.mark.parametrize(("entry", "target"), [(entry, each) for entry in SUPPORT.entries for each in entry.targets])
def test_a_replacement_gives_what_the_function_gives(entry, target):
    assert not comparison.differences(entry, target)


def test_the_sources_are_known():
    """Of neuralforecast 3.3."""
    (own,) = changed_sources.package_sources_known("neuralforecast")
    assert {each.state for each in own.targets} == {"known"}


@pytest.mark.slow
def test_a_block_of_other_periods():
    """The series of each run has the periods that its frequencies say."""
    from neuralforecast.models.timesnet import TimesBlock

    def series(batch: int, *frequencies: float) -> tuple[torch.Tensor]:
        time = torch.arange(24.0)[None, :, None] * 2 * torch.pi / 24
        waves = [torch.sin(time * each + each) / (number + 1) for number, each in enumerate(frequencies)]
        return (torch.stack(waves).sum(0) * (1 + torch.rand(batch, 1, 4)),)

    block = TimesBlock(18, 6, 2, 4, 3, 2).eval()
    others = [series(1, 1, 5), series(2, 7, 3), series(4, 12, 2)]
    shapes = ({0: "batch"},)
    assert_matches(block, *series(3, 4, 6), others=others, dynamic_shapes=shapes, rtol=1e-4, atol=1e-5)
