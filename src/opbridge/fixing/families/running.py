"""CumSum as sums over distances that double."""

from __future__ import annotations

import onnx_ir as ir

from opbridge.fixing.site import Refused, Site, repair

_LONGEST = 1 << 14


@repair("missing-operator", "no-kernel", "several-sums", operators=["CumSum"])
def by_doubling(site: Site) -> str:
    """The tensor is added to itself, moved by 1, 2, 4 and so on, with zeros before it.

    No element is multiplied by 0, so that infinities stay where they are.
    """
    step = site.step()
    axes = step.known(1, "an axis")
    shape = step.shape(step.data)
    if axes is None or shape is None:
        raise Refused("of a tensor of unknown rank")
    axis = axes[0] % len(shape)
    size = shape[axis]
    if not isinstance(size, int) or not 0 < size <= _LONGEST:
        raise Refused("of a dynamic size")
    backwards = bool(step.get("reverse", 0))
    total = step.data

    def moved(value: ir.Value, by: int) -> ir.Value:
        sizes = [by if each == axis else step.size(value, each) for each in range(len(shape))]
        zeros = step.emit("Expand", step.number(0, step.dtype(value)), step.sizes(*sizes))
        kept = step.sliced(value, by, size, axis) if backwards else step.sliced(value, 0, size - by, axis)
        made: ir.Value = step.emit("Concat", *((kept, zeros) if backwards else (zeros, kept)), axis=axis)
        return made

    if step.get("exclusive", 0):
        total = moved(total, 1)
    distance = 1
    while distance < size:
        total = step.emit("Add", total, moved(total, distance))
        distance *= 2
    if total is step.data:
        total = step.emit("Identity", total)
    site.put(step, total)
    return f"replaced CumSum of {size} elements by a parallel prefix sum"
