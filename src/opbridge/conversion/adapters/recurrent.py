"""Recurrent layers: batches may come first since opset 14."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from opbridge.conversion.step import Step, lower


@lower(14, "GRU", "LSTM", "RNN", says="with the batch second")
def _recurrent_14(step: Step) -> Sequence[ir.Value] | None:
    layout = int(step.get("layout", 0))
    step.set(layout=None)
    if not layout:
        return None
    given = list(step.node.inputs)
    for at in (0, 5, 6):
        if at < len(given) and given[at] is not None:
            given[at] = step.emit("Transpose", given[at], perm=[1, 0, 2])
    attributes = {name: each.value for name, each in step.node.attributes.items()}
    found = step.again(*given, **attributes)
    orders = ([2, 0, 1, 3], [1, 0, 2], [1, 0, 2])
    return [step.emit("Transpose", value, perm=order) for value, order in zip(found, orders, strict=False)]
