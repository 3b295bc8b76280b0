"""LSTM layers with projections of the hidden state, which ONNX's LSTM lacks: a loop over the time steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx_ir as ir

# onnxscript reads the source of these functions: what they contain is ONNX.
from onnxscript import opset18 as op
from onnxscript import script
from onnxscript.values import Opset

from opbridge.translations.lib.dtypes import cast

__all__ = ["projected_layers"]

_DOMAIN = Opset("opbridge", 1)


@script(_DOMAIN, default_opset=op)
def projected_lstm(gates, hidden, cell, recurrence, projection):
    """The projected states of all time steps, and the last states.

    `gates` is the part of the gates that the input gives, of shape (length, batch, 4 x features), in torch's order.
    """
    count = op.Squeeze(op.Shape(gates, start=0, end=1))
    outputs = op.SequenceEmpty(dtype=1)
    for step in range(count):
        total = op.Gather(gates, step, axis=0) + op.MatMul(hidden, recurrence)
        enter, forget, new, leave = op.Split(total, num_outputs=4, axis=-1)
        cell = op.Sigmoid(forget) * cell + op.Sigmoid(enter) * op.Tanh(new)
        hidden = op.MatMul(op.Sigmoid(leave) * op.Tanh(cell), projection)
        outputs = op.SequenceInsert(outputs, hidden)
    stacked = op.ConcatFromSequence(outputs, axis=0, new_axis=1)
    return stacked, hidden, cell


def projected_layers(
    input: Any,
    hx: Sequence[Any],
    params: Sequence[Any],
    has_biases: bool,
    num_layers: int,
    directions: int,
    batch_first: bool,
) -> tuple[Any, Any, Any]:
    """A stack of LSTM layers with projections: the output, the last hidden and the last cell states.

    Args:
        input: Of shape (length, batch, features), or the first two the other way round.
        hx: The first hidden states, of shape (layers x directions, batch, projected features), and cell states.
        params: For each layer and direction the weights of the input and of the hidden state, both biases if there are
            any, and the projection, in turn.
        has_biases: Whether there are biases.
        num_layers: How many layers there are.
        directions: 2 where each layer runs in both directions, else 1.
        batch_first: Whether the batch is the input's first dimension.
    """
    dtype = input.dtype
    input, hidden, cell = (cast(each, ir.DataType.FLOAT) for each in (input, *hx))
    weights = [cast(each, ir.DataType.FLOAT) for each in params]
    each = 5 if has_biases else 3
    current = op.Transpose(input, perm=[1, 0, 2]) if batch_first else input
    hiddens, cells = [], []
    for layer in range(num_layers):
        outputs = []
        for direction in range(directions):
            place = layer * directions + direction
            given = weights[place * each :][:each]
            sequence = _reversed(current) if direction else current
            gates = op.MatMul(sequence, op.Transpose(given[0], perm=[1, 0]))
            if has_biases:
                gates = op.Add(op.Add(gates, given[2]), given[3])
            states = (op.Gather(state, place, axis=0) for state in (hidden, cell))
            transposed = (op.Transpose(weight, perm=[1, 0]) for weight in (given[1], given[-1]))
            output, last_hidden, last_cell = projected_lstm(gates, *states, *transposed)
            for value in (output, last_hidden, last_cell):
                value.type = ir.TensorType(ir.DataType.FLOAT)
            outputs.append(_reversed(output) if direction else output)
            hiddens.append(op.Unsqueeze(last_hidden, [0]))
            cells.append(op.Unsqueeze(last_cell, [0]))
        current = op.Concat(*outputs, axis=-1) if directions == 2 else outputs[0]
    if batch_first:
        current = op.Transpose(current, perm=[1, 0, 2])
    stacked = (op.Concat(*states, axis=0) for states in (hiddens, cells))
    output, hidden, cell = (cast(value, dtype) for value in (current, *stacked))
    return output, hidden, cell


def _reversed(sequence: Any) -> Any:
    """The time steps the other way round."""
    return op.Slice(sequence, [-1], [-(1 << 62)], [0], [-1])
