"""Operators that take elements from places, and put them there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx_ir as ir

from opbridge.onnx.downgrade.call import Call, changed
from opbridge.onnx.scatter_loops import can_reduce, reduced_elements, reduced_slices

if TYPE_CHECKING:
    from opbridge.onnx.tensor import Tensor


@changed(11, "Gather")
def _gather_11(call: Call) -> Sequence[Tensor]:
    """Axis and indices may be counted from the back since opset 11.

    Indices computed at run time are left as they are: ONNX Runtime counts them from the back in every opset.
    """
    axis = call.attributes.get("axis", 0)
    axis = axis if axis >= 0 else axis + call.rank(call.data)
    indices: Any = call.known(1)
    if indices is None or (indices >= 0).all():
        return call.older(call.data, call.input(1), axis=axis)
    size = call.size(call.data, axis)
    if isinstance(size, int):
        indices = np.where(indices < 0, indices + size, indices).astype(indices.dtype)
    else:
        counted = call.emit("Mul", size, (indices < 0).astype(np.int64))
        indices = call.emit("Add", indices.astype(np.int64), counted)
    return call.older(call.data, indices, axis=axis)


def _from_front(call: Call, indices: Tensor, size: int | Tensor) -> Tensor:
    """Indices, counted from the front."""
    indices = call.emit("Cast", indices, to=ir.DataType.INT64)
    return call.emit("Where", call.emit("Less", indices, 0), call.emit("Add", indices, size), indices)


@changed(11, "GatherElements")
def _gather_elements_11(call: Call) -> Sequence[Tensor]:
    """GatherElements came with opset 11: Gather from all elements in a row, at each index's place in that row."""
    data, indices = call.inputs
    assert data is not None and indices is not None
    rank = call.rank(data)
    axis = call.attributes.get("axis", 0) % rank
    sizes = [call.size(data, each) for each in range(rank)]
    places: Any = _from_front(call, indices, sizes[axis])
    places = call.emit("Mul", places, call.product(sizes[axis + 1 :]))
    for each in range(rank):
        if each != axis:
            along = call.emit("Range", 0, call.size(indices, each), 1)
            along = call.emit("Mul", along, call.product(sizes[each + 1 :]))
            places = call.emit("Add", places, call.emit("Unsqueeze", along, list(range(1, rank - each))))
    return (call.emit("Gather", call.emit("Reshape", data, [-1]), places),)


@changed(11, "GatherND")
def _gather_nd_11(call: Call) -> Sequence[Tensor]:
    """GatherND came with opset 11: Gather from the first dimensions in a row."""
    data, indices = call.inputs
    assert data is not None and indices is not None
    last = call.rank(indices) - 1
    count = call.size(indices, last)
    if not isinstance(count, int):
        call.refuse("with a dynamic number of coordinates")
    sizes = [call.size(data, each) for each in range(call.rank(data))]
    places: Any = None
    for axis in range(count):
        own = call.emit("Gather", indices, axis, axis=last)
        own = call.emit("Mul", _from_front(call, own, sizes[axis]), call.product(sizes[axis + 1 : count]))
        places = own if places is None else call.emit("Add", places, own)
    rows = call.emit("Reshape", data, [-1, *sizes[count:]])
    return (call.emit("Gather", rows, places),)


# Scattering


@changed(18, "ScatterElements", "ScatterND")
def _scatter_18(call: Call) -> Sequence[Tensor]:
    """The largest and the smallest came with opset 18."""
    reduction = call.attributes.get("reduction", "none")
    return _in_turns(call, reduction) if reduction in ("max", "min") else call.unchanged()


@changed(16, "ScatterElements", "ScatterND")
def _scatter_16(call: Call) -> Sequence[Tensor]:
    """The sum and the product came with opset 16."""
    attributes = dict(call.attributes)
    reduction = attributes.pop("reduction", "none")
    return call.older(*call.inputs, **attributes) if reduction == "none" else _in_turns(call, reduction)


def _in_turns(call: Call, reduction: str) -> Sequence[Tensor]:
    """A Loop over the updates."""
    data, places, updates = call.inputs
    assert data is not None and places is not None
    dtype = data.dtype
    if dtype is None or not can_reduce(dtype, reduction):
        call.refuse(f"with the reduction '{reduction}'{f' of {dtype.name}' if dtype is not None else ''}")
    settings: Any = {"reduction": reduction, "dtype": dtype}
    if call.name == "ScatterND":
        result = reduced_slices(call, data, places, updates, rank=call.rank(places), **settings)
    else:
        axis = call.attributes.get("axis", 0)
        sizes = call.sizes(places)
        count = None if sizes is None else sizes[axis]
        result = reduced_elements(call, data, places, updates, axis=axis, count=count, **settings)
    return (result,)


@changed(11, "ScatterElements")
def _scatter_elements_11(call: Call) -> Sequence[Tensor]:
    """ScatterElements was called Scatter before opset 11."""
    axis = call.attributes.get("axis", 0)
    axis = axis if axis >= 0 else axis % call.rank(call.data)
    return call.builder.call("Scatter", call.inputs, {"axis": axis}, version=10)
