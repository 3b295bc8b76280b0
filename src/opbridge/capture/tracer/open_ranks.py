"""Squeezes of dimensions whose size may be 1 in one run and another in the next, so that the rank is a run's too.

1. The result has, while the model is captured, the rank that the example gives it.
2. The model may return it as it is: the ONNX graph then leaves dimensions out by the sizes of the run.
3. Whatever else the model does with it needs the rank. Then the question is asked whether the size is 1, as torch asks
   it at every squeeze; the answer holds for the example, and becomes a condition of the capture.

Where that is so because of a branch for a size of 1, what the graph says of the tensor's shape is what holds in all
branches, and does not tell what a squeeze leaves out. The dimension is left out as its first element is picked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx import Node

from opbridge.base.torch_private import torch_sizes

__all__ = ["OpenRanks", "open_sizes", "squeeze_by_example", "squeeze_known_ones"]

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
            _pick_ones(node)


def _pick_ones(node: Node) -> None:
    """Makes a squeeze pick the first element of dimensions that have a size of 1 in the example."""
    given: Any = node.args[0]
    x = given.meta["val"]
    asked = _axes((x, *node.args[1:]))
    found = [axis for axis in asked if isinstance(x.shape[axis], torch.SymInt)]
    calls = _picking(asked, [axis for axis in found if torch_sizes.is_one_in_example(x.shape[axis])])
    with node.graph.inserting_before(node):
        for target, rest in calls[:-1]:
            x = target(x, *rest)
            given = node.graph.call_function(target, (given, *rest))
            given.meta.update(node.meta, val=x)
    if calls:
        node.target, rest = calls[-1]
        node.args = (given, *rest)


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


def squeeze_known_ones(record: Callable[..., Any], function: Any, args: Sequence[Any]) -> torch.Tensor | None:
    """What a squeeze gives, with the first element in the place of dimensions that are 1 where the capture is.

    Args:
        record: Records an operator.
        function: The operator.
        args: Its positional arguments.

    Returns:
        None for an operator that is no squeeze, or of which no such size is known.
    """
    if function not in _SQUEEZES:
        return None
    found = args[0]
    asked = _axes(args)
    calls = _picking(asked, [axis for axis in asked if torch_sizes.is_known_as_one(found.shape[axis])])
    for target, rest in calls:
        found = record(target, (found, *rest), {})
    return found if calls else None


def _picking(asked: Sequence[int], ones: Sequence[int]) -> list[tuple[Any, tuple[Any, ...]]]:
    """The operators that leave out the same as a squeeze, with their further arguments; none for no dimension.

    Args:
        asked: The dimensions that the squeeze leaves out where they have a size of 1.
        ones: Those of them of which the first element is picked.
    """
    if not ones:
        return []
    left = [axis - sum(one < axis for one in ones) for axis in asked if axis not in ones]
    return [(_aten.select.int, (axis, 0)) for axis in reversed(ones)] + [(_aten.squeeze.dims, (left,))] * bool(left)


def _axes(args: Sequence[Any]) -> list[int]:
    rank = args[0].dim()
    if len(args) < 2:
        return list(range(rank))
    dims = args[1] if isinstance(args[1], (list, tuple)) else [args[1]]
    return sorted({dim % rank for dim in dims}) if rank else []
