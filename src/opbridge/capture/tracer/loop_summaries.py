"""What the executions of a model have shown of its loops and of the lists that these fill."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from types import CodeType
from typing import Any

import torch

from opbridge.base.sources import Source
from opbridge.capture.tracer.list_rows import RowKind

__all__ = ["NO_CONSTANT", "Identities", "ListSummary", "LoopSummary"]

NO_CONSTANT: Any = object()
"""What stands for no constant, as None is one."""

Kind = tuple[torch.dtype, list[int]]
"""The dtype and the sizes of a tensor."""


@dataclass
class Identities:
    """Which identities matter to what a model does: by these, its paths are told apart.

    Attributes:
        shares: Whether it may matter which tensors share values, as a run has written to one in place.
        compares_objects: Whether the model's code asks whether two values are the same object.
    """

    shares: bool = False
    compares_objects: bool = False


@dataclass(eq=False)
class ListSummary:
    """What executions have shown of a list to which iterations append.

    Attributes:
        place: Which list of which loop it is, in any execution.
        growth: How many elements an iteration appends; None while that is not known, and where it varies.
        varies: Whether iterations append other numbers of elements.
        kind: The dtype and the sizes of an element, where the sizes are known.
        kind_of_rows: The same of what the loops within an iteration have appended.
        differs_in: The dimension in which its elements differ.
        is_assumed: Whether that is assumed, as it has held a single element.
        is_compared: Whether it has held several tensors.
        is_nested: Whether loops within iterations append to it, or iterations both tensors and numbers.
        holds_numbers: Whether it has held integers.
        is_prepended: Whether iterations insert elements before its others.
        row_kind: The kind of the rows that it has held.
        changes_rows: Whether iterations change rows that they go over.
        constant: What it has held, where that is the same constant in all iterations and executions.
        differs_in_constants: Whether it has held several constants.
    """

    place: Hashable
    growth: int | None = None
    varies: bool = False
    kind: Kind | None = None
    kind_of_rows: Kind | None = None
    differs_in: int | None = None
    is_assumed: bool = False
    is_compared: bool = False
    is_nested: bool = False
    holds_numbers: bool = False
    is_prepended: bool = False
    row_kind: RowKind | None = None
    changes_rows: bool = False
    constant: Any = NO_CONSTANT
    differs_in_constants: bool = False


@dataclass
class LoopSummary:
    """What the executions of a model have shown of its loops, so that the next ones know it from the begin.

    Attributes:
        lists: The lists to which iterations append, by their places.
        numbers: The variables of a function that hold another number in each iteration of a loop; for a number in an
            object or a dict, the variable with the name of the number.
        asked_again: The loops that no sequence counts, by the place of their first decision: in which of the frames
            there they run, and their first and last instruction.
        first_answer: What a decision is answered that no run has come to yet.
        carries_numbers: Whether such variables and such loops are looked for.
        identities: Which identities matter; all captures of a model share it.
        tells_more: Whether paths join only where the layouts of tensors are the same, and which of them share values.
        sizes_of_data: The lines that make tensors of a constant size which is read from data; see `sizes_of_data`.
        ranges: The loops over ranges of a known length that ask before each iteration, by their functions and first
            instructions: such a loop has decided more often than one run may.
        knows_constants: Whether a number is known in a loop that is read from what depends on weights alone. Which
            tensor that is may differ in each iteration.
        has_known_constants: Whether there was one.
        asked: The decisions that earlier runs have asked for, which are ones also in runs that know their answers; see
            `control_flow.known_answers`.
        has_empty_tensor: Whether a tensor has been made of an empty list, without a dtype that is given.
    """

    lists: dict[Hashable, ListSummary] = field(default_factory=dict)
    numbers: dict[CodeType, set[Hashable]] = field(default_factory=dict)
    asked_again: dict[Hashable, tuple[int, int, int]] = field(default_factory=dict)
    first_answer: bool = False
    carries_numbers: bool = True
    identities: Identities = field(default_factory=Identities)
    tells_more: bool = False
    sizes_of_data: frozenset[tuple[Source, int]] = frozenset()
    ranges: set[tuple[CodeType, int]] = field(default_factory=set)
    knows_constants: bool = True
    has_known_constants: bool = False
    asked: frozenset[Hashable] = frozenset()
    has_empty_tensor: bool = False

    def of_list(self, place: Hashable) -> ListSummary:
        """What is known of a list, by its place."""
        return self.lists.setdefault(place, ListSummary(place))

    def grown(self) -> frozenset[Hashable]:
        """The places of the lists to which each iteration appends as many elements."""
        return frozenset(place for place, each in self.lists.items() if each.growth)

    def differing(self) -> dict[Hashable, int]:
        """The dimensions in which the elements of lists differ, by the places of these."""
        return {place: each.differs_in for place, each in self.lists.items() if each.differs_in is not None}

    def told_apart(self) -> tuple[int, int, int, int, int, int, bool, bool]:
        """What changes how paths are told apart: how lists are filled, and whether it counts which tensors are one."""
        lists = self.lists.values()
        return (
            sum(each.varies for each in lists),
            sum(each.is_nested for each in lists),
            sum(each.holds_numbers for each in lists),
            sum(each.row_kind is not None for each in lists),
            sum(each.changes_rows for each in lists),
            sum(each.differs_in_constants for each in lists),
            self.identities.shares,
            self.identities.compares_objects,
        )
