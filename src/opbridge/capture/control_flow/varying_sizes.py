"""Sizes that are constants in one execution path and depend on data in another, where both are at the same decision.

    if boxes.numel() == 0:
        return torch.empty((0,), dtype=torch.int64)
    return nms(boxes, scores, threshold)

The paths merge after the return, but only one of them evaluates a branch on the size, such as `if len(kept) > 0`: for
the constant, Python knows the answer. The lines that create such tensors are found, so that the model can be executed
again with their sizes read from data, as in the other paths; see `opbridge.capture.tracer.sizes_of_data`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import torch
from torch.fx import Node

from opbridge.base.sources import Source
from opbridge.capture.control_flow.execution_path import shape_of
from opbridge.capture.control_flow.merge_points import MergePoint
from opbridge.capture.tracer.sizes_of_data import constant_sizes
from opbridge.graph.node_sources import sources_of

__all__ = ["varying_sizes"]


def varying_sizes(points: Iterable[MergePoint]) -> set[tuple[Source, int]]:
    """The lines that create tensors with a constant size where other paths have one that depends on data.

    Args:
        points: The decisions, with the paths that came to them.

    Returns:
        Each line with the constant.
    """
    found: set[tuple[Source, int]] = set()
    for point in points:
        held = [path.decisions[number].args[0] for path, number in point.passes]
        if len({len(each) for each in held}) == 1:
            for nodes in zip(*held, strict=True):
                found.update(_of_value(nodes))
    return found


def _of_value(nodes: Sequence[Node]) -> Iterator[tuple[Source, int]]:
    """Those of one variable, which holds these nodes in several paths."""
    shapes = [shape_of(node) for node in nodes]
    if len({len(shape) for shape in shapes}) != 1:
        return
    for dim in range(len(shapes[0])):
        sizes = [shape[dim] for shape in shapes]
        if any(isinstance(size, torch.SymInt) for size in sizes):
            for node, size in zip(nodes, sizes, strict=True):
                if type(size) is int:
                    yield from ((source, size) for source in _makers(node, size))


def _makers(node: Node, size: int) -> Iterator[Source]:
    """The lines of the operators that a constant size comes from: no input of theirs has it."""
    seen: set[Node] = set()
    waiting = [node]
    while waiting:
        each = waiting.pop()
        if each in seen:
            continue
        seen.add(each)
        given = [other for other in each.all_input_nodes if size in constant_sizes(shape_of(other))]
        waiting += given
        if not given and each.op == "call_function":
            yield from sources_of(each)[:1]
