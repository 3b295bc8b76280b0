"""The runs that differ by what no caller gave: why, and the notes on them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import torch

from opbridge.base.wording import listed
from opbridge.verification.causes import Mismatch
from opbridge.verification.exercised_branches import ExercisedBranches
from opbridge.verification.invented import Example, Invention
from opbridge.verification.report import Run

__all__ = ["Inventions"]

_MOST_SEARCHED = 2
"""For how many of them the first operator that differs is searched for."""

_MOST_BRANCHES = 2


@dataclass(frozen=True)
class _Found:
    """A run that differs by an invention."""

    invention: Invention
    run: Run
    branches: list[str]
    mismatch: Mismatch

    @property
    def wrong(self) -> dict[int, torch.Tensor]:
        """PyTorch's values of the outputs that differ, by position."""
        expected = enumerate(self.mismatch.expected)
        return {at: value for at, value in expected if not self.run.comparisons[at].ok}


class Inventions:
    """The inventions by which runs differ, each with the first of these runs.

    Attributes:
        example: The example inputs, by which others are judged.
    """

    def __init__(self, example: Example, branches: ExercisedBranches) -> None:
        """Args:
        example: The example inputs, by which others are judged.
        branches: The branches that runs take.
        """
        self.example, self._branches = example, branches
        self._found: dict[str, _Found] = {}
        self._counts: dict[str, int] = {}

    def add(self, invention: Invention, run: Run, mismatch: Mismatch) -> None:
        """Adds an invention.

        Args:
            invention: What no caller gave.
            run: The run that differs by it.
            mismatch: Its inputs, and PyTorch's outputs; none where the runtime raises, or their number differs.
        """
        what = invention.what
        self._counts[what] = self._counts.get(what, 0) + 1
        if what not in self._found:
            self._branches.note(run.label, mismatch.args, mismatch.kwargs)
            branches = self._branches.taken_only_by(run.label)
            self._found[what] = _Found(invention, run, branches, mismatch)

    def is_mask(self, what: str) -> bool:
        """Whether an invention is a mask."""
        return what in self._found and self._found[what].invention.is_mask

    def has_several(self, what: str) -> bool:
        """Whether several runs differ by an invention."""
        return self._counts.get(what, 0) > 1

    def notes(self, place: Callable[[Mismatch, Mapping[int, torch.Tensor]], str]) -> Iterator[str]:
        """A note on each: the value, what it was tried for, what differs and where, and the remedy.

        Args:
            place: Finds the first operator that differs on inputs, with its line; "" where there is none.
        """
        for number, found in enumerate(self._found.values()):
            run, branches = found.run, listed(found.branches, _MOST_BRANCHES)
            tried = f", tried to reach the branch where {branches}" if branches else ""
            if run.failure is not None:
                how = f"the runtime raises: {run.failure}"
            else:
                wrong = next(each for each in run.comparisons if not each.ok)
                how = f"output '{wrong.name}': {wrong.brief()}"
                if number < _MOST_SEARCHED and found.wrong and (at := place(found.mismatch, found.wrong)):
                    how = f"{how}, first at {at}"
                elif line := self._branches.line_of_input(found.invention.position):
                    how = f"{how}; the model takes it at {line}"
            yield (
                f"the file differs from PyTorch where {found.invention.what}, which no input given has ({run.label}"
                f"{tried}): {how.rstrip('.')}. {found.invention.remedy.rstrip('.')}"
            )
