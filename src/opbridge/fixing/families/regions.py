"""RoiAlign by gathering the elements around each sample of a region, and weighing them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from opbridge.conversion.step import Step
from opbridge.fixing.site import Refused, Site, repair

_Dtype = ir.DataType
_TYPES = (_Dtype.FLOAT, _Dtype.DOUBLE, _Dtype.FLOAT16)

_HALF_PIXEL = 16
"""The opset from which coordinates are moved by half a pixel where a node does not say otherwise."""


@repair("missing-operator", "no-kernel", operators=["RoiAlign"])
def by_gathering(site: Site) -> str:
    """The mean of the samples of each cell; a sample is weighed from the four elements around it.

    1. As PyTorch and ONNX Runtime have it, a sample more than one element outside of the image is 0, and others
       outside are those of the border.
    2. Where the number of samples follows from the size of each region (sampling_ratio=0), all regions have as many
       as the largest; of a smaller one, the first count.
    """
    step = site.step()
    regions, images = step.input(1), step.input(2)
    assert regions is not None and images is not None
    count = max(int(step.get("sampling_ratio", 0)), 0)
    if str(step.get("mode", "avg")) != "avg":
        raise Refused("with mode=max")
    dtype = step.dtype(step.data)
    if dtype not in _TYPES or step.rank() != 4:
        raise Refused("of types other than float16, float32 and float64")
    wide = _Dtype.FLOAT if dtype == _Dtype.FLOAT16 else dtype
    default = "half_pixel" if step.to >= _HALF_PIXEL else "output_half_pixel"
    is_moved = str(step.get("coordinate_transformation_mode", default)) == "half_pixel"
    scaled = step.emit("Mul", step.cast(regions, wide), step.number(float(step.get("spatial_scale", 1.0)), wide))
    if is_moved:
        scaled = step.emit("Sub", scaled, step.number(0.5, wide))
    cells = int(step.get("output_height", 1)), int(step.get("output_width", 1))
    axes = [_Axis.of(step, scaled, axis, cells[axis], count, is_moved=is_moved, wide=wide) for axis in (0, 1)]
    site.put(step, step.cast(_sampled(step, step.cast(step.data, wide), images, axes, cells), dtype))
    return "replaced RoiAlign by Gather and ReduceMean"


@dataclass(frozen=True)
class _Axis:
    """The samples along one dimension of the image, (regions, cells * samples).

    Attributes:
        size: The size of the dimension.
        low: The index of the element before each.
        high: That of the one after it.
        share: The weight of the one after it.
        there: Whether the sample is in the image, and one of its region.
        count: How many samples a cell has, at most.
        own: How many those of each region have, (regions, 1); None: as many as the others.
    """

    size: int | ir.Value
    low: ir.Value
    high: ir.Value
    share: ir.Value
    there: ir.Value
    count: int | ir.Value
    own: ir.Value | None

    @classmethod
    def of(
        cls, step: Step, regions: ir.Value, axis: int, cells: int, count: int, *, is_moved: bool, wide: ir.DataType
    ) -> _Axis:
        """The samples of all regions, whose corners are (x, y, x, y); a count of 0 is one of each region's own."""
        first, last = (step.sliced(regions, at, at + 1, 1) for at in (1 - axis, 3 - axis))
        length = step.emit("Sub", last, first)
        if not is_moved:
            length = step.emit("Max", length, step.number(1, wide))
        cell = step.emit("Div", length, step.number(cells, wide))
        if count:
            most: int | ir.Value = count
            own = counted = None
            places = np.arange(cells)[:, None] + (np.arange(count) + 0.5) / count
            along = step.number(places.reshape(1, -1), wide)
        else:
            most, own, counted, along = _of_own_numbers(step, cell, cells, wide)
        place = step.emit("Add", first, step.emit("Mul", cell, along))
        size = step.size(step.data, 2 + axis)
        extent = step.number(size, wide) if isinstance(size, int) else step.cast(size, wide)
        none, one = step.number(0, wide), step.number(1, wide)
        outside = step.emit("Or", step.emit("Less", place, step.number(-1, wide)), step.emit("Greater", place, extent))
        # A place that is nan gets an index too; its weight is nan.
        known = step.emit("Where", step.emit("Equal", place, place), place, none)
        end = step.emit("Sub", extent, one)
        low = step.emit("Min", step.emit("Floor", step.emit("Max", known, none)), end)
        high = step.emit("Min", step.emit("Add", low, one), end)
        inside = step.emit("Min", step.emit("Max", place, none), end)
        share = step.emit("Sub", inside, low)
        low, high = (step.cast(each, _Dtype.INT64) for each in (low, high))
        there = step.emit("Not", outside)
        if counted is not None:
            there = step.emit("And", there, counted)
        return cls(size, low, high, share, there, most, own)


