"""Lists and tuples that may grow in the turns of a loop."""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, Protocol

import torch

from opbridge.base.python_private.stacks import variables
from opbridge.base.torch_private import torch_sizes

__all__ = ["Growing", "Turns", "held_in", "sum_of_parts"]


class Turns(Protocol):
    """The turns of a loop.

    Attributes:
        frame: The frame that it runs in.
        offset: The instruction that begins a turn.
        outer: Another frame that goes over its turns.
        counter: The number of turns, as a tensor.
        growth: How many elements a turn appends to a list, by the place of the list.
        varying: The places of the lists to which turns append other numbers of elements.
        turn: How many turns it has had.
        number: Which loop of the run it is.
        is_over: Whether it has had its last turn.
        parts: For each turn, the sizes of the parts of tensors that it was given, each with the sum of all of them.
    """

    turn: int
    number: int
    offset: int
    parts: list[list[tuple[Any, Any]]]
    frame: FrameType

    @property
    def growth(self) -> dict[Hashable, int]: ...

    @property
    def varying(self) -> set[Hashable]: ...

    @property
    def is_over(self) -> bool: ...

    @property
    def outer(self) -> FrameType | None: ...

    @property
    def counter(self) -> torch.Tensor | None: ...

    def runs(self) -> bool:
        """Whether a turn of it runs."""

    def count(self) -> Any:
        """How many turns it has had, for any number of them."""


@dataclass(eq=False)
class Growing:
    """A list or a tuple that may grow in the turns of a loop.

    Attributes:
        held: The list, or a tuple that was made of it.
        loop: The loop.
        first: How many elements it had before the loop.
        each: How many elements a turn appends; None while that is not known.
        known: The elements at the last turn.
        place: Which list of which loop it is, in any run.
        is_kept: Whether turns do nothing else with it than appending elements.
        ends: How many elements turns had appended after each.
        frame: Where a variable holds it, the frame of that: `outs += (x,)` has the variable hold another tuple.
        name: The name of the variable.
    """

    held: list[Any] | tuple[Any, ...]
    loop: Turns
    first: int
    each: int | None = None
    known: list[Any] = field(default_factory=list)
    place: Hashable = None
    is_kept: bool = True
    frame: FrameType | None = None
    name: Hashable = None
    ends: list[int] = field(default_factory=list)
    _rows: tuple[int, torch.Tensor] | None = None

    @classmethod
    def of(
        cls, held: list[Any] | tuple[Any, ...], loop: Turns, place: Hashable, frame: FrameType, name: Hashable
    ) -> Growing:
        """What a loop begins with."""
        return cls(held, loop, len(held), known=list(held), place=place, frame=frame, name=name)

    def is_in_variable(self) -> bool:
        """Whether the variable holds another one, which begins with the elements at the last turn; takes that."""
        if self.frame is None or not self.is_kept:
            return False
        held: Any = variables(self.frame)
        now = held.get(self.name)
        if type(now) is not type(self.held) or now is self.held:
            return False
        if len(now) < len(self.known) or not all(map(operator.is_, now, self.known)):
            return False
        self.held = now
        return True

    def follow(self) -> None:
        """Looks at what a turn has done."""
        self.is_in_variable()
        count = len(self.held) - len(self.known)
        is_same = len(self.held) >= len(self.known) and all(map(operator.is_, self.held, self.known))
        self.is_kept = self.is_kept and is_same
        if self.is_kept and (self.loop.growth.get(self.place, count) != count or self.each not in (None, count)):
            self.loop.varying.add(self.place)
        if self.is_kept and not self.varies:
            self.loop.growth[self.place] = count
        else:
            self.loop.growth.pop(self.place, None)
        self.each = count
        self.known = list(self.held)
        self.ends.append(len(self.held) - self.first)

    def elements(self) -> list[Any]:
        """Its elements without those of turns that are over, where turns do nothing but append to it.

        Where there are some before the first turn, the last one of the turns that are over is among them.
        """
        held = list(self.held)
        if not self.is_kept:
            return held
        return [*held[: self.first], *(self.known[-1:] if self.first else ()), *held[len(self.known) :]]

    @property
    def has_grown(self) -> bool:
        """Whether turns have appended elements."""
        return self.is_kept and (bool(self.each) or self.varies)

    @property
    def varies(self) -> bool:
        """Whether turns append other numbers of elements."""
        return self.place in self.loop.varying

    @property
    def count(self) -> int:
        """How many elements a turn appends, as this run or an earlier one has shown; 0 where none has."""
        return self.loop.growth.get(self.place, 0) if self.each is None else self.each

    def rows(self, make: Callable[[], torch.Tensor]) -> torch.Tensor:
        """What turns have appended, as one tensor: the same one as long as no turn has appended more.

        Args:
            make: Makes it.
        """
        if self._rows is None or self._rows[0] != len(self.ends):
            self._rows = len(self.ends), make()
        return self._rows[1]

    def tensors(self) -> list[torch.Tensor]:
        """The elements that turns have appended."""
        return list(self.known[self.first :])


def sum_of_parts(growing: Growing, dim: int) -> Any:
    """The sum of the sizes of the elements in one dimension, where they are parts of a tensor; None: not known."""
    loop, count = growing.loop, growing.count
    elements = growing.tensors()
    if not loop.is_over or not elements or len(elements) != count * loop.turn:
        return None
    totals: list[Any] = []
    for index, each in enumerate(elements):
        parts = loop.parts[index // count]
        total = next((total for size, total in parts if torch_sizes.is_equal(size, each.shape[dim])), None)
        if total is None or (totals and not torch_sizes.is_equal(total, totals[0])):
            return None
        totals.append(total)
    return totals[0] * count


def held_in(frame: FrameType) -> Iterator[tuple[Hashable, list[Any] | tuple[Any, ...]]]:
    """The lists and tuples that the variables of a frame hold, each with what tells it from the others.

    Those are the names of variables; a list in another container has no name of its own.
    """
    for name, value in variables(frame).items():
        if type(value) in (list, tuple):
            yield name, value
        if type(value) is tuple:
            yield from (((name, place), each) for place, each in enumerate(value) if type(each) is list)
        elif type(value) is dict:
            yield from (((name, key), each) for key, each in value.items() if type(each) is list)
