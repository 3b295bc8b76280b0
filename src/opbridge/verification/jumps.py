"""Operators whose results jump where their inputs change by a rounding: comparisons, casts of floats to integers, and
suppression of boxes.

A score next to a threshold is above it in one computation and below it in the other, and so is an overlap of two boxes;
a coordinate next to an integer is cast to this one or to the one before it.
The runtime's result of such an operator is right where PyTorch's operator gives the same for the runtime's own inputs,
and these agree with PyTorch's within the tolerance.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch.fx import Node

from opbridge.graph.operators import functional_operator_of
from opbridge.verification.compare import compare
from opbridge.verification.graph_run import GraphRun

__all__ = ["jumps", "result_for_inputs_of"]

_JUMPING = frozenset({"aten::gt", "aten::ge", "aten::lt", "aten::le", "torchvision::nms"})
_CASTS = frozenset({"aten::_to_copy", "aten::to"})


def jumps(node: Node) -> bool:
    """Whether a node compares floats, casts them to integers, or suppresses boxes."""
    name = functional_operator_of(node).partition(".")[0]
    if name not in _JUMPING and (name not in _CASTS or _is_of_floats(node)):
        return False
    return any(map(_is_of_floats, node.all_input_nodes))


def _is_of_floats(node: Node) -> bool:
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and value.is_floating_point()


def result_for_inputs_of(node: Node, result: Any, run: GraphRun, actual: Mapping[str, torch.Tensor]) -> Any:
    """The runtime's result of a node, where PyTorch's operator gives it for the runtime's inputs.

    Args:
        node: A node of which `jumps` holds.
        result: PyTorch's result.
        run: The computation in PyTorch; nothing of it is changed.
        actual: The runtime's values, by the name of the node.

    Returns:
        None where the runtime's result is PyTorch's, or another one.

    Raises:
        Unusable: PyTorch cannot compute the node for the runtime's inputs.
    """
    other = actual.get(node.name)
    if other is None or not isinstance(result, torch.Tensor) or _are_equal(result, other):
        return None
    given = {each: actual[each.name] for each in node.all_input_nodes if each.name in actual}
    own = {each: run.values[each] for each in given}
    if not given or not all(compare("", own[each], value).ok for each, value in given.items()):
        return None
    run.values.update(given)
    try:
        return other if _are_equal(run.compute(node), other) else None
    finally:
        run.values.update(own)


def _are_equal(one: torch.Tensor, other: torch.Tensor) -> bool:
    return one.dtype == other.dtype and torch.equal(one, other)
