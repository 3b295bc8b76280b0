"""The lists and tuples that the loops of one execution may fill: what each iteration appends to them."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable
from dataclasses import replace
from types import FrameType
from typing import Any

import torch

from opbridge.base.torch_private.torch_branch_operators import CARRIED
from opbridge.capture.tracer.append_only_lists import AppendOnlyList, Iterations, Variable, held_in
from opbridge.capture.tracer.gathered_lists import is_number, rows_of_piece
from opbridge.capture.tracer.list_rows import NotedRows
from opbridge.capture.tracer.loop_summaries import ListSummary, LoopSummary
from opbridge.capture.tracer.symbolic_list import is_list

__all__ = ["FollowedLists"]


class FollowedLists:
    """The lists and tuples that the loops of one execution may fill.

    Args:
        learned: What earlier executions have shown; this one adds to it.

    Attributes:
        learned: As given.
        carried: Numbers that are read from tensors which a loop carries, each with its tensor, by their identity.
        forms: The sequences that lists have become since a loop has filled them, each with its list, by identity.
        rows: The rows that lists hold, and those that were made of what loops have appended.
        has_learned: Whether this execution has shown what it needs to know from its begin.
        lacks_elements: Whether a list was empty that some iterations append to, before an execution has shown what.
    """

    def __init__(self, learned: LoopSummary) -> None:
        self.learned = learned
        self._found: dict[int, AppendOnlyList] = {}
        self._named: list[AppendOnlyList] = []
        self.carried: dict[int, tuple[Any, torch.Tensor]] = {}
        self.forms: dict[int, tuple[Any, Any]] = {}
        self.rows = NotedRows()
        self.has_learned = self.lacks_elements = False

    def growing(self, held: Any) -> AppendOnlyList | None:
        """What is known of a list or tuple that may grow; None for any other."""
        found = self._found.get(id(held))
        if found is not None and found.held is held:
            return found
        for each in self._named:
            if each.is_in_variable():
                self._found[id(each.held)] = each
        found = self._found.get(id(held))
        return found if found is not None and found.held is held else None

    def add_copy(self, of: AppendOnlyList, copy: Any) -> None:
        """Notes that a list or tuple is a copy of a list as it has grown so far."""
        self._found[id(copy)] = replace(of, held=copy, variable=None)

    def add(self, held: list[Any], loop: Iterations, summary: ListSummary) -> None:
        """Looks from now on at what the iterations of a loop append to a list that no variable of the model holds."""
        self._found[id(held)] = AppendOnlyList.of(held, loop, summary, None)

    def begin(
        self, loop: Iterations, frames: Iterable[FrameType], place: Hashable, running: Collection[Iterations]
    ) -> None:
        """Looks from now on at what the iterations of a loop append to lists and tuples.

        Args:
            loop: The loop.
            frames: Whose variables hold them.
            place: Which loop it is, in any execution.
            running: The loops that run.
        """
        for number, frame in enumerate(frames):
            for name, held in held_in(frame):
                known = self.growing(held) if len(held) or is_list(held) else None
                is_outer = known is not None and known.loop in running
                if known is not None and is_outer and known.loop is not loop:
                    around = known.innermost(running)
                    if is_list(held) and loop.is_counted and around.loop is not loop:
                        new = self._of(held, loop, (place, number, name), Variable(frame, name))
                        around.inner = replace(around.inner, last=new)
                elif known is None or (not is_outer and not known.has_grown):
                    new = self._of(held, loop, (place, number, name), Variable(frame, name))
                    self._named.append(new)
                    if len(held) or is_list(held):  # there is one empty tuple
                        self._found[id(held)] = new

    def _of(self, held: Any, loop: Iterations, place: Hashable, variable: Variable) -> AppendOnlyList:
        found = AppendOnlyList.of(held, loop, self.learned.of_list(place), variable)
        self._note_held(found.beginning)
        return found

    def follow(self, loop: Iterations) -> None:
        """Looks at what an iteration of a loop has appended."""
        for outermost in self._known():
            for each in list(outermost.levels()):
                if each.loop is loop:
                    pieces = each.follow()
                    self._note_held(pieces)
                    if each.is_kept and len({isinstance(item, torch.Tensor) for item in each.items}) > 1:
                        self._note_nested(each)
                    if each.is_kept and each.summary.is_nested:
                        self._note_rows(each, pieces)
                    if each is outermost:
                        self._found[id(each.held)] = each

    def end(self, loop: Iterations) -> None:
        """Notes that a loop has had its last iteration."""
        for each in self._known():
            for outer in each.levels():
                inner = outer.inner.last
                if inner is not None and inner.loop is loop and inner.nests:
                    outer.inner.segments.append((inner.first, len(inner.held), inner))
                    self._note_nested(outer)

    def note_prepended(self, held: Any, running: Collection[Iterations]) -> None:
        """Notes that an iteration of one of the loops that run inserts an element before the others of a list."""
        found = self.growing(held)
        for each in () if found is None else found.levels():
            if each.loop in running and not each.summary.is_prepended:
                each.summary.is_prepended = self.has_learned = True

    def carry_last(self, loop: Iterations) -> None:
        """Has the last elements of lists be read from tensors, where they are numbers to which a loop appends more."""
        for outermost in self._known():
            levels = list(outermost.levels())
            for depth, each in enumerate(levels):
                if each.loop is not loop or not each.nests or not each.is_kept or not is_list(each.held):
                    continue
                if outermost.shown and is_number(number := each.known[-1]):
                    tensor = CARRIED(number, False)
                    read = tensor.item()
                    self.carried[id(read)] = read, tensor
                    each.replace_last(read, levels[: depth + 1])

    def _known(self) -> list[AppendOnlyList]:
        return list({id(each): each for each in (*self._found.values(), *self._named)}.values())

    def _note_held(self, elements: Iterable[Any]) -> None:
        for each in elements:
            if not isinstance(each, AppendOnlyList):
                self.rows.note(each)

    def _note_nested(self, growing: AppendOnlyList) -> None:
        """Notes that what iterations append is looked at as tensors, as it is not one kind of elements alone."""
        if not growing.summary.is_nested:
            growing.summary.is_nested = self.has_learned = True

    def _note_rows(self, growing: AppendOnlyList, pieces: Iterable[Any]) -> None:
        """Notes what an iteration has appended as tensors, where loops within it have appended some."""
        for piece in pieces:
            rows = rows_of_piece(piece, self)
            if rows is None:
                growing.is_kept = False
                return
            growing.inner.rows.append(rows)
        growing.ends[-1] = len(growing.inner.rows)
