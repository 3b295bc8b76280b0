"""The branches of a model's decisions that inputs take, as the captured graph tells them."""

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
from opbridge.verification.report import BranchReport

if TYPE_CHECKING:
    from opbridge.capture import Capture

__all__ = ["BranchAnswer", "ExercisedBranches"]

_MOST_ITERATIONS = 100
"""Inputs for which a loop has more are not searched for: it may have no end for them."""

BranchAnswer = tuple[int, bool]
"""The number of a decision, and an answer."""


class ExercisedBranches:
    """Which runs took which branch of which decision.

    Args:
        capture: What the file was made from; None where that is not known.
        seed: The seed for torch's generators.
    """

    def __init__(self, capture: Capture | None, seed: int) -> None:
        self._capture, self._seed = capture, seed
        self._decisions = [each for each in capture.decisions if each.is_in_file] if capture is not None else []
        self._runs: dict[str, frozenset[BranchAnswer]] = {}

    @property
    def untaken(self) -> set[BranchAnswer]:
        """The branches that no run has taken so far."""
        known = {(each.number, answer) for each in self._decisions for answer in (True, False)}
        return known.difference(*self._runs.values())

    def note(self, label: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Notes which branches a run takes."""
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
        """The branches that one run takes and no other, in words."""
        others = frozenset[BranchAnswer]().union(*(taken for name, taken in self._runs.items() if name != label))
        found = self._runs.get(label, frozenset()) - others
        return [
            f"{each.place} `{each.condition}` is {answer}"
            for each in self._decisions
            for answer in (True, False)
            if (each.number, answer) in found
        ]

    def found_by(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
        """Whether inputs take a branch that no run has taken, and the model gives finite numbers for them."""
        taken, results = self._followed(args, kwargs, _MOST_ITERATIONS)
        return (
            results is not None
            and bool(self.untaken & taken)
            and all(
                bool(each.isfinite().all()) for each in pytree.tree_leaves(results) if isinstance(each, torch.Tensor)
            )
        )

    def of(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> frozenset[BranchAnswer]:
        """The branches that inputs take; those before an operator raises, where one does."""
        return self._followed(args, kwargs)[0]

    def _followed(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any], most_iterations: int | None = None
    ) -> tuple[frozenset[BranchAnswer], Any]:
        """The branches that inputs take, and what the graph gives; None where it does not come to its end."""
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
        taken: set[BranchAnswer] = set()

        def note(node: Node, answer: bool) -> None:
            asked = decision_of(node)
            if asked is not None:
                # The other branch of a loop is that it has no iteration.
                taken.add((asked.number, answer == asked.stays if _is_loop(node) else answer))

        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(self._seed)
            try:
                results = Running(graph.module, note, most_iterations).run(*given)
            except Exception:  # an operator raises for these values, or a loop does not end
                results = None
        return frozenset(taken), results

    def reports(self, labels: Collection[str]) -> tuple[BranchReport, ...]:
        """Every branch, with the runs that took it.

        Args:
            labels: The runs that count.
        """
        return tuple(
            BranchReport(
                each.place,
                each.condition,
                branch.answer,
                branch.operators,
                tuple(
                    label
                    for label, taken in self._runs.items()
                    if label in labels and (each.number, branch.answer) in taken
                ),
            )
            for each in self._decisions
            for branch in each.branches
        )


def _is_loop(node: Node) -> bool:
    return operator_of(node) == "higher_order::while_loop"
