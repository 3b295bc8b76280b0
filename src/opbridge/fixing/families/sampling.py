"""GridSample of any number of dimensions, by gathering the elements around each place and weighing them."""

from __future__ import annotations

import itertools
from typing import Any

import onnx_ir as ir

from opbridge.conversion.step import Step
from opbridge.fixing.site import Refused, Site, repair

_INT64, _BOOL = int(ir.DataType.INT64), int(ir.DataType.BOOL)
_CUBIC = -0.75

_KERNEL = "opbridge_ops::grid_sample"
_MODES, _PADDINGS = ("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection")
"""What the numbers in the attributes of the kernel that comes with opbridge stand for."""


@repair(
    "unsupported-rank",
    "rank-not-in-onnx",
    "missing-operator",
    "no-kernel",
    "unsupported-attribute",
    "partly-supported",
    operators=["GridSample", _KERNEL],
)
def by_gathering(site: Site) -> str:
    """The spatial dimensions are one; each neighbour of a place is gathered, and weighed by its distance."""
    step = site.step()
    grid = step.input(1)
    assert grid is not None
    spatial = step.rank() - 2
    if step.node.domain:
        mode = _MODES[int(step.get("interpolation_mode", 0))]
        padding = _PADDINGS[int(step.get("padding_mode", 0))]
    else:
        said = str(step.get("mode", "bilinear"))
        mode = {"linear": "bilinear", "cubic": "bicubic"}.get(said, said)
        padding = str(step.get("padding_mode", "zeros"))
    if spatial < 1 or mode not in ("bilinear", "nearest", "bicubic"):
        raise Refused(f"with mode={mode} of {spatial} dimensions")
    dtype = step.dtype(step.data)
    if dtype not in (ir.DataType.FLOAT, ir.DataType.DOUBLE):
        raise Refused("of types other than float32 and float64")
    sampler = _Sampler(step, spatial, mode, padding, int(step.get("align_corners", 0)))
    site.put(step, sampler.sampled(step.data, step.cast(grid, dtype)))
    return f"replaced GridSample of {spatial} dimensions by Gather"


