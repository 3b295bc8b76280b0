"""Comparisons, bounds and activations.

Opset 7 gave these operators their broadcasting; later ones gave them more types, and a few new operators.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from opbridge.onnx.downgrade.call import Call, changed
from opbridge.onnx.tensor import FLOATS, Tensor


@changed(11, "Equal")
def _equal_11(call: Call) -> Sequence[Tensor]:
    """Floating-point numbers can be equal since opset 11: before, neither less nor greater, nor NaN."""
    left, right = call.inputs
    if call.data.dtype not in FLOATS:
        return call.older(left, right)
    different = call.emit("Or", call.emit("Less", left, right), call.emit("Greater", left, right))
    for place in (0, 1):
        numbers = call.known(place)
        if numbers is None or np.isnan(numbers).any():
            different = call.emit("Or", different, call.emit("IsNaN", call.inputs[place]))
    return (call.emit("Not", different),)


@changed(12, "GreaterOrEqual", "LessOrEqual")
def _or_equal_12(call: Call) -> Sequence[Tensor]:
    """These came with opset 12. Of NaN neither Less nor GreaterOrEqual holds, so the one is not the other's Not."""
    left, right = call.inputs
    greater = call.name == "GreaterOrEqual"
    if call.data.dtype in FLOATS:
        strict = call.emit("Greater" if greater else "Less", left, right)
        return (call.emit("Or", strict, call.emit("Equal", left, right)),)
    return (call.emit("Not", call.emit("Less" if greater else "Greater", left, right)),)


@changed(12, "Max", "Min")
def _extreme_12(call: Call) -> Sequence[Tensor]:
    """Integers have a Max and Min since opset 12; a choice by their order, before."""
    if call.data.dtype in FLOATS:
        return call.unchanged()
    order = "Greater" if call.name == "Max" else "Less"

    def pick(left: Tensor, right: Tensor) -> Tensor:
        return call.emit("Where", call.emit(order, left, right), left, right)

    return (functools.reduce(pick, [value for value in call.inputs if value is not None]),)


@changed(14, "Relu")
def _relu_14(call: Call) -> Sequence[Tensor]:
    """Integers have a Relu since opset 14."""
    return call.unchanged() if call.data.dtype in FLOATS else (call.emit("Max", call.data, 0),)


def _bounded(call: Call) -> Sequence[Tensor]:
    result = call.data
    for place, bound in ((1, "Max"), (2, "Min")):
        if call.input(place) is not None:
            result = call.emit(bound, result, call.input(place))
    return (result,)


@changed(12, "Clip")
def _clip_12(call: Call) -> Sequence[Tensor]:
    """Since opset 12 integers can be clipped, and ONNX Runtime clips float64."""
    return _bounded(call) if call.data.dtype not in FLOATS - {ir.DataType.DOUBLE} else call.unchanged()


@changed(11, "Clip")
def _clip_11(call: Call) -> Sequence[Tensor]:
    """The bounds are inputs since opset 11."""
    bounds = {}
    for place, name in ((1, "min"), (2, "max")):
        if call.input(place) is not None:
            known = call.known(place)
            if known is None:
                return _bounded(call)
            bounds[name] = float(known.item())
    return call.older(call.data, **bounds)


@changed(12, "Pow")
def _pow_12(call: Call) -> Sequence[Tensor]:
    """Integers have powers, and base and exponent may differ in type, since opset 12."""
    base, exponent = call.data, call.input(1)
    assert base.dtype is not None and exponent is not None
    if base.dtype not in FLOATS:
        call.refuse("of integers")
    if exponent.dtype != base.dtype:
        numbers = call.known(1)
        if numbers is None or not np.array_equal(numbers.astype(base.dtype.numpy()).astype(numbers.dtype), numbers):
            call.refuse("with an exponent of a different type than the base")
        exponent = call.builder.constant(numbers, base.dtype)
    return call.older(base, exponent)


@changed(10, "IsInf")
def _is_inf_10(call: Call) -> Sequence[Tensor]:
    """IsInf came with opset 10: beyond the largest number."""
    assert call.data.dtype is not None
    largest = float(np.finfo(call.data.dtype.numpy()).max)
    above = call.emit("Greater", call.data, largest)
    below = call.emit("Less", call.data, -largest)
    if not call.attributes.get("detect_positive", 1):
        return (below,)
    return (call.emit("Or", above, below) if call.attributes.get("detect_negative", 1) else above,)


@changed(14, "HardSwish")
def _hard_swish_14(call: Call) -> Sequence[Tensor]:
    """HardSwish came with opset 14."""
    return (call.emit("Mul", call.data, call.emit("HardSigmoid", call.data, alpha=1 / 6, beta=0.5)),)


@changed(18, "Mish")
def _mish_18(call: Call) -> Sequence[Tensor]:
    """Mish came with opset 18."""
    return (call.emit("Mul", call.data, call.emit("Tanh", call.emit("Softplus", call.data))),)


@changed(12, "Celu")
def _celu_12(call: Call) -> Sequence[Tensor]:
    """Celu came with opset 12: Elu of the input in units of alpha."""
    alpha = float(call.attributes.get("alpha", 1.0))
    if alpha == 1.0:
        return (call.emit("Elu", call.data),)
    return (call.emit("Mul", call.emit("Elu", call.emit("Div", call.data, alpha)), alpha),)


@changed(10, "Mod")
def _mod_10(call: Call) -> Sequence[Tensor]:
    """Mod came with opset 10: of integers, what the division towards zero leaves, with the divisor's sign."""
    left, right = call.inputs
    if call.data.dtype in FLOATS:
        call.refuse("of floating-point numbers")
    rest = call.emit("Sub", left, call.emit("Mul", call.emit("Div", left, right), right))
    if call.attributes.get("fmod"):
        return (rest,)
    differs = call.emit("Xor", call.emit("Less", rest, 0), call.emit("Less", right, 0))
    moved = call.emit("And", differs, call.emit("Not", call.emit("Equal", rest, 0)))
    return (call.emit("Where", moved, call.emit("Add", rest, right), rest),)
