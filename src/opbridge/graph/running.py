"""Runs of a captured graph on values, with the sub-graphs of its decisions and loops."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from torch.fx import GraphModule, Interpreter, Node

from opbridge.graph.operators import operator_of

__all__ = ["Running"]


class Running(Interpreter):
    """Runs a graph, and with it the sub-graphs of `cond` and `while_loop`.

    torch's own `while_loop` takes no condition that stands in a tuple, as the one of a captured graph does.

    Args:
        module: The graph.
        note: Is told the node of each decision, and the truth of its condition: for a loop, whether it has a turn.
        most_turns: The most turns that a loop may have; None: any number.
    """

    def __init__(
        self, module: GraphModule, note: Callable[[Node, bool], None] | None = None, most_turns: int | None = None
    ) -> None:
        super().__init__(module)
        self._note, self._most_turns = note, most_turns

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
        if self._note is not None:
            self._note(node, answer)
        return self._run(if_true if answer else if_false, operands)

    def _repeat(self, node: Node) -> Any:
        args, _ = self.fetch_args_kwargs_from_env(node)
        condition, body, carried, given = args
        carried = tuple(carried)
        for turn in itertools.count():
            goes_on = bool(_only(self._run(condition, (*carried, *given))))
            if turn == 0 and self._note is not None:
                self._note(node, goes_on)
            if not goes_on:
                return carried
            if turn == self._most_turns:
                raise RuntimeError(f"a loop has more than {turn} turns")
            carried = tuple(self._run(body, (*carried, *given)))

    def _run(self, body: Any, operands: Sequence[Any]) -> Any:
        if isinstance(body, GraphModule):
            return Running(body, self._note, self._most_turns).run(*operands)
        return body(*operands)


def _only(value: Any) -> Any:
    return value[0] if isinstance(value, (tuple, list)) else value
