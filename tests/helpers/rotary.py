"""Rotary positions of batches of which some do not fit, compared with transformers' own."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest
import torch

from helpers.transformers_classes import of_module
from opbridge.model_support import applying

__all__ = ["Positions", "assert_same_or_refused", "known_class"]


def known_class(module: str, name: str) -> Any:
    """A class of a module of transformers' models, whose `get_rope_index` is one that opbridge knows.

    A test is skipped where the installed release has no such class, or has another function.
    """
    kind = of_module(f"models.{module}.modeling_{module}", name)
    if applying.replacement_of_method(kind, "get_rope_index") is None:
        pytest.skip(f"this transformers has another {name}.get_rope_index")
    return kind


class Positions(torch.nn.Module):
    """What a model computes before its layers.

    Args:
        model: The model, without weights.
    """

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.of = type(model).__new__(type(model))
        torch.nn.Module.__init__(self.of)
        vars(self.of).update({name: value for name, value in vars(model).items() if name not in vars(self.of)})

    def forward(self, **given: Any) -> Any:
        return self.of.get_rope_index(**given)


def assert_same_or_refused(batches: Iterable[Any], expected: Callable[[Any], Any], found: Callable[[Any], Any]) -> None:
    """Checks that what transformers refuses is an error, and that anything else gives the same, or, seldom, an error.

    Args:
        batches: Batches, many of which do not fit.
        expected: What transformers gives for one.
        found: What opbridge gives.
    """
    refused, kept, more = 0, 0, 0
    for given in batches:
        try:
            wanted = expected(given)
        except (Exception, StopIteration):  # what transformers raises has no common class
            with pytest.raises(IndexError):
                found(given)
            refused += 1
            continue
        try:
            computed = found(given)
        except IndexError:
            more += 1
            continue
        for one, other in zip(wanted, computed, strict=True):
            torch.testing.assert_close(other, one, rtol=0, atol=0)
        kept += 1
    assert refused > 50 and kept > 50 and more < 20
