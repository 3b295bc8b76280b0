"""Quantisation."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from opbridge.conversion.step import Step, lower

_D = ir.DataType


@lower(21, "QuantizeLinear", says="the type of the result is that of the zero point")
def _quantize_21(step: Step) -> None:
    dtype = int(step.get("output_dtype", 0))
    step.set(output_dtype=None)
    if step.input(2) is None and dtype not in (0, int(_D.UINT8)):
        scale = step.input(1)
        shape = step.shape(scale)
        if shape is None or not all(isinstance(each, int) for each in shape):
            step.refuse("with an output_dtype and a scale of unknown shape")
        zero = step.number(np.zeros([int(each) for each in shape if isinstance(each, int)]), _D(dtype))
        step.put(step.data, scale, zero)


@lower(23, "DequantizeLinear", says="cast to the type of the result")
def _dequantize_23(step: Step) -> Sequence[ir.Value] | None:
    dtype = int(step.get("output_dtype", 0))
    if dtype in (0, int(step.dtype(step.input(1)))):
        step.set(output_dtype=None)
        return None
    attributes = {name: step.get(name) for name in ("axis", "block_size") if step.has(name)}
    (found,) = step.again(*step.node.inputs, **attributes)
    return [step.emit("Cast", found, to=dtype)]


def _along(step: Step, value: ir.Value, axis: int, rank: int) -> ir.Value:
    """A value of an axis, in a shape that broadcasts along it."""
    return value if axis == rank - 1 else step.unsqueezed(value, list(range(1, rank - axis)))


def _per_axis(step: Step) -> tuple[int, int] | None:
    """The axis and the number of dimensions where there is a scale for each place along an axis."""
    shape = step.shape(step.input(1))
    if shape is None:
        step.refuse("with a scale of unknown rank")
    if shape in ([], [1]):
        step.set(axis=None)
        return None
    rank = step.rank()
    return int(step.get("axis", 1)) % rank, rank


@lower(13, "DequantizeLinear", says="composed of Sub and Mul along the axis")
def _dequantize_13(step: Step) -> Sequence[ir.Value] | None:
    found = _per_axis(step)
    if found is None:
        return None
    axis, rank = found
    scale, zero = step.input(1), step.input(2)
    assert scale is not None
    wide = step.emit("Cast", step.data, to=int(_D.FLOAT))
    if zero is not None:
        wide = step.emit("Sub", wide, _along(step, step.emit("Cast", zero, to=int(_D.FLOAT)), axis, rank))
    return [step.emit("Mul", wide, _along(step, scale, axis, rank))]


@lower(13, "QuantizeLinear", says="composed of Div, Round and Clip along the axis")
def _quantize_13(step: Step) -> Sequence[ir.Value] | None:
    found = _per_axis(step)
    if found is None:
        return None
    axis, rank = found
    scale, zero = step.input(1), step.input(2)
    assert scale is not None
    dtype = _D.UINT8 if zero is None else step.dtype(zero)
    limits = np.iinfo(dtype.numpy())
    value = step.emit("Div", step.cast(step.data, _D.FLOAT), _along(step, scale, axis, rank))
    value = step.emit("Round", value)
    if zero is not None:
        value = step.emit("Add", value, _along(step, step.emit("Cast", zero, to=int(_D.FLOAT)), axis, rank))
    bounds = [step.number(np.float32(each)) for each in (limits.min, limits.max)]
    return [step.emit("Cast", step.emit("Clip", value, *bounds), to=int(dtype))]
