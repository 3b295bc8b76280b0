"""The sides of a model's decisions that inputs take, as the captured graph tells them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch.fx import Node
from torch.utils import _pytree as pytree

from opbridge.graph.decisions import decision_of
from opbridge.graph.node_sources import sources_of
from opbridge.graph.operators import operator_of
from opbridge.graph.running import Running
from opbridge.verification.report import SideReport

if TYPE_CHECKING:
    from opbridge.capture import Capture

__all__ = ["Side", "Sides"]

_MOST_TURNS = 100
"""Inputs for which a loop has more are not searched for: it may have no end for them."""

Side = tuple[int, bool]
"""The number of a decision, and an answer."""


class Sides:
    """Which runs took which side of which decision.

    Args:
        capture: What the file was made from; None where that is not known.
        seed: The seed for torch's generators.
    """

    def __init__(self, capture: Capture | None, seed: int) -> None:
        self._capture, self._seed = capture, seed
        self._decisions = [each for each in capture.decisions if each.is_in_file] if capture is not None else []
        self._runs: dict[str, frozenset[Side]] = {}

    @property
    def untaken(self) -> set[Side]:
        """The sides that no run has taken so far."""
        known = {(each.number, answer) for each in self._decisions for answer in (True, False)}
        return known.difference(*self._runs.values())

    def note(self, label: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Notes which sides a run takes."""
        if self._decisions:
            self._runs[label] = self.of(args, kwargs)

    def forget(self, label: str) -> None:
        """Forgets a run that does not count."""
        self._runs.pop(label, None)

    def line_of_input(self, position: int) -> str:
        """The first line of the model's own that computes with an input; "" where none is known.

        Args:
            position: Which of the leaves of `(args, kwargs)` it is.
        """
        node = self._capture.graph.inputs[position].node if self._capture is not None else None
        lines = [source for user in (node.users if node is not None else ()) for source in sources_of(user)]
        own = [each for each in lines if not each.file.startswith("torch/")]
        return str((own or lines)[0]) if lines else ""

    def taken_only_by(self, label: str) -> list[str]:
        """The sides that one run takes and no other, in words."""
        others = frozenset[Side]().union(*(taken for name, taken in self._runs.items() if name != label))
        found = self._runs.get(label, frozenset()) - others
        return [
            f"{each.place} `{each.condition}` is {answer}"
            for each in self._decisions
            for answer in (True, False)
            if (each.number, answer) in found
        ]

    def found_by(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
        """Whether inputs take a side that no run has taken, and the model gives finite numbers for them."""
        taken, results = self._followed(args, kwargs, _MOST_TURNS)
        return (
            results is not None
            and bool(self.untaken & taken)
            and all(
                bool(each.isfinite().all()) for each in pytree.tree_leaves(results) if isinstance(each, torch.Tensor)
            )
        )

    def of(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> frozenset[Side]:
        """The sides that inputs take; those before an operator raises, where one does."""
        return self._followed(args, kwargs)[0]

    def _followed(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any], most_turns: int | None = None
    ) -> tuple[frozenset[Side], Any]:
        """The sides that inputs take, and what the graph gives; None where it does not come to its end."""
        assert self._capture is not None
        graph = self._capture.graph
        values = {
            node: weight.tensor if weight.kind == "parameter" else weight.tensor.clone()
            for node, weight in graph.weights.items()
        }
        leaves = pytree.tree_leaves((args, dict(kwargs)))
        for leaf, value in zip(graph.inputs, leaves, strict=True):
            if leaf.node is not None:
                values[leaf.node] = value.detach().clone() if isinstance(value, torch.Tensor) else value
        given = [values[node] for node in graph.graph.nodes if node.op == "placeholder"]
        taken: set[Side] = set()

        def note(node: Node, answer: bool) -> None:
            asked = decision_of(node)
            if asked is not None:
                # The other side of a loop is that it has no turn.
                taken.add((asked.number, answer == asked.stays if _is_loop(node) else answer))

        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(self._seed)
            try:
                results = Running(graph.module, note, most_turns).run(*given)
            except Exception:  # an operator raises for these values, or a loop does not end
                results = None
        return frozenset(taken), results

    def reports(self, labels: Collection[str]) -> tuple[SideReport, ...]:
        """Every side, with the runs that took it.

        Args:
            labels: The runs that count.
        """
        return tuple(
            SideReport(
                each.place,
                each.condition,
                side.answer,
                side.operators,
                tuple(
                    label
                    for label, taken in self._runs.items()
                    if label in labels and (each.number, side.answer) in taken
                ),
            )
            for each in self._decisions
            for side in each.sides
        )


def _is_loop(node: Node) -> bool:
    return operator_of(node) == "higher_order::while_loop"
