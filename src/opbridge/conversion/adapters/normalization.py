"""Normalisation: GroupNormalization has a scale for each channel since opset 21, for each group before."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from opbridge.conversion.functions import expanded
from opbridge.conversion.schemas import form
from opbridge.conversion.step import Step, lower, raised


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
def _group_normalization_21(step: Step) -> Sequence[ir.Value]:
    schema = form("GroupNormalization", 21)
    assert schema is not None
    return expanded(step, schema, step.to)
