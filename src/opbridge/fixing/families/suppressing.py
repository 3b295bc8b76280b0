"""NonMaxSuppression by comparing each box with each other one."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from opbridge.conversion.step import Step
from opbridge.fixing.families.places import coordinates, in_places
from opbridge.fixing.site import Refused, Site, repair

_Dtype = ir.DataType

_MOST = 1 << 26
"""So many pairs of boxes stand in a table, at most (256 MB of float32)."""

_LACKING = ("CumSum", "Loop", "ScatterElements", "Slice", "Where")
_UNLIMITED = 1 << 31


@repair("missing-operator", "no-kernel", operators=["NonMaxSuppression"])
def by_pairs(site: Site) -> str:
    """All pairs are compared at once, and what is kept is computed again until it stays as it is.

    1. A box may be suppressed by one that has a higher score, or the same and comes before it, and that overlaps it by
       more than the threshold, in the arithmetic of ONNX Runtime.
    2. A box is kept unless one that is kept suppresses it. This is computed from what was kept in the last round, at
       first all boxes. After n rounds it is right of all boxes that fewer than n others decide on, one after the other.
    3. A box that is kept knows its place: as many boxes that are kept have a higher score.
    """
    step = site.step()
    if site.finding.severity != "error":
        raise Refused("that the CPU computes")
    if any(map(site.is_lacked, _LACKING)):
        raise Refused(f"without one of {', '.join(_LACKING)}")
    scores = step.input(1)
    shape = step.shape(scores)
    if scores is None or shape is None or len(shape) != 3:
        raise Refused("of scores of unknown rank")
    sizes = [step.size(scores, axis) for axis in range(3)]
    known = [each for each in (*sizes, sizes[2]) if isinstance(each, int)]
    if math.prod(known) > _MOST:
        raise Refused(f"of more than {_MOST} pairs of boxes")
    limit = step.constant(2)
    if step.input(2) is None or (limit is not None and limit.size and int(limit.ravel()[0]) <= 0):
        raise Refused("that keeps no box")
    zero, one = (step.number(each, _Dtype.FLOAT) for each in (0, 1))
    each, other = step.unsqueezed(scores, [3]), step.unsqueezed(scores, [2])
    before = _before(step, each, other, sizes[2])
    suppresses = step.emit("And", before, step.unsqueezed(_overlap(step), [1]))
    least = step.input(4)
    counted = (
        step.emit("Not", step.emit("Greater", scores, step.number(np.inf, _Dtype.FLOAT)))
        if least is None
        else step.emit("Greater", scores, least)
    )
    allowed = step.emit("Where", counted, one, zero)
    kept = _kept(step, allowed, suppresses)
    ranks = step.reduced("ReduceSum", step.emit("Where", before, step.unsqueezed(kept, [3]), zero), [2], keepdims=0)
    is_kept = step.emit("Greater", kept, step.number(0.5, _Dtype.FLOAT))
    ranks = step.cast(ranks, _Dtype.INT64)
    if limit is None or int(limit.ravel()[0]) < _UNLIMITED:
        is_kept = step.emit("And", is_kept, step.emit("Less", ranks, step.input(2)))
    site.put(step, _selected(step, is_kept, ranks, sizes))
    return "replaced NonMaxSuppression by a comparison of all pairs of boxes"


def _before(step: Step, each: ir.Value, other: ir.Value, size: int | ir.Value) -> ir.Value:
    """Whether each box comes before the other one: by its score, or else by its number."""
    end = step.number(size) if isinstance(size, int) else step.squeezed(size, [0])
    numbers = step.emit("Range", step.number(0), end, step.number(1))
    earlier = step.emit("Less", step.unsqueezed(numbers, [1]), step.unsqueezed(numbers, [0]))
    tied = step.emit("And", step.emit("Equal", each, other), earlier)
    return step.emit("Or", step.emit("Greater", each, other), tied)


def _overlap(step: Step) -> ir.Value:
    """Whether two boxes overlap by more than the threshold: (batch, boxes, boxes)."""
    zero = step.number(0, _Dtype.FLOAT)
    lows, highs = _corners(step)
    areas = step.emit("Mul", *(step.emit("Sub", high, low) for low, high in zip(lows, highs, strict=True)))
    sides = [
        step.emit("Sub", _pairs(step, "Min", high), _pairs(step, "Max", low))
        for low, high in zip(lows, highs, strict=True)
    ]
    common = step.emit("Mul", *sides)
    union = step.emit("Sub", _pairs(step, "Add", areas), common)
    # An overlap without an area, and boxes without one, do not count.
    has_area = step.emit("Greater", areas, zero)
    counts = _pairs(step, "And", has_area)
    for value in (*sides, common, union):
        counts = step.emit("And", counts, step.emit("Greater", value, zero))
    threshold = step.input(3)
    share = step.emit("Div", common, union)
    return step.emit("And", counts, step.emit("Greater", share, zero if threshold is None else threshold))


def _corners(step: Step) -> tuple[list[ir.Value], list[ir.Value]]:
    """The lower and the upper end of each box along both axes, each of shape (batch, boxes, 1)."""
    first, second, third, fourth = (step.sliced(step.data, at, at + 1, 2) for at in range(4))
    if int(step.get("center_point_box", 0)):
        two = step.number(2, _Dtype.FLOAT)
        halves = [(middle, step.emit("Div", side, two)) for middle, side in ((second, fourth), (first, third))]
        return [step.emit("Sub", *pair) for pair in halves], [step.emit("Add", *pair) for pair in halves]
    ends = ((first, third), (second, fourth))
    return [step.emit("Min", *pair) for pair in ends], [step.emit("Max", *pair) for pair in ends]


def _pairs(step: Step, operator: str, column: ir.Value) -> ir.Value:
    """An operator of a number of each box and that of each other one."""
    return step.emit(operator, column, step.emit("Transpose", column, perm=[0, 2, 1]))


def _kept(step: Step, allowed: ir.Value, suppresses: ir.Value) -> ir.Value:
    """Which boxes are kept, as ones and zeros: (batch, classes, boxes)."""
    half = step.number(0.5, _Dtype.FLOAT)
    zero = step.number(0, _Dtype.FLOAT)
    true = step.number(True, _Dtype.BOOL)
    number = step.inside("iteration", _Dtype.INT64, [])
    going = step.inside("go_on", _Dtype.BOOL, [])
    carried = step.inside("carried", _Dtype.FLOAT, step.shape(allowed))
    outer, step.new = step.new, []
    seen = step.emit("Where", suppresses, step.unsqueezed(carried, [3]), zero)
    blocked = step.emit("Greater", step.reduced("ReduceSum", seen, [2], keepdims=0), half)
    result = step.emit("Where", blocked, zero, allowed)
    changes = step.emit("Abs", step.emit("Sub", result, carried))
    total = step.reduced("ReduceSum", changes, [0, 1, 2], keepdims=0)
    results = [step.emit("Greater", total, half), result]
    nodes, step.new = [each for each, _ in step.new], outer
    body = ir.Graph([number, going, carried], results, nodes=nodes, name=step.name("body"))
    node = ir.node("Loop", [None, true, allowed], attributes={"body": body}, num_outputs=1)
    type_ = onnx.helper.make_tensor_type_proto(int(_Dtype.FLOAT), step.shape(allowed))
    step.types.set(node.outputs[0], type_)
    step.add(node, step.to)
    return node.outputs[0]


def _selected(step: Step, is_kept: ir.Value, ranks: ir.Value, sizes: list[int | ir.Value]) -> ir.Value:
    """The batch, the class and the number of each box that is kept, in this order and then by its score."""
    flat = step.emit("Reshape", is_kept, [-1])
    places: Any = step.emit("Reshape", ranks, [-1])
    counts = step.reduced("ReduceSum", step.cast(is_kept, _Dtype.INT64), [2])
    if sizes[:2] != [1, 1]:
        by_class = step.emit("Reshape", counts, [-1])
        start = step.emit("CumSum", by_class, step.number(0), exclusive=1)
        starts = step.emit("Reshape", start, step.emit("Shape", counts))
        places = step.emit("Reshape", step.emit("Add", ranks, starts), [-1])
    total = step.reduced("ReduceSum", step.emit("Reshape", counts, [-1]), [0])
    chosen = in_places(step, flat, places, step.product(sizes), total)
    columns = [step.unsqueezed(each, [1]) for each in coordinates(step, chosen, sizes)]
    return step.emit("Concat", *columns, axis=1)
