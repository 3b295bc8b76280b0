"""MaxPool with the places of its elements, where a target gives the elements only."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx_ir as ir

from opbridge.conversion.step import Step
from opbridge.fixing.site import Refused, Site, repair

_MOST_TAPS = 64


@repair("unsupported-argument", operators=["MaxPool"])
def places_by_taps(site: Site) -> str:
    """Each tap of the window is a slice of the padded input; the first that is greatest says the place.

    Places are counted over the whole tensor, as ONNX does.
    """
    step = site.step()
    if not step.is_used(1):
        raise Refused("without its output Indices")
    spatial = step.rank() - 2
    kernel = step.integers("kernel_shape") or []
    taps = math.prod(kernel)
    if step.dtype(step.data) not in (ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.FLOAT16):
        raise Refused("of integers")
    if step.get("auto_pad", "NOTSET") != "NOTSET" or step.get("storage_order", 0) or not 0 < taps <= _MOST_TAPS:
        raise Refused(f"with auto_pad, storage_order=1 or more than {_MOST_TAPS} elements in a window")
    if step.to < 11:
        raise Refused("below opset 11")
    strides, dilations = (step.integers(name) or [1] * spatial for name in ("strides", "dilations"))
    pads = step.integers("pads") or [0] * 2 * spatial
    if step.get("ceil_mode", 0):
        shape = step.shape(step.data) or []
        for size, tap, stride, dilation, before, behind in zip(
            shape[2:], kernel, strides, dilations, pads[:spatial], pads[spatial:], strict=True
        ):
            # Of a window that begins in the padding behind, runtimes and ONNX differ in whether it is one.
            if isinstance(size, int):
                last = -(-(size + before + behind - dilation * (tap - 1) - 1) // stride) * stride
                if last >= size + before:
                    raise Refused("whose last window begins in the padding")
    attributes = {
        name: step.get(name) for name in ("kernel_shape", "strides", "dilations", "pads", "ceil_mode") if step.has(name)
    }
    values = step.emit("MaxPool", step.data, **attributes)
    # Behind, so much more is filled up that the last window of ceil_mode has all its elements.
    starts = [0, 0, *pads[:spatial]]
    ends = [0, 0, *(pads[spatial + at] + strides[at] for at in range(spatial))]
    filled = step.emit("Pad", step.data, [*starts, *ends], step.number(-np.inf, step.dtype(step.data)))
    if step.get("ceil_mode", 0):  # runtimes and ONNX differ in whether a window may begin in the padding behind
        shape = step.emit("Shape", values)
        result_sizes = [step.emit("Gather", shape, [2 + axis], axis=0) for axis in range(spatial)]
    else:
        result_sizes = [step.size(values, 2 + axis) for axis in range(spatial)]
    slices = [
        step.unsqueezed(_tap(step, filled, place, strides, result_sizes), [0])
        for place in (np.multiply(each, dilations) for each in np.ndindex(*kernel))
    ]
    stacked = slices[0] if taps == 1 else step.emit("Concat", *slices, axis=0)
    best = step.emit("ArgMax", stacked, axis=0, keepdims=0)
    sizes = [step.size(step.data, axis) for axis in range(2 + spatial)]
    place: Any = None
    for axis in range(spatial):
        offsets = [int(each[axis]) * dilations[axis] - pads[axis] for each in np.ndindex(*kernel)]
        offset = step.emit("Gather", step.number(np.asarray(offsets)), best, axis=0)
        first = step.emit("Mul", _counted(step, result_sizes[axis], 2 + axis, 2 + spatial), strides[axis])
        along = step.emit("Add", offset, first)
        place = (
            along if place is None else step.emit("Add", step.emit("Mul", place, _one(step, sizes[2 + axis])), along)
        )
    image = _one(step, step.product(sizes[2:]))
    channel = _counted(step, sizes[1], 1, 2 + spatial)
    batch = step.emit("Mul", _counted(step, sizes[0], 0, 2 + spatial), _one(step, sizes[1]))
    before = step.emit("Mul", step.emit("Add", batch, channel), image)
    site.put(step, values, step.emit("Add", place, before))
    return f"replaced the indices of MaxPool by {taps} slices"


def _tap(step: Step, filled: ir.Value, place: Any, strides: list[int], sizes: list[int | ir.Value]) -> ir.Value:
    """The elements that one tap of the window sees."""
    starts = [int(each) for each in place]
    ends: list[int | ir.Value] = []
    for start, stride, size in zip(starts, strides, sizes, strict=True):
        if isinstance(size, int):
            ends.append(start + (size - 1) * stride + 1)
        else:
            ends.append(step.emit("Add", step.emit("Mul", step.emit("Sub", size, [1]), [stride]), [start + 1]))
    axes = [2 + at for at in range(len(starts))]
    made: ir.Value = step.emit("Slice", filled, starts, step.sizes(*ends), axes, strides)
    return made


def _one(step: Step, size: int | ir.Value) -> ir.Value:
    return step.number([size]) if isinstance(size, int) else size


def _counted(step: Step, size: int | ir.Value, axis: int, rank: int) -> ir.Value:
    """0, 1, ... along an axis of a tensor of some rank."""
    others = [each for each in range(rank) if each != axis]
    if isinstance(size, int):
        return step.number(np.arange(size).reshape([size if each == axis else 1 for each in range(rank)]))
    counted = step.emit("Range", step.number(np.asarray(0)), step.squeezed(size, [0]), step.number(np.asarray(1)))
    return step.unsqueezed(counted, others)
