"""Operators that work element by element."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np
import onnx_ir as ir

from opbridge.conversion.step import Step, lower, raised

_D = ir.DataType
_FLOATS = frozenset({_D.FLOAT16, _D.BFLOAT16, _D.FLOAT, _D.DOUBLE})
_LARGEST = float(np.finfo(np.float32).max)


# Bounds


def _smaller(step: Step, left: ir.Value, right: ir.Value, *, larger: bool = False) -> ir.Value:
    """The smaller of two elements, or the larger, without Min and Max."""
    found: ir.Value = step.emit("Where", step.emit("Less", left, right), *((right, left) if larger else (left, right)))
    return found


@lower(12, "Max", "Min", says="composed of Less and Where")
def _max_12(step: Step) -> Sequence[ir.Value] | None:
    if step.dtype(step.data) in _FLOATS:
        return None
    larger = step.node.op_type == "Max"
    values = [each for each in step.node.inputs if each is not None]
    found = reduce(lambda left, right: _smaller(step, left, right, larger=larger), values)
    return [step.emit("Identity", found) if len(values) == 1 else found]


@lower(12, "Clip", says="composed of Less and Where")
def _clip_12(step: Step) -> Sequence[ir.Value] | None:
    if step.dtype(step.data) in _FLOATS:
        return None
    found = step.data
    for at, larger in ((1, True), (2, False)):
        bound = step.input(at)
        if bound is not None:
            found = _smaller(step, found, bound, larger=larger)
    return [step.emit("Identity", found) if found is step.data else found]


@lower(11, "Clip", says="bounds are attributes")
def _clip_11(step: Step) -> Sequence[ir.Value] | None:
    low, high = step.constant(1), step.constant(2)
    if (step.input(1) is not None and low is None) or (step.input(2) is not None and high is None):
        found = step.data
        for at, op in ((1, "Max"), (2, "Min")):
            if step.input(at) is not None:
                found = step.emit(op, found, step.input(at))
        return [found]
    step.put(step.data)
    step.set(
        min=float("-inf") if low is None else float(low.ravel()[0]),
        max=float("inf") if high is None else float(high.ravel()[0]),
    )
    return None


@raised(11, "Clip", says="bounds are inputs")
def _clip_to_11(step: Step) -> None:
    low, high = float(step.get("min", -_LARGEST)), float(step.get("max", _LARGEST))
    dtype = step.dtype(step.data)
    step.set(min=None, max=None)
    bounds = [None if np.isinf(each) else step.number(np.float32(each), dtype) for each in (low, high)]
    step.put(step.data, *bounds)


# Comparisons


@lower(11, "Equal", says="composed of Less and Greater")
def _equal_11(step: Step) -> Sequence[ir.Value] | None:
    if step.dtype(step.data) not in _FLOATS:
        return None
    left, right = step.data, step.input(1)
    differ = step.emit("Or", step.emit("Less", left, right), step.emit("Greater", left, right))
    nan = step.emit("Or", step.emit("IsNaN", left), step.emit("IsNaN", right))
    return [step.emit("Not", step.emit("Or", differ, nan))]


@lower(10, "IsInf", says="composed of Greater and Less")
def _is_inf_10(step: Step) -> Sequence[ir.Value]:
    dtype = step.dtype(step.data)
    largest = float(np.finfo(dtype.numpy()).max)
    found = []
    if step.get("detect_positive", 1):
        found.append(step.emit("Greater", step.data, step.number(largest, dtype)))
    if step.get("detect_negative", 1):
        found.append(step.emit("Less", step.data, step.number(-largest, dtype)))
    if not found:
        step.refuse("that looks for neither infinity")
    return [step.emit("Or", *found) if len(found) == 2 else found[0]]


# Arithmetic


@lower(12, "Pow", says="in one type")
def _pow_12(step: Step) -> Sequence[ir.Value] | None:
    base, exponent = step.data, step.input(1)
    types = step.dtype(base), step.dtype(exponent)
    if types[0] in _FLOATS:
        if types[0] == types[1]:
            return None
        numbers = step.constant(1)
        if types[1] in _FLOATS:
            exact = numbers is not None and np.array_equal(
                numbers.astype(types[0].numpy()).astype(numbers.dtype), numbers
            )
            if not exact and types != (_D.DOUBLE, _D.FLOAT):
                step.refuse("with an exponent of a different type than the base")
        step.put(base, step.emit("Cast", exponent, to=int(types[0])))
        return None
    assert exponent is not None
    found = step.emit("Pow", step.cast(base, _D.DOUBLE), step.cast(exponent, _D.DOUBLE))
    return [step.emit("Cast", found, to=int(types[0]))]


@lower(28, "Mod", says="composed of the remainder and a choice")
def _mod_28(step: Step) -> Sequence[ir.Value] | None:
    dtype = step.dtype(step.data)
    if step.get("fmod", 0) or dtype not in _FLOATS:
        return None
    divisor = step.input(1)
    rest = step.emit("Mod", step.data, divisor, fmod=1)
    zero = step.number(0.0, dtype)
    signs = step.emit("Xor", step.emit("Less", rest, zero), step.emit("Less", divisor, zero))
    moved = step.emit("And", signs, step.emit("Not", step.emit("Equal", rest, zero)))
    return [step.emit("Where", moved, step.emit("Add", rest, divisor), rest)]


@lower(10, "Mod", says="composed of the quotient and a choice")
def _mod_10(step: Step) -> Sequence[ir.Value]:
    left, right = step.data, step.input(1)
    dtype = step.dtype(left)
    if dtype in _FLOATS:
        step.refuse("of floating-point numbers")
    rest = step.emit("Sub", left, step.emit("Mul", step.emit("Div", left, right), right))
    if step.get("fmod", 0):
        return [rest]
    zero = step.number(0, dtype)
    differs = step.emit("Xor", step.emit("Less", rest, zero), step.emit("Less", right, zero))
    moved = step.emit("And", differs, step.emit("Not", step.emit("Equal", rest, zero)))
    return [step.emit("Where", moved, step.emit("Add", rest, right), rest)]


@lower(11, "Round", says="composed of Floor and choices")
def _round_11(step: Step) -> Sequence[ir.Value]:
    dtype = step.dtype(step.data)
    half, one, two, zero = (step.number(each, dtype) for each in (0.5, 1.0, 2.0, 0.0))
    down = step.emit("Floor", step.data)
    up = step.emit("Add", down, one)
    rest = step.emit("Sub", step.data, down)
    odd = step.emit("Sub", down, step.emit("Mul", step.emit("Floor", step.emit("Div", down, two)), two))
    tie = step.emit("Where", step.emit("Greater", odd, zero), up, down)
    nearest = step.emit("Where", step.emit("Less", rest, half), down, tie)
    return [step.emit("Where", step.emit("Greater", rest, half), up, nearest)]


@lower(18, "BitwiseNot", says="computed as -x - 1")
def _bitwise_not_18(step: Step) -> Sequence[ir.Value]:
    dtype = step.dtype(step.data)
    if dtype not in (_D.INT8, _D.INT16, _D.INT32, _D.INT64):
        step.refuse("of unsigned integers")
    return [step.emit("Sub", step.emit("Neg", step.data), step.number(1, dtype))]


@lower(20, "Gelu", says="composed of Erf or Tanh")
def _gelu_20(step: Step) -> Sequence[ir.Value]:
    x, dtype = step.data, step.dtype(step.data)
    half, one = step.number(0.5, dtype), step.number(1.0, dtype)
    if step.get("approximate", "none") == "tanh":
        cube = step.emit("Mul", x, step.emit("Mul", x, x))
        inner = step.emit("Add", x, step.emit("Mul", cube, step.number(0.044715, dtype)))
        bent = step.emit("Tanh", step.emit("Mul", inner, step.number(math.sqrt(2 / math.pi), dtype)))
    else:
        bent = step.emit("Erf", step.emit("Div", x, step.number(math.sqrt(2), dtype)))
    return [step.emit("Mul", step.emit("Mul", x, step.emit("Add", bent, one)), half)]


# Elements without an operator of many inputs


@lower(8, "Sum", "Max", "Min", "Mean", says="of tensors of one shape")
def _variadic_8(step: Step) -> Sequence[ir.Value] | None:
    shapes = [step.shape(each) for each in step.node.inputs]
    if shapes[0] is not None and all(
        None not in shapes[0] and each == shapes[0] for each in shapes if each is not None
    ):
        if None not in shapes:
            return None
    if step.node.op_type != "Sum" or len(shapes) == 1:
        step.refuse("of tensors of several shapes")
    values: list[Any] = list(step.node.inputs)
    return [reduce(lambda left, right: step.emit("Add", left, right), values)]
