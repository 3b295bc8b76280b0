"""The runs that differ by what no caller gave: why, and the notes on them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

from opbridge.base.wording import listed
from opbridge.verification.causes import Mismatch
from opbridge.verification.invented import Example, Invention, Results
from opbridge.verification.report import Run
from opbridge.verification.sides import Sides

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
    wrong: dict[int, torch.Tensor]


class Inventions:
    """The inventions by which runs differ, each with the first of these runs.

    Attributes:
        example: The example inputs, by which others are judged.
    """

    def __init__(self, example: Example, sides: Sides) -> None:
        """Args:
        example: The example inputs, by which others are judged.
        sides: The branches that runs take.
        """
        self.example, self._sides = example, sides
        self._found: dict[str, _Found] = {}
        self._counts: dict[str, int] = {}

    def explain(
        self, run: Run, args: tuple[Any, ...], kwargs: dict[str, Any], results: Results | None
    ) -> Invention | None:
        """What no caller gave and makes a run differ; None where it differs on ordinary inputs.

        Args:
            run: The run.
            args: Its positional inputs.
            kwargs: Its keyword inputs.
            results: What differs; None where the runtime raises, or PyTorch gives another number of outputs.
        """
        invention = self.example.invented(pytree.tree_leaves((args, kwargs)), results)
        if invention is None:
            return None
        what = invention.what
        self._counts[what] = self._counts.get(what, 0) + 1
        if what not in self._found:
            self._sides.note(run.label, args, kwargs)
            expected = list(results.expected) if results is not None else []
            wrong = {at: value for at, value in enumerate(expected) if not run.comparisons[at].ok}
            branches = self._sides.taken_only_by(run.label)
            self._found[what] = _Found(invention, run, branches, Mismatch(-1, args, kwargs, expected), wrong)
        return invention

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
                elif line := self._sides.line_of_input(found.invention.position):
                    how = f"{how}; the model takes it at {line}"
            yield (
                f"the file differs from PyTorch where {found.invention.what}, which no input given has ({run.label}"
                f"{tried}): {how.rstrip('.')}. {found.invention.remedy.rstrip('.')}"
            )
