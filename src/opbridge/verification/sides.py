"""The sides of a model's decisions that inputs take, as the captured graph tells them."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch.fx import GraphModule, Interpreter, Node
from torch.utils import _pytree as pytree

from opbridge.graph.decisions import decision_of
from opbridge.graph.operators import operator_of
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
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(self._seed)
            try:
                results = _Following(graph.module, taken, most_turns).run(*given)
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


class _Following(Interpreter):
    """Runs a graph, and notes the answer of each decision.

    Args:
        module: The graph.
        taken: Where the sides are noted.
        most_turns: The most turns that a loop may have; None: any number.
    """

    def __init__(self, module: GraphModule, taken: set[Side], most_turns: int | None) -> None:
        super().__init__(module)
        self._taken, self._most_turns = taken, most_turns

    def run_node(self, n: Node) -> Any:
        if n.op == "call_function":
            operator = operator_of(n)
            if operator == "higher_order::cond":
                return self._branch(n)
            if operator == "higher_order::while_loop":
                return self._repeat(n)
        return super().run_node(n)

    def _branch(self, node: Node) -> Any:
        args, _ = self.fetch_args_kwargs_from_env(node)
        condition, if_true, if_false, operands = args
        answer = bool(condition)
        self._note(node, answer)
        return self._run(if_true if answer else if_false, operands)

    def _repeat(self, node: Node) -> Any:
        args, _ = self.fetch_args_kwargs_from_env(node)
        condition, body, carried, given = args
        carried = tuple(carried)
        asked = decision_of(node)
        turns = bool(_only(self._run(condition, (*carried, *given))))
        self._note(node, turns == (asked is None or asked.stays))  # the other side of a loop is that it has no turn
        for _ in itertools.count() if self._most_turns is None else range(self._most_turns):
            if not bool(_only(self._run(condition, (*carried, *given)))):
                return carried
            carried = tuple(self._run(body, (*carried, *given)))
        raise RuntimeError(f"a loop has more than {self._most_turns} turns")

    def _note(self, node: Node, answer: bool) -> None:
        asked = decision_of(node)
        if asked is not None:
            self._taken.add((asked.number, answer))

    def _run(self, body: Any, operands: Sequence[Any]) -> Any:
        if isinstance(body, GraphModule):
            return _Following(body, self._taken, self._most_turns).run(*operands)
        return body(*operands)


def _only(value: Any) -> Any:
    return value[0] if isinstance(value, (tuple, list)) else value
