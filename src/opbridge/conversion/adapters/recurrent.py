"""Recurrent layers, whose batches may come first since opset 14; and Scan, which has no batches since opset 9."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from opbridge.conversion.step import Step, lower, raised


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


@raised(9, "Scan", says="in another Scan over the batch")
def _scan_9(step: Step) -> None:
    """A Scan of opset 8 scans each element of a batch; here another Scan goes through the batch."""
    if step.input(0) is not None:
        step.refuse("with sequence_lens", remedy="Leave sequence_lens out, with sequences of one length.")
    body, given = step.get("body"), list(step.node.inputs)[1:]
    elements = []
    for value in given:
        sizes = step.shape(value)
        elements.append(step.inside("element", step.dtype(value), None if sizes is None else sizes[1:]))
    attributes = {"body": body, "num_scan_inputs": int(step.get("num_scan_inputs"))}
    if (directions := step.integers("directions")) is not None:
        attributes["scan_input_directions"] = directions
    scan = ir.node("Scan", elements, attributes=attributes, num_outputs=len(step.node.outputs))
    scan.name = step.name(step.node.name or "Scan")
    for value, own in zip(scan.outputs, body.outputs, strict=True):
        value.name, value.type = step.name(own.name), ir.TensorType(step.dtype(own))
    around = ir.Graph(elements, scan.outputs, nodes=[scan], name=step.name("batch"))
    step.set(body=around, num_scan_inputs=len(given), directions=None)
    step.put(*given)
