"""Normalisation: GroupNormalization has a scale for each channel since opset 21, for each group before."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from opbridge.conversion.functions import expanded
from opbridge.conversion.schemas import form
from opbridge.conversion.step import Step, lower, raised

_HALVES = frozenset({ir.DataType.FLOAT16, ir.DataType.BFLOAT16})


@lower(17, "LayerNormalization", says="composed of ReduceMean, Sub, Mul, Sqrt and Div")
def _layer_normalization_17(step: Step) -> Sequence[ir.Value]:
    data, scale, bias = step.data, step.input(1), step.input(2)
    dtype = step.dtype(data)
    axis = int(step.get("axis", -1))
    axes = list(range(axis, 0)) if axis < 0 else list(range(axis, step.rank()))
    narrow = dtype in _HALVES and step.get("stash_type", 1) == 1
    wide = ir.DataType.FLOAT if narrow else dtype
    x = step.cast(data, wide)
    mean = step.reduced("ReduceMean", x, axes)
    centred = step.emit("Sub", x, mean)
    variance = step.reduced("ReduceMean", step.emit("Mul", centred, centred), axes)
    epsilon = step.number(np.float32(step.get("epsilon", 1e-5)), wide)
    deviation = step.emit("Sqrt", step.emit("Add", variance, epsilon))
    result = step.cast(step.emit("Div", centred, deviation), dtype)
    result = step.emit("Mul", result, scale)
    if bias is not None:
        result = step.emit("Add", result, bias)
    if not step.is_used(2):
        return [result, mean] if step.is_used(1) else [result]
    return [result, mean, step.emit("Reciprocal", deviation)]


@raised(21, "GroupNormalization", says="scale and bias for each channel")
def _group_normalization_to_21(step: Step) -> None:
    groups = int(step.get("num_groups"))
    channels = step.size(step.data, 1)
    if isinstance(channels, int):
        target: ir.Value = step.number([groups, channels // groups])
    else:
        target = step.sizes(groups, step.emit("Div", channels, [groups]))
    spread = []
    for at in (1, 2):
        value = step.input(at)
        assert value is not None
        wide = step.emit("Expand", step.unsqueezed(value, [1]), target)
        spread.append(step.emit("Reshape", wide, [-1]))
    step.put(step.data, *spread)


@lower(21, "GroupNormalization", says="replaced by its definition")
def _group_normalization_21(step: Step) -> Sequence[ir.Value | None]:
    schema = form("GroupNormalization", 21)
    assert schema is not None
    return expanded(step, schema, step.to)