def _of_own_numbers(
    step: Step, cell: ir.Value, cells: int, wide: ir.DataType
) -> tuple[ir.Value, ir.Value, ir.Value, ir.Value]:
    """The samples of cells that have one for each element that they are long.

    Args:
        step: What builds.
        cell: How long a cell of each region is, (regions, 1).
        cells: The number of cells.
        wide: The type.

    Returns:
        The largest number, (1); that of each region, (regions, 1); whether a sample is one of its region,
        (regions, cells * largest); its place, in cells.
    """
    one, none = step.number(1, wide), step.number(0, wide)
    own = step.emit("Max", step.emit("Ceil", cell), none)
    every = step.emit("Concat", step.number([1.0], wide), step.emit("Reshape", own, [-1]), axis=0)
    most = step.cast(step.reduced("ReduceMax", every, [0]), _Dtype.INT64)
    counted = step.emit("Range", step.number(np.asarray(0)), step.squeezed(most, [0]), step.number(np.asarray(1)))
    number = step.emit("Reshape", step.cast(counted, wide), [1, 1, -1])
    spread = step.unsqueezed(own, [2])
    within = step.emit("Div", step.emit("Add", number, step.number(0.5, wide)), step.emit("Max", spread, one))
    place = step.emit("Add", step.number(np.arange(cells).reshape(1, -1, 1), wide), within)
    regions = step.size(own, 0)
    flat = step.sizes(regions, step.product([cells, most]))
    samples = step.emit("Expand", step.emit("Less", number, spread), step.sizes(1, cells, 1))
    return most, own, step.emit("Reshape", samples, flat), step.emit("Reshape", place, flat)


def _sampled(step: Step, data: ir.Value, images: ir.Value, axes: list[_Axis], cells: tuple[int, int]) -> ir.Value:
    """The cells of all regions, (regions, channels, rows, columns)."""
    rows, columns = axes
    channels, regions = step.size(data, 1), step.size(images, 0)
    table = step.emit("Reshape", step.emit("Transpose", data, perm=[0, 2, 3, 1]), step.sizes(-1, channels))
    image = step.unsqueezed(step.cast(images, _Dtype.INT64), [1, 2])
    one = step.number(1, step.dtype(data))
    total = None
    for row, row_share in ((rows.low, step.emit("Sub", one, rows.share)), (rows.high, rows.share)):
        of_row = step.emit("Add", step.emit("Mul", image, _row(rows.size)), step.unsqueezed(row, [2]))
        for column, share in ((columns.low, step.emit("Sub", one, columns.share)), (columns.high, columns.share)):
            place = step.emit("Add", step.emit("Mul", of_row, _row(columns.size)), step.unsqueezed(column, [1]))
            weight = step.emit("Mul", step.unsqueezed(row_share, [2]), step.unsqueezed(share, [1]))
            part = step.emit("Mul", step.emit("Gather", table, place, axis=0), step.unsqueezed(weight, [3]))
            total = part if total is None else step.emit("Add", total, part)
    there = step.emit("And", step.unsqueezed(rows.there, [2]), step.unsqueezed(columns.there, [1]))
    found = step.emit("Where", step.unsqueezed(there, [3]), total, step.number(0, step.dtype(data)))
    sizes = step.sizes(regions, cells[0], rows.count, cells[1], columns.count, channels)
    split = step.emit("Reshape", found, sizes)
    if rows.own is None or columns.own is None:
        mean = step.reduced("ReduceMean", split, [2, 4], keepdims=0)
    else:
        number = step.emit("Max", step.emit("Mul", rows.own, columns.own), one)
        mean = step.emit("Div", step.reduced("ReduceSum", split, [2, 4], keepdims=0), step.unsqueezed(number, [2, 3]))
    return step.emit("Transpose", mean, perm=[0, 3, 1, 2])


def _row(size: int | ir.Value) -> list[int] | ir.Value:
    return [size] if isinstance(size, int) else size
