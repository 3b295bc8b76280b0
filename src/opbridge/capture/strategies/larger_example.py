"""A capture of a larger example than the one that was given, in the place of a capture of that."""

from __future__ import annotations

import dataclasses

from opbridge.capture import fixed_sizes
from opbridge.capture.captured import Captured
from opbridge.capture.comparing_captures import differs_on_example
from opbridge.capture.strategies.strategy import Progress, demands_of

__all__ = ["as_of_example"]


def as_of_example(progress: Progress, found: Captured) -> Captured | None:
    """The capture of a larger example as one of the example; None where it is not valid, or not correct, for that.

    Args:
        progress: What has been tried.
        found: The capture, whose assumptions hold the example.
    """
    example = progress.first.shapes
    if fixed_sizes.leaves_out_example(demands_of(progress.session, found), example.axes):
        return None
    if differs_on_example(progress.session, found):
        return None
    return dataclasses.replace(found, assumptions=dataclasses.replace(found.assumptions, shapes=example, example=None))
