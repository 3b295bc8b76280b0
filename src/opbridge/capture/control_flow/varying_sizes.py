"""Sizes that are constants in one execution path and depend on data in another, where both are at the same decision.

    if boxes.numel() == 0:
        return torch.empty((0,), dtype=torch.int64)
    return nms(boxes, scores, threshold)

What the model does with the result does not tell the paths apart, but a question about its size is one in one path
only: `if len(kept) > 0` is decided for the constant. The operators that make such sizes are found, so that a further
exploration has their sizes read from data, as all other paths have; see `opbridge.capture.tracer.sizes_of_data`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
from torch.fx import Node

from opbridge.base.sources import Source
from opbridge.capture.control_flow.merge_points import MergePoint
from opbridge.graph.node_sources import sources_of

__all__ = ["varying_sizes"]


def varying_sizes(points: Iterable[MergePoint]) -> set[tuple[Source, int]]:
    """The lines that make tensors of a constant size which is one that depends on data in other paths, and these sizes.

    Args:
        points: The decisions, with the paths that came to them.
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
    shapes = [_shape(node) for node in nodes]
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
        given = [other for other in each.all_input_nodes if size in _constants(_shape(other))]
        waiting += given
        if not given and each.op == "call_function":
            yield from sources_of(each)[:1]


def _constants(shape: Sequence[Any]) -> list[int]:
    return [size for size in shape if type(size) is int]


def _shape(node: Node) -> Sequence[Any]:
    value = node.meta.get("val")
    return value.shape if isinstance(value, torch.Tensor) else ()
