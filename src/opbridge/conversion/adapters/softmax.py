"""Softmax, LogSoftmax and Hardmax: along one axis since opset 13, over all axes from one on before."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from opbridge.conversion.step import Step, lower, raised

_NAMES = ("Softmax", "LogSoftmax", "Hardmax")


@lower(13, *_NAMES, says="along the last axis")
def _to_12(step: Step) -> Sequence[ir.Value] | None:
    axis = int(step.get("axis", -1))
    if axis == -1:
        step.set(axis=-1)
        return None
    rank = step.rank()
    axis %= rank
    if axis == rank - 1:
        step.set(axis=-1)
        return None
    order = list(range(rank))
    order[axis], order[-1] = order[-1], order[axis]
    moved = step.emit("Transpose", step.data, perm=order)
    found = step.emit(step.node.op_type, moved, axis=-1)
    return [step.emit("Transpose", found, perm=order)]


@raised(13, *_NAMES, says="over a flattened tensor")
def _to_13(step: Step) -> Sequence[ir.Value] | None:
    axis = int(step.get("axis", 1))
    shape = step.shape(step.data)
    if axis == -1 or (shape is not None and axis % max(len(shape), 1) == len(shape) - 1):
        step.set(axis=-1)
        return None
    flat = step.emit("Flatten", step.data, axis=axis)
    found = step.emit(step.node.op_type, flat, axis=-1)
    return [step.emit("Reshape", found, step.emit("Shape", step.data))]


@lower(11, *_NAMES, says="axes are counted from the front")
def _to_10(step: Step) -> None:
    axis = int(step.get("axis", 1))
    step.set(axis=axis + step.rank() if axis < 0 else axis)
