"""Runs of a captured graph on values, with the sub-graphs of its decisions and loops."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from torch.fx import GraphModule, Interpreter, Node

from opbridge.base.wording import counted
from opbridge.graph.operators import operator_of

__all__ = ["Running", "goes_on", "is_control_flow", "run_control_flow", "run_subgraph"]


class Running(Interpreter):
    """Runs a graph, and with it the sub-graphs of `cond` and `while_loop`.

    torch's own `while_loop` takes no condition that stands in a tuple, as the one of a captured graph does.

    Args:
        module: The graph.
        note: Is told the node of each decision, and the truth of its condition: whether a loop has an iteration.
        most_iterations: The most iterations that a loop may have; None: any number.
    """

    def __init__(
        self, module: GraphModule, note: Callable[[Node, bool], None] | None = None, most_iterations: int | None = None
    ) -> None:
        super().__init__(module)
        self.extra_traceback = False  # which would be added to what an error says
        self._note, self._most_iterations = note, most_iterations

    def run_node(self, n: Node) -> Any:
        if n.op == "call_function" and is_control_flow(n):
            args, _ = self.fetch_args_kwargs_from_env(n)
            return run_control_flow(n, args, self._note, self._most_iterations)
        return super().run_node(n)


def is_control_flow(node: Node) -> bool:
    """Whether a node is a decision or a loop that holds graphs."""
    return operator_of(node) in _RUNS


def run_control_flow(
    node: Node,
    args: Sequence[Any],
    note: Callable[[Node, bool], None] | None = None,
    most_iterations: int | None = None,
) -> Any:
    """What a decision or a loop gives.

    Args:
        node: Its node.
        args: The values of its arguments, among them its graphs.
        note: See `Running`.
        most_iterations: See `Running`.
    """
    return _RUNS[str(operator_of(node))](node, args, note, most_iterations)


def run_subgraph(
    body: Any,
    operands: Sequence[Any],
    note: Callable[[Node, bool], None] | None = None,
    most_iterations: int | None = None,
) -> Any:
    """What a graph that a node holds gives.

    Args:
        body: The graph, or a function.
        operands: The values of its placeholders.
        note: See `Running`.
        most_iterations: See `Running`.
    """
    return Running(body, note, most_iterations).run(*operands) if isinstance(body, GraphModule) else body(*operands)


def goes_on(
    condition: Any,
    operands: Sequence[Any],
    note: Callable[[Node, bool], None] | None = None,
    most_iterations: int | None = None,
) -> bool:
    """Whether a loop has a further iteration; the arguments are those of `run_subgraph`."""
    value = run_subgraph(condition, operands, note, most_iterations)
    return bool(value[0] if isinstance(value, (tuple, list)) else value)


def _branch(node: Node, args: Sequence[Any], note: Any, most_iterations: int | None) -> Any:
    condition, if_true, if_false, operands = args
    answer = bool(condition)
    if note is not None:
        note(node, answer)
    return run_subgraph(if_true if answer else if_false, operands, note, most_iterations)


def _repeat(node: Node, args: Sequence[Any], note: Any, most_iterations: int | None) -> Any:
    condition, body, carried, given = args
    carried = tuple(carried)
    for iteration in itertools.count():
        is_going = goes_on(condition, (*carried, *given), note, most_iterations)
        if iteration == 0 and note is not None:
            note(node, is_going)
        if not is_going:
            return carried
        if iteration == most_iterations:
            raise RuntimeError(f"a loop has more than {counted(iteration, 'iteration')}")
        carried = tuple(run_subgraph(body, (*carried, *given), note, most_iterations))


_RUNS = {"higher_order::cond": _branch, "higher_order::while_loop": _repeat}
