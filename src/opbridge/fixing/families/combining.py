"""Scatters with a reduction, each element combined with all updates at once where these are few enough."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx_ir as ir

from opbridge.conversion.step import Step
from opbridge.fixing.site import Site, repair
from opbridge.onnx.shapes import Sizes

_Dtype = ir.DataType

_MOST = 1 << 24
"""So many numbers stand in a table of elements and updates, at most (64 MB of float32). Above that, a Loop takes one
update after the other: 0.1 to 0.2 ms an iteration on a CPU, where the table takes 13 to 22 ns a number."""

_REDUCTIONS = {
    "add": ("Add", "ReduceSum"),
    "mul": ("Mul", "ReduceProd"),
    "max": ("Max", "ReduceMax"),
    "min": ("Min", "ReduceMin"),
}
_NARROW = (_Dtype.FLOAT16, _Dtype.BFLOAT16)
_TYPES = (_Dtype.FLOAT, _Dtype.DOUBLE, _Dtype.INT32, _Dtype.INT64, *_NARROW)


@repair("unsupported-form", "unsupported-attribute", operators=["ScatterElements", "ScatterND"])
def at_once(site: Site) -> str:
    """The updates that go to each element are chosen by comparison, and reduced.

    1. The sizes are known, and the table of all elements and updates has at most 2**24 numbers.
    2. Updates that do not go to an element count as the number that changes nothing, so that inf and nan stay where
       they belong. (A product with ones and zeros would spread them.)
    3. float16 and bfloat16 are combined in float32, and rounded once.
    """
    step = site.step()
    reduction, dtype = str(step.get("reduction", "none")), step.dtype(step.data)
    indices, updates = step.input(1), step.input(2)
    if reduction not in _REDUCTIONS or dtype not in _TYPES or indices is None or updates is None:
        return ""
    sizes, places = _fixed(step.shape(step.data)), _fixed(step.shape(indices))
    if sizes is None or not sizes or places is None or not places:
        return ""
    if 0 in places:
        site.put(step, step.emit("Identity", step.data))
        return f"left out {site.node.op_type} of no updates"
    wide = _Dtype.FLOAT if dtype in _NARROW else dtype
    data, given = step.cast(step.data, wide), step.cast(updates, wide)
    if site.node.op_type == "ScatterND":
        made = _of_slices(step, (data, sizes), (indices, places), given, reduction)
    else:
        made = _along_an_axis(step, (data, sizes), (indices, places), given, reduction)
    if made is None:
        return ""
    site.put(step, step.cast(made, dtype))
    return f"replaced {site.node.op_type} by Where and {_REDUCTIONS[reduction][1]}"


def _fixed(sizes: Sizes | None) -> list[int] | None:
    found = [each for each in sizes or () if isinstance(each, int)]
    return found if sizes is not None and len(found) == len(sizes) else None


def _along_an_axis(
    step: Step,
    data: tuple[ir.Value, list[int]],
    indices: tuple[ir.Value, list[int]],
    updates: ir.Value,
    reduction: str,
) -> ir.Value | None:
    """ScatterElements; None where the table is too large, or the indices are smaller than the data along other axes."""
    sizes, places = data[1], indices[1]
    axis = int(step.get("axis", 0)) % len(sizes)
    outer = [size for at, size in enumerate(sizes) if at != axis]
    if outer != [size for at, size in enumerate(places) if at != axis]:
        return None
    if math.prod(sizes) * places[axis] > _MOST:
        return None
    index = step.unsqueezed(_counted_from_the_front(step, indices[0], sizes[axis]), [axis])
    wanted = np.arange(sizes[axis]).reshape([-1] + [1] * (len(sizes) - axis))
    return _combined(step, data[0], index, step.number(wanted), step.unsqueezed(updates, [axis]), axis + 1, reduction)


def _of_slices(
    step: Step,
    data: tuple[ir.Value, list[int]],
    indices: tuple[ir.Value, list[int]],
    updates: ir.Value,
    reduction: str,
) -> ir.Value | None:
    """ScatterND; None where the table is too large."""
    (value, sizes), (given, places) = data, indices
    depth, count = places[-1], math.prod(places[:-1])
    outer, inner = math.prod(sizes[:depth]), math.prod(sizes[depth:])
    if not 1 <= depth <= len(sizes) or outer * inner * count > _MOST:
        return None
    index: Any = None
    for axis in range(depth):
        part = _counted_from_the_front(step, step.sliced(given, axis, axis + 1, len(places) - 1), sizes[axis])
        index = part if index is None else step.emit("Add", step.emit("Mul", index, [sizes[axis]]), part)
    index = step.emit("Reshape", index, [1, count, 1])
    flat = step.emit("Reshape", value, [outer, inner])
    spread = step.emit("Reshape", updates, [1, count, inner])
    wanted = step.number(np.arange(outer).reshape(-1, 1, 1))
    made = _combined(step, flat, index, wanted, spread, 1, reduction)
    return step.emit("Reshape", made, sizes)


def _counted_from_the_front(step: Step, index: ir.Value, size: int) -> ir.Value:
    whole = step.cast(index, _Dtype.INT64)
    return step.emit("Where", step.emit("Less", whole, [0]), step.emit("Add", whole, [size]), whole)


def _combined(
    step: Step, data: ir.Value, index: ir.Value, wanted: ir.Value, updates: ir.Value, axis: int, reduction: str
) -> ir.Value:
    """The elements with the updates whose index is theirs; the table of the two is reduced along the axis."""
    operator, reducing = _REDUCTIONS[reduction]
    nothing = step.number(_nothing(reduction, step.dtype(data)), step.dtype(data))
    chosen = step.emit("Where", step.emit("Equal", index, wanted), updates, nothing)
    return step.emit(operator, data, step.reduced(reducing, chosen, [axis], keepdims=0))


def _nothing(reduction: str, dtype: ir.DataType) -> Any:
    """The number that changes nothing."""
    if reduction in ("add", "mul"):
        return int(reduction == "mul")
    if dtype.is_floating_point():
        return -np.inf if reduction == "max" else np.inf
    limits = np.iinfo(dtype.numpy())
    return limits.min if reduction == "max" else limits.max
