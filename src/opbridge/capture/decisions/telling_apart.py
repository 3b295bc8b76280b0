"""Variables of Python's that hold the same value in all runs which gave some answer, and differ in other runs.

What is done after the answer takes a value, and does not show which of the variables it takes it from.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from torch.fx import Node
from torch.utils import _pytree as pytree

from opbridge.capture.decisions.way import Way, is_number

__all__ = ["differing_pass", "held"]


def held(way: Way, number: int) -> list[Any]:
    """What Python's variables hold at a decision of a way."""
    tensors, numbers, *_ = way.decisions[number].args
    return [*tensors, *numbers]


def differing_pass(through: Sequence[tuple[Way, int]], passes: Sequence[tuple[Way, int]]) -> tuple[Way, int] | None:
    """A pass of a decision in which variables differ that cannot be told apart after one of its answers.

    Args:
        through: The ways that gave the answer, each with the number of the segment after it.
        passes: The ways that came to the decision, each with its number.

    Returns:
        None where there is no such pass.
    """
    before = [held(*each) for each in passes]
    if len({len(each) for each in before}) != 1:
        return None
    taken = [list(_taken(way, number)) for way, number in through]
    if len({len(each) for each in taken}) != 1:
        return None
    at = [held(way, number - 1) for way, number in through]
    for uses in zip(*taken, strict=True):
        first = [index for index, value in enumerate(at[0]) if value is uses[0]]
        same = [i for i in first if all(values[i] is use for values, use in zip(at, uses, strict=True))]
        for index in same[1:]:
            for each, values in zip(passes, before, strict=True):
                if values[index] is not values[same[0]]:
                    return each
    return None


def _taken(way: Way, number: int) -> Iterator[Node]:
    """The values that a segment takes, in order, with those that what comes after it holds."""
    for node in way.segments[number]:
        yield from _tensors(node)
    if number < len(way.decisions):
        decision = way.decisions[number]
        yield from (each for part in (*held(way, number), decision.args[2]) for each in _tensor_of(part))
    else:
        yield from _tensors(way.graph.graph.output_node())


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
