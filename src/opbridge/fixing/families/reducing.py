"""Reductions of something that is computed element by element: that, ReduceSum, and what follows."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir

from opbridge.conversion.step import Step
from opbridge.fixing.site import Refused, Site, repair

_WHERE = ("missing-operator", "no-kernel", "unsupported-form", "unsupported-type", "unsupported-revision")
_WRITTEN = {
    "ReduceL1": "Abs and ReduceSum",
    "ReduceL2": "Mul, ReduceSum and Sqrt",
    "ReduceLogSum": "ReduceSum and Log",
    "ReduceLogSumExp": "ReduceMax, Sub, Exp, ReduceSum, Log and Add",
    "ReduceSumSquare": "Mul and ReduceSum",
}


@repair(*_WHERE, operators=_WRITTEN)
def with_a_sum(site: Site) -> str:
    """ONNX defines these by ReduceSum. The largest element is taken from those whose Exp is summed, and added to the
    Log, so that none is too large."""
    step, operator = site.step(), site.node.op_type
    if site.is_lacked("ReduceSum"):
        raise Refused("without ReduceSum")
    data = step.data
    if operator in ("ReduceL2", "ReduceLogSum", "ReduceLogSumExp") and step.dtype(data).is_integer():
        raise Refused("of integers, whose result is rounded")
    if operator == "ReduceL1":
        result = _reduced(step, "ReduceSum", step.emit("Abs", data))
    elif operator == "ReduceLogSum":
        result = step.emit("Log", _reduced(step, "ReduceSum", data))
    elif operator == "ReduceLogSumExp":
        result = _log_sum_exp(step, data)
    else:
        result = _reduced(step, "ReduceSum", step.emit("Mul", data, data))
        result = step.emit("Sqrt", result) if operator == "ReduceL2" else result
    site.put(step, result)
    return f"replaced {operator} by {_WRITTEN[operator]}"


def _log_sum_exp(step: Step, data: ir.Value) -> ir.Value:
    shape = step.shape(data)
    if shape is None or 0 in shape:
        raise Refused("of an empty tensor or of one with unknown shape")
    dtype = step.dtype(data)
    infinite = step.number(float("inf"), dtype)

    def finite(largest: ir.Value) -> ir.Value:
        """0 in the place of infinities, from which nothing can be taken."""
        is_finite = step.emit("Less", step.emit("Abs", largest), infinite)
        return step.emit("Where", is_finite, largest, step.number(0.0, dtype))

    shifted = step.emit("Sub", data, finite(_reduced(step, "ReduceMax", data, keepdims=1)))
    total = step.emit("Log", _reduced(step, "ReduceSum", step.emit("Exp", shifted)))
    return step.emit("Add", total, finite(_reduced(step, "ReduceMax", data)))


def _reduced(step: Step, op: str, data: ir.Value, *, keepdims: int | None = None) -> ir.Value:
    """A reduction over the axes of the node, in the form of its opset."""
    attributes: dict[str, Any] = {"keepdims": step.get("keepdims", 1) if keepdims is None else keepdims}
    axes, given = step.integers("axes"), step.input(1)
    if step.to < 18 and op == "ReduceSum" and step.to >= 13:
        given = None if axes is None else step.number(axes)
    elif step.to < 18:
        attributes["axes"] = axes
    if step.to >= 18:
        attributes["noop_with_empty_axes"] = step.get("noop_with_empty_axes", 0) or None
    return step.emit(op, data, given, **attributes)
