"""How large results in a model are at sizes that nobody gave: a mask of n by n may need more memory than there is."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import torch
from torch.utils import _pytree as pytree

from opbridge.base.size_expressions import evaluate

if TYPE_CHECKING:
    from opbridge.capture import Capture

__all__ = ["are_results_small"]

_ELEMENTS, _TIMES = 1 << 25, 16
"""Results of more elements than this, and than several times the largest one of the example, are too large."""


def are_results_small(capture: Capture, sizes: Mapping[str, int], example: Mapping[str, int]) -> bool:
    """Whether the results of a captured graph have few enough elements at some sizes for a run of the model.

    Args:
        capture: The capture.
        sizes: The size of each symbol.
        example: Those of the example.
    """
    shapes = set(_shapes(capture.graph.module))
    largest = max((_elements(each, sizes) for each in shapes), default=0)
    return largest <= _ELEMENTS or largest <= _TIMES * max(_elements(each, example) for each in shapes)


def _shapes(module: torch.nn.Module) -> Iterator[tuple[str, ...]]:
    """The sizes of the results of all nodes, as expressions."""
    for each in module.modules():
        for node in each.graph.nodes if isinstance(each, torch.fx.GraphModule) else ():
            values = pytree.tree_leaves(node.meta.get("val"))
            yield from (tuple(map(str, value.shape)) for value in values if isinstance(value, torch.Tensor))


def _elements(shape: tuple[str, ...], sizes: Mapping[str, int]) -> int:
    return math.prod(_size(each, sizes) for each in shape)


def _size(expression: str, sizes: Mapping[str, int]) -> int:
    try:
        return evaluate(expression, sizes)
    except (ValueError, ArithmeticError):  # only data decide it
        return 1
