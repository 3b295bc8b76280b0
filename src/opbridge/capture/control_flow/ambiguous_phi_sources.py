"""Variables of Python's that hold the same value in all runs which gave some answer, and differ in other runs.

What is done after the answer takes a value, and does not show which of the variables it takes it from.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from torch.fx import Node
from torch.utils import _pytree as pytree

from opbridge.capture.control_flow.execution_path import ExecutionPath, is_number

__all__ = ["ambiguous_phi_sources", "held"]


def held(path: ExecutionPath, number: int) -> list[Any]:
    """What Python's variables hold at a decision of a path."""
    tensors, numbers, *_ = path.decisions[number].args
    return [*tensors, *numbers]


def ambiguous_phi_sources(
    through: Sequence[tuple[ExecutionPath, int]], passes: Sequence[tuple[ExecutionPath, int]]
) -> tuple[ExecutionPath, int] | None:
    """A pass of a decision in which variables differ that cannot be told apart after one of its answers.

    Args:
        through: The paths that gave the answer, each with the number of the segment after it.
        passes: The paths that came to the decision, each with its number.

    Returns:
        None where there is no such pass.
    """
    before = [held(*each) for each in passes]
    if len({len(each) for each in before}) != 1:
        return None
    taken = [list(_taken(path, number)) for path, number in through]
    if len({len(each) for each in taken}) != 1:
        return None
    at = [held(path, number - 1) for path, number in through]
    for uses in zip(*taken, strict=True):
        first = [index for index, value in enumerate(at[0]) if value is uses[0]]
        same = [i for i in first if all(values[i] is use for values, use in zip(at, uses, strict=True))]
        for index in same[1:]:
            for each, values in zip(passes, before, strict=True):
                if values[index] is not values[same[0]]:
                    return each
    return None


def _taken(path: ExecutionPath, number: int) -> Iterator[Node]:
    """The values that a segment takes, in order, with those that what comes after it holds."""
    for node in path.segments[number]:
        yield from _tensors(node)
    if number < len(path.decisions):
        decision = path.decisions[number]
        yield from (each for part in (*held(path, number), decision.args[2]) for each in _tensor_of(part))
    else:
        yield from _tensors(path.graph.graph.output_node())


def _tensors(node: Node) -> Iterator[Node]:
    for each in pytree.tree_leaves((node.args, node.kwargs)):
        yield from _tensor_of(each)


def _tensor_of(value: Any) -> Iterator[Node]:
    """A value, or, where it is a number, the tensors that it is computed from."""
    if isinstance(value, Node):
        if value.op == "call_function" and is_number(value):
            yield from _tensors(value)
        else:
            yield value
