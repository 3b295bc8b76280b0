"""NonZero by counting: what is not zero knows its place in the result, and is put there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx_ir as ir

from opbridge.conversion.step import Step
from opbridge.fixing.site import Refused, Site, repair

__all__ = ["coordinates", "in_places"]

_Dtype = ir.DataType


@repair("missing-operator", "no-kernel", operators=["NonZero"])
def by_counting(site: Site) -> str:
    """The running count gives the place of each element that is not zero; the others go behind the last one.

    All sizes are those of the input, up to the last step, which takes as many places as were counted.
    """
    step = site.step()
    if any(site.is_lacked(each) for each in ("CumSum", "ScatterElements", "Slice")):
        raise Refused("without CumSum and ScatterElements")
    rank = step.rank()
    if not rank:
        raise Refused("of a scalar")
    sizes = [step.size(step.data, axis) for axis in range(rank)]
    total = step.product(sizes)
    flat = step.emit("Reshape", step.data, [-1])
    if step.dtype(step.data) != _Dtype.BOOL:
        zero = step.number(0, step.dtype(step.data))
        flat = step.emit("Not", step.emit("Equal", flat, zero))
    counted = step.emit("CumSum", step.cast(flat, _Dtype.INT64), step.number(0))
    last = step.emit("Slice", step.emit("Concat", [0], counted, axis=0), [-1], [1 << 31], [0])
    if not all(isinstance(size, int) for size in sizes):
        last = step.emit("Reshape", last, [1])  # TensorRT does not know how many are the last one of an unknown number
    chosen = in_places(step, flat, step.emit("Sub", counted, [1]), total, last)
    parts = [step.unsqueezed(each, [0]) for each in coordinates(step, chosen, sizes)]
    site.put(step, parts[0] if rank == 1 else step.emit("Concat", *parts, axis=0))
    return "replaced NonZero by CumSum and ScatterElements"


def in_places(step: Step, marked: ir.Value, places: ir.Value, total: int | ir.Value, count: ir.Value) -> ir.Value:
    """The numbers of the elements that are marked, each at its place.

    Args:
        step: What builds.
        marked: Which elements, as a vector of truth values.
        places: The places of these, from 0 to their number; of the others, anything.
        total: How many elements there are, marked or not.
        count: How many are marked, as a vector of one number.
    """
    size: Any = [total] if isinstance(total, int) else total
    place = step.emit("Where", marked, places, size)
    room = step.emit("Add", size, [1])
    end = step.emit("Squeeze", room) if isinstance(total, int) else step.squeezed(room, [0])
    numbers = step.emit("Range", step.number(0), end, step.number(1))
    element = step.emit("Slice", numbers, [0], size, [0])
    found = step.emit("ScatterElements", step.emit("Mul", numbers, [0]), place, element, axis=0)
    return step.emit("Slice", found, [0], count, [0])


def coordinates(step: Step, numbers: ir.Value, sizes: Sequence[int | ir.Value]) -> list[ir.Value]:
    """The coordinates of elements of a tensor by their numbers in it, one vector for each dimension."""
    found: list[ir.Value] = []
    for axis, size in reversed(list(enumerate(sizes))):
        divisor = step.emit("Max", [size] if isinstance(size, int) else size, [1])
        found.insert(0, step.emit("Mod", numbers, divisor) if axis else numbers)
        numbers = step.emit("Div", numbers, divisor)
    return found
