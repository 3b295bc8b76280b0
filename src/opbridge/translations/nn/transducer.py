"""torchaudio's loss of a transducer, which sums over all alignments of labels with moments."""

from __future__ import annotations

import math
from typing import Any

import onnx_ir as ir
from onnxscript import opset18 as op

from opbridge.translations.lib.dims import Dim, dims_of, shape_of
from opbridge.translations.lib.dtypes import cast, const
from opbridge.translations.registry import builtin

_INT64 = ir.DataType.INT64


@builtin("torchaudio::rnnt_loss_forward")
def rnnt_loss_forward(
    logits,
    targets,
    logit_lengths,
    target_lengths,
    blank: int,
    clamp: float,
    fused_log_softmax: bool,
):
    """rnnt_loss_forward(Tensor logits, Tensor targets, Tensor logit_lengths, Tensor target_lengths, int blank, float
    clamp, bool fused_log_softmax) -> (Tensor, Tensor)

    The logits are of shape (batch, moments, labels + 1, classes). The second result, the gradient, is not computed; the
    clamp is its own.
    """
    # onnxscript takes its time to read the function, which few models need.
    from opbridge.translations.nn.transducer_function import transducer_forward

    logs = op.LogSoftmax(logits, axis=-1) if fused_log_softmax else logits
    batch, moments, places, _ = dims_of(logits)
    counts, lengths = (op.Reshape(cast(each, _INT64), [-1, 1]) for each in (target_lengths, logit_lengths))
    blanks = op.Squeeze(op.Slice(logs, const([blank]), const([blank + 1]), const([-1])), const([-1]))
    # What is beyond a target's length is not read, and may be anything.
    labels = op.Where(op.Less(op.Range(0, (places - 1).value, 1), counts), cast(targets, _INT64), 0)
    indices = op.Expand(op.Unsqueeze(labels, const([1, -1])), shape_of([batch, moments, places - 1, 1]))
    before_last = op.Slice(logs, const([0]), const([-1]), const([2]))
    emissions = op.Squeeze(op.GatherElements(before_last, indices, axis=-1), const([-1]))
    nothing = const(-math.inf, logits.dtype)
    emissions = op.Pad(emissions, const([0, 1]), nothing, const([-1]))  # no label follows the last one
    diagonals = [_by_diagonal(each, batch, moments, places, nothing) for each in (blanks, emissions)]
    start = op.Where(op.Equal(op.Range(0, places.value, 1), 0), const(0, logits.dtype), nothing)
    last = op.Sub(op.Add(lengths, counts), 1)
    forward = transducer_forward(*diagonals, last, op.Expand(start, shape_of([batch, places])))
    # An alignment ends with the blank after the last label at the last moment.
    of_rows = op.Transpose(diagonals[0], perm=[1, 0, 2])
    at_last = op.Expand(op.Unsqueeze(last, const([-1])), shape_of([batch, 1, places]))
    ends = op.Squeeze(op.GatherElements(of_rows, at_last, axis=1), const([1]))
    costs = op.Neg(op.Squeeze(op.GatherElements(op.Add(forward, ends), counts, axis=1), const([1])))
    return costs, None


def _by_diagonal(x: Any, batch: Dim, moments: Dim, places: Dim, nothing: Any) -> Any:
    """The elements (batch, moments, places) by the sum of moment and place (diagonals, batch, places).

    The row of each place is moved by that place: of rows that are longer by one element than those that they become.
    """
    rows = op.Transpose(x, perm=[0, 2, 1])
    padded = op.Pad(rows, shape_of([0, places]), nothing, const([-1]))
    flat = op.Reshape(padded, shape_of([batch, -1]))
    flat = op.Slice(flat, const([0]), op.Neg(op.Reshape(places.value, [1])), const([1]))
    moved = op.Reshape(flat, shape_of([batch, places, moments + places - 1]))
    return op.Transpose(moved, perm=[2, 0, 1])
