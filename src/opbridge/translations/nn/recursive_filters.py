"""torchaudio's recursive filters, which its operators compute sample by sample, as linear recurrences."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnxscript import opset18 as op

from opbridge.errors import TranslationError
from opbridge.translations.lib.dtypes import cast_like, computed_in_double, const
from opbridge.translations.lib.recurrences import linear_recurrence
from opbridge.translations.registry import builtin

_FEEDBACK = 0.995
"""The share of the last output that `overdrive` adds to a sample."""


@builtin("torchaudio::_lfilter_core_loop")
@computed_in_double
def lfilter_core_loop(input_signal_windows, a_coeff_flipped, padded_output_waveform):
    """_lfilter_core_loop(Tensor input_signal_windows, Tensor a_coeff_flipped, Tensor(a!) padded_output_waveform) ->
    Tensor(a!)

    The samples are of shape (batch, channel, time), the coefficients (channel, order + 1), the last one first; the
    output begins with the `order` samples before it.
    """
    order = _known(a_coeff_flipped.shape, -1) - 1
    before, written = _split(padded_output_waveform, order)
    # What is written is multiplied by the first coefficient before it is: torchaudio writes to zeros.
    first = op.Unsqueeze(_part(a_coeff_flipped, order, order + 1), const([0]))
    samples = op.Sub(input_signal_windows, op.Mul(written, first))
    if order == 0:
        return samples
    # A row of the state has the last `order` outputs, the newest first.
    feedback = op.Neg(_part(a_coeff_flipped, 0, order))
    newest = op.Unsqueeze(op.Slice(feedback, const([-1]), const([-order - 1]), const([-1]), const([-1])), const([-1]))
    older = cast_like(const(np.eye(order, dtype=np.float32)[:, : order - 1]), samples)
    spread = op.Expand(older, op.Concat(op.Shape(feedback, end=1), const([order, order - 1]), axis=0))
    matrix = op.Concat(newest, spread, axis=-1)
    state = op.Unsqueeze(op.Slice(before, const([-1]), const([-order - 1]), const([-1]), const([-1])), const([2]))
    columns = op.Pad(op.Unsqueeze(samples, const([-1])), const([0, order - 1]), None, const([-1]))
    begin = op.Add(_rows(columns, 0, 1), op.MatMul(state, matrix))
    found = linear_recurrence(op.Concat(begin, _rows(columns, 1, None), axis=2), matrix)
    output = op.Squeeze(op.Slice(found, const([0]), const([1]), const([-1])), const([-1]))
    return op.Concat(before, output, axis=-1)


@builtin("torchaudio::_overdrive_core_loop")
def overdrive_core_loop(waveform, temp, last_in, last_out, output_waveform):
    """_overdrive_core_loop(Tensor waveform, Tensor temp, Tensor(a!) last_in, Tensor(b!) last_out, Tensor(c!)
    output_waveform) -> (Tensor(a!), Tensor(b!), Tensor(c!))

    Waveforms are of shape (channel, time), the last sample and output of shape (channel,).
    """
    ahead = op.Unsqueeze(op.Sub(op.Mul(last_out, _number(_FEEDBACK, temp)), last_in), const([-1]))
    differences = op.Sub(
        temp, op.Pad(op.Slice(temp, const([0]), const([-1]), const([-1])), const([1, 0]), None, const([-1]))
    )
    begin = op.Add(op.Slice(differences, const([0]), const([1]), const([-1])), ahead)
    values = op.Concat(begin, op.Slice(differences, const([1]), const([_END]), const([-1])), axis=-1)
    matrix = op.Reshape(_number(_FEEDBACK, temp), const([1, 1]))
    found = op.Squeeze(linear_recurrence(op.Unsqueeze(values, const([-1])), matrix), const([-1]))
    mixed = op.Add(op.Mul(waveform, _number(0.5, temp)), op.Mul(found, _number(0.75, temp)))
    return _last(temp), _last(found), mixed


_END = np.iinfo(np.int64).max


def _number(value: float, like: Any) -> Any:
    return cast_like(const(value, np.float64), like)


def _known(shape: Any, axis: int) -> int:
    size = None if shape is None else shape[axis]
    if not isinstance(size, int):
        raise TranslationError("The order of a recursive filter is required at export. Make that dimension static.")
    return size


def _part(x: Any, start: int, end: int) -> Any:
    return op.Slice(x, const([start]), const([end]), const([-1]))


def _split(x: Any, count: int) -> tuple[Any, Any]:
    return _part(x, 0, count), _part(x, count, _END)


def _rows(x: Any, start: int, end: int | None) -> Any:
    return op.Slice(x, const([start]), const([_END if end is None else end]), const([2]))


def _last(x: Any) -> Any:
    return op.Squeeze(op.Slice(x, const([-1]), const([_END]), const([-1])), const([-1]))
