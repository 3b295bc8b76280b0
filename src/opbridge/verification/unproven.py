"""What the runs of a verification do not show: outputs without a number to compare, and outputs that are constant."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from typing import TYPE_CHECKING

import torch

from opbridge.base.wording import listed
from opbridge.verification.compare import has_finite_numbers

if TYPE_CHECKING:
    from opbridge.verification.report import Run

__all__ = ["constants", "gives_numbers", "uncompared", "without_numbers"]

_MOST_NAMED = 3


def without_numbers(runs: Sequence[Run], count: int) -> set[int]:
    """The positions of the outputs of which no run compared a number: they were empty, or NaN.

    Args:
        runs: The runs.
        count: How many outputs there are.
    """
    compared = [run.comparisons for run in runs if run.comparisons]
    return {
        position
        for position in range(count)
        if not any(each[position].has_numbers or each[position].reason is not None for each in compared)
    }


def gives_numbers(outputs: Sequence[torch.Tensor], wanted: Container[int]) -> bool:
    """Whether one of some outputs has numbers, all finite, and all other outputs have no others.

    Args:
        outputs: PyTorch's outputs.
        wanted: The positions of those that are to have numbers.
    """
    others = (each for at, each in enumerate(outputs) if at not in wanted)
    return any(has_finite_numbers(each) for at, each in enumerate(outputs) if at in wanted) and all(
        has_finite_numbers(each) or not each.numel() for each in others
    )


def uncompared(names: Sequence[str], *, is_searched: bool) -> Iterator[str]:
    """A note on outputs without a number in any run.

    Args:
        names: Their names.
        is_searched: Whether inputs for which they have some were looked for.
    """
    if names:
        said = listed([f"'{name}'" for name in names], _MOST_NAMED)
        looked = ", and no inputs were found that give numbers" if is_searched else ""
        yield f"nothing of {said} was compared{looked}; give such inputs in inputs="


def constants(values: Sequence[tuple[str, float | None]]) -> Iterator[str]:
    """Notes on outputs that were constant: a last layer with zero weights hides every difference before it.

    Args:
        values: The name of each output, and the value of all of its elements in all runs; None where there are several.
    """
    for name, value in values:
        if value is not None:
            yield (
                f"output '{name}' is {value:g} everywhere on all inputs, so the operators before it are hardly verified"
            )
