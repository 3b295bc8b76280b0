"""Operators that round: the runtime's value where it is right for inputs that differ by a tolerance.

They are monotone, and the runtime's value lies between those that PyTorch gives for inputs that are smaller and larger
by the tolerance. With a scale larger than that, this is one step at most, and only beside a tie.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Node

from opbridge.graph.operators import functional_operator_of
from opbridge.verification import exchange
from opbridge.verification.compare import compare

__all__ = ["Rounded", "quantizes", "rounded", "rounds"]

_ROUNDING = re.compile(
    r"aten::(round|floor|ceil|trunc|fix)(\.\w+)?$|aten::(_?fake_quantize|fused_moving_avg_obs_fake_quant)\w*(\.\w+)?$"
    r"|(quantized_decomposed|torchao)::(quantize|fake_quant)\w*(\.\w+)?$"
)

_SLACK = 1e-6
"""The relative difference of two results of the same step, which a dequantisation multiplies by the scale."""


@dataclass(frozen=True)
class Rounded:
    """The runtime's value of an operator that rounds.

    Attributes:
        result: The node's result with it.
        count: How many elements differ from PyTorch's.
        total: How many there are.
        step: What they differ by: one step of a "quantization", or of a "rounding".
    """

    result: Any
    count: int
    total: int
    step: str


def rounds(node: Node) -> bool:
    """Whether a node rounds, or quantises."""
    return node.op == "call_function" and _ROUNDING.match(functional_operator_of(node)) is not None


def quantizes(node: Node) -> bool:
    """Whether a node quantises, and rounds so."""
    return rounds(node) and "quant" in functional_operator_of(node)


def rounded(
    node: Node,
    result: Any,
    values: Mapping[Node, Any],
    actual: Mapping[str, torch.Tensor],
    around: torch.Tensor,
) -> Rounded | None:
    """The runtime's value of a node, where it differs from PyTorch's and is right.

    Args:
        node: A node that rounds.
        result: What PyTorch gives for it.
        values: The values of the nodes before it. The first argument is what is rounded.
        actual: The runtime's values, by the names of the nodes.
        around: What the elements of the first argument may differ by.
    """
    source = values[node.args[0]]
    own = result[0] if isinstance(result, (tuple, list)) else result
    other = actual.get(f"{node.name}:0", actual.get(node.name))
    if other is not None and isinstance(own, torch.Tensor):
        other = exchange.quantized_as(own, other)
    is_comparable = isinstance(own, torch.Tensor) and other is not None and source.is_floating_point()
    if not is_comparable or own.shape != other.shape or own.dtype != other.dtype or compare("", own, other).ok:
        return None
    bounds = []
    for shifted in (source - around, source + around):
        args, kwargs = torch.fx.node.map_arg((node.args[1:], node.kwargs), lambda argument: values[argument])
        bound = node.target(shifted.to(source.dtype), *args, **kwargs)
        bounds.append(_wide(bound[0] if isinstance(bound, (tuple, list)) else bound))
    low, high = torch.minimum(bounds[0], bounds[1]), torch.maximum(bounds[0], bounds[1])
    slack = _SLACK * torch.maximum(low.abs(), high.abs()) if own.is_floating_point() else 0
    wide = _wide(other)
    is_right = (wide >= low - slack) & (wide <= high + slack)
    is_apart = (wide - _wide(own)).abs() > (slack if own.is_floating_point() else 0)
    if not bool((is_right | ~is_apart).all()):
        return None
    mixed = torch.where(is_apart, other, own)
    whole = (mixed, *result[1:]) if isinstance(result, (tuple, list)) else mixed
    step = "quantization" if quantizes(node) else "rounding"
    return Rounded(whole, int(is_apart.sum()), own.numel(), step)


def _wide(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.double() if tensor.is_floating_point() else tensor.to(torch.int64)
