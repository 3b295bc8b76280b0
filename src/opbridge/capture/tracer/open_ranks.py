"""Squeezes of dimensions whose size may be 1 in one run and another in the next, so that the rank is a run's too.

1. The result has, while the model is captured, the rank that the example gives it.
2. The model may return it as it is: the ONNX graph then leaves dimensions out by the sizes of the run.
3. Whatever else the model does with it needs the rank. Then the question is asked whether the size is 1, as torch asks
   it at every squeeze; the answer holds for the example, and becomes a condition of the capture.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import Node

from opbridge.base.torch_private import torch_sizes

__all__ = ["OpenRanks", "open_sizes", "squeeze_by_example"]

_aten = torch.ops.aten
_SQUEEZES = frozenset({_aten.squeeze.default, _aten.squeeze.dim, _aten.squeeze.dims})


class OpenRanks:
    """The nodes of a graph whose rank is open, and the sizes that it depends on."""

    def __init__(self) -> None:
        self._sizes: dict[Node, list[Any]] = {}

    def __bool__(self) -> bool:
        return bool(self._sizes)

    def add(self, node: Node, sizes: list[Any]) -> None:
        """Leaves the rank of a squeeze open."""
        self._sizes[node] = sizes
        node.meta["open_rank"] = True

    def settle(self, node: Node) -> None:
        """Asks for the rank of a node, if it is open."""
        sizes = self._sizes.pop(node, None)
        if sizes is not None:
            del node.meta["open_rank"]
            torch_sizes.ask_whether_one(sizes)


def open_sizes(function: Any, args: Sequence[Any]) -> list[Any]:
    """The sizes that decide the rank of what an operator gives, and that may be 1 or not.

    Args:
        function: The operator.
        args: Its positional arguments, without values.

    Returns:
        None of them for an operator that is no squeeze, one whose rank is known, and complex numbers.
    """
    if function not in _SQUEEZES or args[0].is_complex():
        return []
    x = args[0]
    return [x.shape[axis] for axis in _axes(args) if torch_sizes.may_be_one(x.shape[axis])]


def squeeze_by_example(x: torch.Tensor, dims: Any = None) -> torch.Tensor:
    """A squeeze of a tensor without values that leaves dimensions out by their sizes in the example.

    Nothing is asked about symbols.

    Args:
        x: The tensor.
        dims: The dimension, or several; all by default.
    """
    left_out = {
        axis for axis in _axes((x,) if dims is None else (x, dims)) if torch_sizes.is_one_in_example(x.shape[axis])
    }
    kept = [axis for axis in range(x.dim()) if axis not in left_out]
    sizes, strides = [x.shape[axis] for axis in kept], [x.stride(axis) for axis in kept]
    return x.as_strided(sizes, strides, x.storage_offset())


def _axes(args: Sequence[Any]) -> list[int]:
    rank = args[0].dim()
    if len(args) < 2:
        return list(range(rank))
    dims = args[1] if isinstance(args[1], (list, tuple)) else [args[1]]
    return sorted({dim % rank for dim in dims}) if rank else []