class _Sampler:
    """What is computed of one call."""

    def __init__(self, step: Step, spatial: int, mode: str, padding: str, align: int) -> None:
        self.step, self.spatial, self.mode, self.padding, self.align = step, spatial, mode, padding, align
        self.dtype = step.dtype(step.data)

    def number(self, value: float) -> ir.Value:
        return self.step.number(value, self.dtype)

    def sampled(self, data: ir.Value, grid: ir.Value) -> ir.Value:
        """The elements of data, (batch, channels, *sizes), at the places of grid, (batch, *places, dimensions)."""
        step = self.step
        sizes = [step.size(data, 2 + axis) for axis in range(self.spatial)]
        flat = step.emit("Reshape", data, step.sizes(step.size(data, 0), step.size(data, 1), -1))
        points = step.emit("Reshape", grid, step.sizes(step.size(grid, 0), -1, self.spatial))
        # The last coordinate is that of the first dimension.
        axes = [
            self._neighbours(
                step.squeezed(step.sliced(points, self.spatial - 1 - axis, self.spatial - axis, 2), [2]), size
            )
            for axis, size in enumerate(sizes)
        ]
        total = None
        for chosen in itertools.product(*axes):
            place, weight = None, None
            for (index, share), size in zip(chosen, sizes, strict=True):
                place = index if place is None else step.emit("Add", step.emit("Mul", place, self._whole(size)), index)
                if share is not None:
                    weight = share if weight is None else step.emit("Mul", weight, share)
            part = self._gathered(flat, place)
            if weight is not None:
                part = self._weighed(part, weight)
            total = part if total is None else step.emit("Add", total, part)
        assert total is not None
        places = [step.size(grid, 1 + axis) for axis in range(self.spatial)]
        made: ir.Value = step.emit("Reshape", total, step.sizes(step.size(data, 0), step.size(data, 1), *places))
        return made

    def _weighed(self, part: ir.Value, weight: ir.Value) -> ir.Value:
        """A part times its weight; nothing where that is nothing, whatever stands there."""
        step = self.step
        spread = step.unsqueezed(weight, [1])
        product: ir.Value = step.emit("Mul", part, spread)
        if self.padding != "zeros":
            return product
        made: ir.Value = step.emit("Where", step.emit("Cast", spread, to=_BOOL), product, self.number(0))
        return made

    def _gathered(self, flat: ir.Value, place: Any) -> ir.Value:
        step = self.step
        shape = step.sizes(step.size(flat, 0), step.size(flat, 1), step.size(place, 1))
        made: ir.Value = step.emit(
            "GatherElements", flat, step.emit("Expand", step.unsqueezed(place, [1]), shape), axis=-1
        )
        return made

    def _whole(self, size: Any) -> Any:
        return self.step.number([size]) if isinstance(size, int) else size

    def _float(self, size: Any) -> ir.Value:
        return self.number(float(size)) if isinstance(size, int) else self.step.cast(size, self.dtype)

    def _neighbours(self, points: ir.Value, size: Any) -> list[tuple[ir.Value, ir.Value | None]]:
        """The elements around each place along a dimension: their indices and weights, None for 1."""
        step = self.step
        extent = self._float(size)
        half = self.number(0.5)
        if self.align:
            place = step.emit(
                "Mul",
                step.emit("Mul", step.emit("Add", points, self.number(1)), half),
                step.emit("Sub", extent, self.number(1)),
            )
        else:
            scaled = step.emit("Mul", step.emit("Add", points, self.number(1)), extent)
            place = step.emit("Mul", step.emit("Sub", scaled, self.number(1)), half)
        if self.mode == "nearest":
            return [self._element(step.emit("Round", self._padded(place, extent)), extent, None)]
        if self.mode == "bilinear":
            place = self._padded(place, extent)
            low = step.emit("Floor", place)
            share = step.emit("Sub", place, low)
            high = step.emit("Add", low, self.number(1))
            return [
                self._element(low, extent, step.emit("Sub", self.number(1), share)),
                self._element(high, extent, share),
            ]
        low = step.emit("Floor", place)
        share = step.emit("Sub", place, low)
        found = []
        for offset, weight in zip((-1, 0, 1, 2), self._cubic(share), strict=True):
            place = self._padded(step.emit("Add", low, self.number(offset)), extent)
            found.append(self._element(place, extent, weight))
        return found

    def _cubic(self, share: ir.Value) -> list[ir.Value]:
        """The weights of four neighbours in a cubic convolution."""
        step = self.step

        def polynomial(x: ir.Value, *coefficients: float) -> Any:
            total: Any = self.number(coefficients[0])
            for each in coefficients[1:]:
                total = step.emit("Add", step.emit("Mul", total, x), self.number(each))
            return total

        a = _CUBIC
        far = (a, -5 * a, 8 * a, -4 * a)
        near = (a + 2, -(a + 3), 0.0, 1.0)
        one = self.number(1)
        other = step.emit("Sub", one, share)
        return [
            polynomial(step.emit("Add", share, one), *far),
            polynomial(share, *near),
            polynomial(other, *near),
            polynomial(step.emit("Add", other, one), *far),
        ]

    def _padded(self, place: Any, extent: ir.Value) -> Any:
        """A place inside of the tensor, by the padding."""
        step = self.step
        last = step.emit("Sub", extent, self.number(1))
        if self.padding == "border":
            return step.emit("Max", step.emit("Min", place, last), self.number(0))
        if self.padding != "reflection":
            return place
        if self.align:
            low, span = self.number(0), last
        else:
            low, span = self.number(-0.5), extent
        # There and back along the span; a span of nothing has one place.
        away = step.emit("Abs", step.emit("Sub", place, low))
        safe = step.emit("Max", span, self.number(1))
        turns = step.emit("Floor", step.emit("Div", away, safe))
        rest = step.emit("Sub", away, step.emit("Mul", turns, safe))
        half = step.emit("Floor", step.emit("Mul", turns, self.number(0.5)))
        is_back = step.emit("Greater", step.emit("Sub", turns, step.emit("Add", half, half)), self.number(0.5))
        inside = step.emit("Where", is_back, step.emit("Sub", safe, rest), rest)
        reflected = step.emit("Add", inside, low)
        return step.emit("Max", step.emit("Min", reflected, last), self.number(0))

    def _element(self, place: Any, extent: ir.Value, weight: Any) -> tuple[ir.Value, Any]:
        """The index of a neighbour, with its weight, which is 0 outside of the tensor."""
        step = self.step
        last = step.emit("Sub", extent, self.number(1))
        inside = step.emit("Max", step.emit("Min", place, last), self.number(0))
        # A place that is nan gets an index too; its weight is nan.
        known = step.emit("Where", step.emit("Equal", inside, inside), inside, self.number(0))
        index = step.emit("Cast", known, to=_INT64)
        if self.padding != "zeros":
            return index, weight
        is_inside = step.emit("Equal", place, inside)
        kept = step.emit("Where", is_inside, self.number(1) if weight is None else weight, self.number(0))
        return index, kept
