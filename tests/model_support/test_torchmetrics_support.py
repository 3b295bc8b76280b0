"""What opbridge knows of torchmetrics: replacements give what the functions give, and models of it are captured."""

from __future__ import annotations

import importlib.util

import pytest
import torch
from helpers.matching import assert_matches

from opbridge.model_support import changed_sources, comparison
from opbridge.model_support.torchmetrics.support import SUPPORT

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("torchmetrics") is None, reason="torchmetrics is not installed"
)


@pytest.mark.parametrize(("entry", "target"), [(entry, each) for entry in SUPPORT.entries for each in entry.targets])
def test_a_replacement_gives_what_the_function_gives(entry, target):
    assert not comparison.differences(entry, target)


def test_the_sources_are_known():
    """Of torchmetrics 1.9."""
    (own,) = changed_sources.package_sources_known("torchmetrics")
    assert {each.state for each in own.targets} == {"known"}


class Recall(torch.nn.Module):
    """The recall at a precision: the function that is replaced is the default of an argument."""

    def forward(self, scores: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor, ...]:
        from torchmetrics.functional.classification import binary_recall_at_fixed_precision

        found: tuple[torch.Tensor, ...] = binary_recall_at_fixed_precision(scores, labels, 0.7, validate_args=False)
        return found


@pytest.mark.slow
def test_the_recall_of_any_number_of_scores():
    others = [(torch.rand(count), torch.randint(0, 2, (count,))) for count in (3, 9, 30)]
    others.append((torch.tensor([0.9, 0.8]), torch.tensor([0, 0])))
    shapes = ({0: "count"}, {0: "count"})
    assert_matches(
        Recall(), torch.rand(12), torch.randint(0, 2, (12,)), others=others, dynamic_shapes=shapes, rtol=1e-5, atol=1e-6
    )
