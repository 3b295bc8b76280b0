"""What opbridge knows of torchaudio: each replacement gives what the function gives, and models of it are captured."""

from __future__ import annotations

import importlib.util

import pytest
import torch
from helpers.matching import assert_matches

from opbridge.model_support import changed_sources, comparison
from opbridge.model_support.torchaudio.support import SUPPORT

pytestmark = pytest.mark.skipif(importlib.util.find_spec("torchaudio") is None, reason="torchaudio is not installed")


@pytest.mark.parametrize(("entry", "target"), [(entry, each) for entry in SUPPORT.entries for each in entry.targets])
def test_a_replacement_gives_what_the_function_gives(entry, target):
    assert not comparison.differences(entry, target)


def test_the_sources_are_known():
    """Of torchaudio 2.11."""
    (own,) = changed_sources.package_sources_known("torchaudio")
    assert {each.state for each in own.targets} == {"known"}


def _frames(batch: int, length: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Frames, with two that follow after the end, and lengths of which the first is the greatest."""
    return torch.randn(batch, length + 2, 8), torch.tensor([length - each for each in range(batch)])


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{}, {"left_context_length": 3}, {"left_context_length": 3, "max_memory_size": 2}])
def test_an_emformer_of_any_number_of_segments(settings):
    from torchaudio.models import Emformer

    model = Emformer(8, 2, 16, 2, segment_length=4, right_context_length=2, **settings).eval()
    others = [_frames(1, 3), _frames(2, 8), _frames(4, 37)]
    shapes = ({0: "batch", 1: "frames"}, {0: "batch"})
    assert_matches(model, *_frames(3, 16), others=others, dynamic_shapes=shapes, rtol=1e-3, atol=1e-4)


class Phaser(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        import torchaudio.functional

        return torchaudio.functional.phaser(x, 8000)


@pytest.mark.slow
def test_a_phaser_of_any_number_of_samples():
    others = [(torch.rand(2, length) * 2 - 1,) for length in (1, 24, 25, 2000)]
    shapes = ({1: "time"},)
    assert_matches(Phaser(), torch.rand(2, 300), others=others, dynamic_shapes=shapes, rtol=1e-4, atol=1e-5)
