"""Operators that take elements from places, and put them there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from opbridge.conversion.step import Step, lower, raised
from opbridge.onnx.scatter_loops import can_reduce, reduced_elements, reduced_slices


@lower(11, "Gather", says="places are counted from the front")
def _gather_11(step: Step) -> None:
    axis = int(step.get("axis", 0))
    if axis < 0:
        axis += step.rank()
        step.set(axis=axis)
    places = step.constant(1)
    if places is None or (places >= 0).all():
        return
    size = step.size(step.data, axis)
    if not isinstance(size, int):
        counted: Any = step.emit("Add", step.number(places), step.emit("Mul", size, step.number(places < 0, np.int64)))
        if places.ndim == 0:
            counted = step.squeezed(counted, [0])
        step.put(step.data, counted)
        return
    step.put(step.data, step.number(np.where(places < 0, places + size, places).astype(places.dtype), places.dtype))


@lower(11, "GatherElements", says="composed of Gather")
def _gather_elements_11(step: Step) -> Sequence[ir.Value]:
    data, indices = step.data, step.input(1)
    assert indices is not None
    rank = step.rank()
    axis = int(step.get("axis", 0)) % rank
    sizes, of_indices = step.shape(data) or [], step.shape(indices) or []
    fixed = [each for each in sizes if isinstance(each, int)]
    of_fixed = [each for each in of_indices if isinstance(each, int)]
    if len(fixed) < rank or len(of_fixed) < rank:
        step.refuse("of dynamic sizes")
    whole = step.cast(indices, ir.DataType.INT64)
    places = step.emit("Where", step.emit("Less", whole, [0]), step.emit("Add", whole, [fixed[axis]]), whole)
    strides = [int(np.prod(fixed[each + 1 :], dtype=np.int64)) for each in range(rank)]
    places = step.emit("Mul", places, [strides[axis]])
    others = np.zeros(of_fixed, np.int64)
    for each in range(rank):
        if each != axis:
            others += np.arange(of_fixed[each]).reshape([-1] + [1] * (rank - each - 1)) * strides[each]
    places = step.emit("Add", places, step.number(others))
    return [step.emit("Gather", step.emit("Reshape", data, [-1]), places, axis=0)]


@lower(11, "ScatterElements", says="called Scatter")
def _scatter_elements_11(step: Step) -> Sequence[ir.Value]:
    axis = int(step.get("axis", 0))
    axis = axis + step.rank() if axis < 0 else axis
    found: ir.Value = step.emit("Scatter", *step.node.inputs, axis=axis)
    return [found]


@raised(11, "Scatter", says="called ScatterElements")
def _scatter_to_11(step: Step) -> Sequence[ir.Value]:
    found: ir.Value = step.emit("ScatterElements", *step.node.inputs, axis=step.get("axis"))
    return [found]


@lower(18, "ScatterElements", "ScatterND", says="composed of a Loop over the updates")
def _scatter_18(step: Step) -> Sequence[ir.Value] | None:
    return _in_turns(step) if step.get("reduction", "none") in ("max", "min") else None


@lower(16, "ScatterElements", "ScatterND", says="composed of a Loop over the updates")
def _scatter_16(step: Step) -> Sequence[ir.Value] | None:
    return None if step.get("reduction", "none") == "none" else _in_turns(step)


def _in_turns(step: Step) -> Sequence[ir.Value]:
    reduction, dtype = str(step.get("reduction")), step.dtype(step.data)
    places, updates = step.input(1), step.input(2)
    if not can_reduce(dtype, reduction):
        step.refuse(f"with reduction={reduction} of {dtype.name.lower()}")
    settings: Any = {"reduction": reduction, "dtype": dtype}
    if step.node.op_type == "ScatterND":
        return [reduced_slices(step, step.data, places, updates, rank=step.rank(places), **settings)]
    axis, sizes = int(step.get("axis", 0)), step.shape(places)
    size = None if sizes is None else sizes[axis]
    count = size if isinstance(size, int) else None
    return [reduced_elements(step, step.data, places, updates, axis=axis, count=count, **settings)]
