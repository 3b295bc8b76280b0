"""What executions of the model give: a graph with what is known of it, or why there is none."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from torch.export import ExportedProgram

from opbridge.capture.assumptions import Assumptions
from opbridge.graph.captured_graph import CapturedGraph
from opbridge.graph.decisions import Decision

__all__ = ["Captured", "Failed", "OtherSizes", "Outcome", "SizesContradicted"]


@dataclass(frozen=True)
class OtherSizes:
    """What is known of a graph for sizes that its conditions leave out.

    Attributes:
        answered: The conditions whose other answer the graph is valid for as well.
        is_same: Whether a capture for the other answer of a condition is the same graph.
        is_padded: Whether the graph is valid for both answers to its conditions on remainders; see
            `size_branches.continued_padding`.
        is_right_for_one: Whether the graph, run for sizes of 1 that it leaves out, gave what the model gives wherever
            it was tried.
    """

    answered: frozenset[str] = frozenset()
    is_same: bool = False
    is_padded: bool = False
    is_right_for_one: bool = False


@dataclass(frozen=True, eq=False)
class Captured:
    """A graph of the model.

    Attributes:
        graph: The graph.
        rewrite: Gives the same graph without in-place operators, views of what is written to, and autocast.
        assumptions: What the execution assumed that gave it.
        program: What torch.export gave, where that was used.
        notes: What a person should know.
        with_one: The symbols that may be 1, whatever the model asks.
        draws: Whether the model drew random numbers of Python or NumPy.
        unrolls: Whether loops over dynamic sizes are unrolled in it, rather than branches.
        no_loop: Why a loop over a dynamic size cannot be one of the graph, where that was tried; it is unrolled then.
        raising: The branches after which the model raises an error for one answer; None where it decides nothing.
        other_sizes: What is known of it for sizes that its conditions leave out.
    """

    graph: CapturedGraph
    rewrite: Callable[[], CapturedGraph]
    assumptions: Assumptions
    program: ExportedProgram | None = None
    notes: tuple[str, ...] = ()
    with_one: frozenset[str] = frozenset()
    draws: bool = False
    unrolls: bool = True
    no_loop: str = ""
    raising: tuple[Decision, ...] | None = None
    other_sizes: OtherSizes = field(default_factory=OtherSizes)

    def noting(self, *notes: str) -> Captured:
        """The same with further notes."""
        return dataclasses.replace(self, notes=(*self.notes, *notes))


@dataclass(frozen=True, eq=False)
class Failed:
    """Why executions of the model gave no graph.

    Attributes:
        error: What the last of them raised.
        assumptions: What it assumed.
        notes: What was found out until then.
        of_paths: What stopped the capture of all paths of the model, where that was tried after it.
    """

    error: Exception
    assumptions: Assumptions
    notes: tuple[str, ...] = ()
    of_paths: Exception | None = None


Outcome = Captured | Failed


class SizesContradicted(Exception):
    """The model does not take all the sizes that it is to take.

    Attributes:
        conditions: What it needs of them, each with the line that causes it where that is known.
        unrolls: Whether the capture may have as many iterations of a loop as the example has; see
            `fixed_sizes.may_unroll_a_loop`.
        of_operators: The conditions that operators require.
    """

    def __init__(
        self, conditions: list[Any], *, unrolls: bool = False, of_operators: frozenset[str] = frozenset()
    ) -> None:
        super().__init__("Constraints violated: " + "; ".join(text for text, _ in conditions))
        self.conditions, self.unrolls, self.of_operators = conditions, unrolls, of_operators
