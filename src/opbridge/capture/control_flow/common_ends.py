"""Operators that several blocks end with, by which the blocks join."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Node

from opbridge.capture.control_flow.blocks import Block
from opbridge.capture.control_flow.gathering import ENDS, GATHERING
from opbridge.capture.control_flow.merge_points import Unjoined
from opbridge.capture.control_flow.unify_arguments import unify_arguments

__all__ = ["common_end", "likeness"]


def common_end(group: list[Block], apart: set[Node], *, with_shapes: bool) -> int:
    """How many operators at their end are the same in several blocks, and not known to differ."""
    ends = [reversed(block.nodes(each)) for block in group for each in block.passes]
    passes = [each for block in group for each in block.passes]
    count = 0
    for nodes in zip(*ends, strict=False):
        if len({likeness(node, with_shapes=with_shapes) for node in nodes}) != 1 or not apart.isdisjoint(nodes):
            break
        try:
            unify_arguments({each: (_compared(node), node.kwargs) for each, node in zip(passes, nodes, strict=True)})
        except Unjoined:
            break
        count += 1
    return count


def _compared(node: Node) -> tuple[Any, ...]:
    """The arguments of an operator, without the elements of a list: there are as many as a path has iterations."""
    return (*node.args[1:ENDS], *node.args[ENDS + 1 :]) if node.target in GATHERING else node.args


def likeness(node: Node, *, with_shapes: bool) -> Any:
    """What two operators have in common that may be one."""
    inputs = () if node.target in GATHERING else node.all_input_nodes
    values = [node.meta.get("val"), *(each.meta.get("val") for each in inputs)]
    kinds = [(value.dtype, value.dim()) for value in values if isinstance(value, torch.Tensor)]
    shapes = [str(tuple(value.shape)) for value in values if isinstance(value, torch.Tensor)] if with_shapes else ()
    return node.target, node.meta.get("module_path"), tuple(kinds), tuple(shapes)
