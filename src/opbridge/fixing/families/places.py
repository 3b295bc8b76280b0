"""NonZero by counting: what is not zero knows its place in the result, and is put there."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir

from opbridge.fixing.site import Refused, Site, repair

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
    total: Any = step.product(sizes)
    count = [total] if isinstance(total, int) else total
    flat = step.emit("Reshape", step.data, [-1])
    if step.dtype(step.data) != _Dtype.BOOL:
        zero = step.number(0, step.dtype(step.data))
        flat = step.emit("Not", step.emit("Equal", flat, zero))
    counted = step.emit("CumSum", step.cast(flat, _Dtype.INT64), step.number(0))
    place = step.emit("Where", flat, step.emit("Sub", counted, [1]), count)
    room = step.emit("Add", count, [1])
    end = step.emit("Squeeze", room) if isinstance(total, int) else step.squeezed(room, [0])
    numbers = step.emit("Range", step.number(0), end, step.number(1))
    element = step.emit("Slice", numbers, [0], count, [0])
    found = step.emit("ScatterElements", step.emit("Mul", numbers, [0]), place, element, axis=0)
    last = step.emit("Slice", step.emit("Concat", [0], counted, axis=0), [-1], [1 << 31], [0])
    chosen = step.emit("Slice", found, [0], last, [0])
    parts: list[ir.Value] = []
    for axis in reversed(range(rank)):
        size = sizes[axis]
        divisor = step.emit("Max", [size] if isinstance(size, int) else size, [1])
        parts.insert(0, step.unsqueezed(step.emit("Mod", chosen, divisor) if axis else chosen, [0]))
        chosen = step.emit("Div", chosen, divisor)
    site.put(step, parts[0] if rank == 1 else step.emit("Concat", *parts, axis=0))
    return "replaced NonZero by CumSum and ScatterElements"
