"""Deformable convolution: the elements around each moved place are gathered, weighed, and multiplied as columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir

from opbridge.conversion.step import Step
from opbridge.fixing.site import Refused, Site, repair

_INT64 = int(ir.DataType.INT64)
_OLDEST = 11
"""The opset that GatherElements came with."""

_KERNEL = "opbridge_ops::deform_conv2d"


@dataclass(frozen=True)
class _Call:
    """What a call says, in ONNX's operator or in the kernel that comes with opbridge."""

    bias: ir.Value | None
    mask: ir.Value | None
    strides: list[int]
    starts: list[int]
    dilations: list[int]
    groups: int
    offset_groups: int


@repair("missing-operator", "no-kernel", operators=["DeformConv", _KERNEL])
def by_columns(site: Site) -> str:
    """Each tap of the kernel is a row of columns, which the weights are multiplied with."""
    step = site.step()
    weight, offset = step.input(1), step.input(2)
    if step.to < _OLDEST:
        raise Refused(f"below opset {_OLDEST}, which introduced GatherElements")
    if weight is None or offset is None:
        raise Refused("without weights or offsets")
    if step.rank() != 4:
        raise Refused("of other than two spatial dimensions")
    kernel = step.shape(weight)
    sizes = [each for each in (kernel or [])[1:] if isinstance(each, int)]
    if kernel is None or len(sizes) != len(kernel) - 1:
        raise Refused("with weights of unknown shape")
    if step.dtype(step.data) not in (ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.FLOAT16):
        raise Refused("of types other than float16, float32 and float64")
    site.put(step, _convolved(step, _call(step), weight, offset, sizes))
    return "replaced DeformConv by GatherElements and MatMul"


def _call(step: Step) -> _Call:
    if step.node.domain == "opbridge_ops":
        mask, bias = step.input(3), step.input(4)
        names = ("stride", "padding", "dilation", "groups", "offset_groups")
    else:
        bias, mask = step.input(3), step.input(4)
        names = ("strides", "pads", "dilations", "group", "offset_group")
    strides, pads, dilations = (step.integers(name) for name in names[:3])
    groups, offset_groups = (int(step.get(name, 1)) for name in names[3:])
    return _Call(
        bias, mask, strides or [1, 1], (pads or [0, 0])[:2], dilations or [1, 1], groups, offset_groups
    )  # how much is padded behind is in the sizes of the offsets


def _convolved(step: Step, call: _Call, weight: ir.Value, offset: ir.Value, kernel: list[int]) -> ir.Value:
    """The result, (batch, channels, rows, columns).

    Args:
        step: The call, and what builds.
        call: What it says.
        weight: The weights.
        offset: How far each place is moved.
        kernel: The channels of a group that go in, and the kernel's rows and columns.
    """
    data, dtype = step.data, step.dtype(step.data)
    wide = ir.DataType.FLOAT if dtype == ir.DataType.FLOAT16 else dtype  # float16 does not count the rows of an image
    taps = kernel[1] * kernel[2]
    channels = kernel[0] * call.groups
    rows, columns = step.size(offset, 2), step.size(offset, 3)
    places = step.product([rows, columns])
    points = step.product([taps, places])
    heights, widths = step.size(data, 2), step.size(data, 3)
    flat = step.emit(
        "Reshape",
        step.cast(data, wide),
        step.sizes(-1, channels // call.offset_groups, step.product([heights, widths])),
    )
    moved = step.emit("Reshape", step.cast(offset, wide), step.sizes(-1, taps, 2, places))
    axes = []
    for axis, (size, length) in enumerate(((rows, heights), (columns, widths))):
        given = step.squeezed(step.sliced(moved, axis, axis + 1, 2), [2])
        tap = [at // kernel[2] if axis == 0 else at % kernel[2] for at in range(taps)]
        first = np.asarray(tap)[:, None] * call.dilations[axis] - call.starts[axis]
        along = _along(step, size, call.strides[axis], wide)
        along = step.unsqueezed(along, [1] if axis == 0 else [0])
        spread = step.emit("Reshape", step.emit("Expand", along, step.sizes(rows, columns)), step.sizes(1, places))
        base = step.emit("Add", spread, step.number(first, wide))
        place = step.emit("Reshape", step.emit("Add", given, base), step.sizes(-1, points))
        axes.append(_neighbours(step, place, length, wide))
    total: Any = None
    for row, row_share, row_inside in axes[0]:
        for column, share, inside in axes[1]:
            stride = step.number([widths]) if isinstance(widths, int) else widths
            index = step.emit("Add", step.emit("Mul", row, stride), column)
            shape = step.sizes(step.size(flat, 0), channels // call.offset_groups, points)
            found = step.emit("GatherElements", flat, step.emit("Expand", step.unsqueezed(index, [1]), shape), axis=-1)
            there = step.unsqueezed(step.emit("And", row_inside, inside), [1])
            found = step.emit("Where", there, found, step.number(0, wide))
            part = step.emit("Mul", found, step.unsqueezed(step.emit("Mul", row_share, share), [1]))
            total = part if total is None else step.emit("Add", total, part)
    if call.mask is not None:
        total = step.emit("Mul", total, step.emit("Reshape", step.cast(call.mask, wide), step.sizes(-1, 1, points)))
    depth = kernel[0] * taps
    batch = step.size(data, 0)
    table = step.emit("Reshape", total, step.sizes(batch, call.groups, depth, places))
    made = step.emit("MatMul", step.emit("Reshape", step.cast(weight, wide), [call.groups, -1, depth]), table)
    made = step.emit("Reshape", made, step.sizes(batch, step.size(weight, 0), rows, columns))
    if call.bias is not None:
        made = step.emit("Add", made, step.emit("Reshape", step.cast(call.bias, wide), [1, -1, 1, 1]))
    result: ir.Value = step.cast(made, dtype)
    return result


def _along(step: Step, size: int | ir.Value, stride: int, wide: ir.DataType) -> ir.Value:
    """The places of the output along a dimension, in the input."""
    if isinstance(size, int):
        return step.number(np.arange(size) * stride, wide)
    end = step.squeezed(size, [0])
    counted = step.emit("Range", step.number(np.asarray(0)), end, step.number(np.asarray(1)))
    made: ir.Value = step.emit("Mul", step.cast(counted, wide), step.number(stride, wide))
    return made


def _neighbours(
    step: Step, place: ir.Value, size: int | ir.Value, wide: ir.DataType
) -> list[tuple[ir.Value, ir.Value, ir.Value]]:
    """The two elements beside each place along a dimension: indices, weights, and whether they are in the image."""
    last = step.number(size - 1, wide) if isinstance(size, int) else step.cast(step.emit("Sub", size, [1]), wide)
    one, none = step.number(1, wide), step.number(0, wide)
    low = step.emit("Floor", place)
    share = step.emit("Sub", place, low)
    found = []
    for at, weight in ((low, step.emit("Sub", one, share)), (step.emit("Add", low, one), share)):
        inside = step.emit("Max", step.emit("Min", at, last), none)
        # A place that is nan gets an index too; its weight is nan.
        known = step.emit("Where", step.emit("Equal", inside, inside), inside, none)
        found.append((step.emit("Cast", known, to=_INT64), weight, step.emit("Equal", at, inside)))
    return found
