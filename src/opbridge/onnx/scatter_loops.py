"""Scatters with a reduction where ScatterElements and ScatterND have none: a Loop over the updates.

Each turn takes updates no two of which go to one place: those of one position along the axis, or one slice. It reads
what is there, combines the two, and writes the result back. So elements are combined in the order of the updates, as
PyTorch and ONNX Runtime do.

1. Without updates, the loop has no turn.
2. Updates of a single position need no loop.
3. Truth values are combined by Or and And; integers that are narrower than 64 bits, or unsigned, as int64, whose sums
   and products wrap around to the same bits.
4. Floats keep their type, and so the rounding of each step. bfloat16, which Loop does not take before opset 16, is
   carried as float32 and rounded after each step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import onnx_ir as ir

__all__ = ["Emitter", "can_reduce", "reduced_elements", "reduced_slices"]

_Dtype = ir.DataType
_FLOATS = frozenset({_Dtype.FLOAT, _Dtype.DOUBLE, _Dtype.FLOAT16, _Dtype.BFLOAT16})
_AS_INT64 = frozenset({_Dtype.INT8, _Dtype.INT16, _Dtype.UINT8, _Dtype.UINT16, _Dtype.UINT32, _Dtype.UINT64})
_TYPES = _FLOATS | _AS_INT64 | {_Dtype.INT32, _Dtype.INT64, _Dtype.BOOL}
_OF_TRUTH = {"add": "Or", "max": "Or", "mul": "And", "min": "And"}
_OPERATORS = {"add": "Add", "mul": "Mul", "max": "Max", "min": "Min"}
_SMALLEST = -(1 << 63)


class Emitter(Protocol):
    """What builds the nodes."""

    def emit(self, op_type: str, /, *inputs: Any, **attributes: Any) -> Any:
        """A standard operator with one output, in a form that opsets 11 to 17 share; a list is an int64 tensor."""

    def loop(self, count: Any, value: Any, turn: Callable[[Any, Any], Any], /) -> Any:
        """A value that has passed through a number of turns.

        Args:
            count: The number of turns, an int or a scalar.
            value: The value, which keeps its type and shape.
            turn: Builds one turn, from its number, a scalar, and the value.
        """


def can_reduce(dtype: ir.DataType | None, reduction: str) -> bool:
    """Whether there is such a form for elements of a type."""
    return dtype in _TYPES and reduction in _OPERATORS


def reduced_elements(
    to: Emitter,
    data: Any,
    index: Any,
    updates: Any,
    *,
    axis: int,
    count: int | None,
    reduction: str,
    dtype: ir.DataType,
) -> Any:
    """ScatterElements with a reduction.

    Args:
        to: Builds the nodes.
        data: The elements, of any shape of one or more dimensions.
        index: The place of each update along the axis, of the shape of the updates.
        updates: The updates.
        axis: The axis.
        count: The size of the index along the axis; None where only the run knows it.
        reduction: "add", "mul", "max" or "min".
        dtype: The type of the elements, for which `can_reduce`.
    """

    def once(data: Any, index: Any, updates: Any) -> Any:
        there = to.emit("GatherElements", data, index, axis=axis)
        return to.emit("ScatterElements", data, index, _combined(to, there, updates, reduction, dtype), axis=axis)

    def turn(number: Any, data: Any) -> Any:
        place = to.emit("Reshape", number, [1])
        return once(data, *(to.emit("Gather", each, place, axis=axis) for each in (index, updates)))

    data, updates = (_widened(to, each, reduction, dtype) for each in (data, updates))
    if count == 1:
        result = once(data, index, updates)
    else:
        turns = to.emit("Gather", to.emit("Shape", index), axis, axis=0) if count is None else count
        result = to.loop(turns, data, turn)
    return _narrowed(to, result, reduction, dtype)


def reduced_slices(
    to: Emitter, data: Any, indices: Any, updates: Any, *, rank: int, reduction: str, dtype: ir.DataType
) -> Any:
    """ScatterND with a reduction.

    Args:
        to: Builds the nodes.
        data: The elements.
        indices: The coordinates of each slice, along the last dimension.
        updates: The slices.
        rank: The number of dimensions of the indices.
        reduction: "add", "mul", "max" or "min".
        dtype: The type of the elements, for which `can_reduce`.
    """

    def once(data: Any, indices: Any, updates: Any) -> Any:
        there = to.emit("GatherND", data, indices)
        return to.emit("ScatterND", data, indices, _combined(to, there, updates, reduction, dtype))

    data, updates = (_widened(to, each, reduction, dtype) for each in (data, updates))
    if rank == 1:
        return _narrowed(to, once(data, indices, updates), reduction, dtype)
    shape = to.emit("Shape", indices)
    sizes = [to.emit("Gather", shape, [axis], axis=0) for axis in range(rank - 1)]
    strides = [sizes[-1]]  # of the dimensions before each, the last of which is all of them
    for size in reversed(sizes[:-1]):
        strides.insert(0, to.emit("Mul", size, strides[0]))
    total, *strides = strides

    def turn(number: Any, data: Any) -> Any:
        place = to.emit("Reshape", number, [1])
        if not strides:
            return once(data, *(to.emit("Gather", each, place, axis=0) for each in (indices, updates)))
        at = [to.emit("Div", place, each) for each in strides] + [place]
        at = [to.emit("Mod", each, size) for each, size in zip(at, sizes, strict=True)]
        place = to.emit("Reshape", to.emit("Concat", *at, axis=0), [1, rank - 1])
        return once(data, *(to.emit("GatherND", each, place) for each in (indices, updates)))

    result = to.loop(to.emit("Gather", total, 0, axis=0), data, turn)
    return _narrowed(to, result, reduction, dtype)


def _combined(to: Emitter, left: Any, right: Any, reduction: str, dtype: ir.DataType) -> Any:
    if dtype == _Dtype.BOOL:
        return to.emit(_OF_TRUTH[reduction], left, right)
    if dtype == _Dtype.BFLOAT16 and reduction in ("add", "mul"):
        rounded = to.emit("Cast", to.emit(_OPERATORS[reduction], left, right), to=int(_Dtype.BFLOAT16))
        return to.emit("Cast", rounded, to=int(_Dtype.FLOAT))
    if reduction in ("add", "mul") or dtype in _FLOATS:
        return to.emit(_OPERATORS[reduction], left, right)
    # Max and Min compare floats alone before opset 12.
    smaller = to.emit("Less", left, right) if reduction == "max" else to.emit("Less", right, left)
    return to.emit("Where", smaller, right, left)


def _widened(to: Emitter, value: Any, reduction: str, dtype: ir.DataType) -> Any:
    if dtype == _Dtype.BFLOAT16:
        return to.emit("Cast", value, to=int(_Dtype.FLOAT))
    if dtype not in _AS_INT64:
        return value
    wide = to.emit("Cast", value, to=int(_Dtype.INT64))
    return to.emit("Add", wide, _SMALLEST) if _is_shifted(reduction, dtype) else wide


def _narrowed(to: Emitter, value: Any, reduction: str, dtype: ir.DataType) -> Any:
    if dtype == _Dtype.BFLOAT16:
        return to.emit("Cast", value, to=int(dtype))
    if dtype not in _AS_INT64:
        return value
    wide = to.emit("Add", value, _SMALLEST) if _is_shifted(reduction, dtype) else value
    return to.emit("Cast", wide, to=int(dtype))


def _is_shifted(reduction: str, dtype: ir.DataType) -> bool:
    """Whether the order of unsigned numbers is that of int64 only after half of them is added, which wraps around."""
    return dtype == _Dtype.UINT64 and reduction in ("max", "min")
