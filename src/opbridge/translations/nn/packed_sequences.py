"""Sequences of several lengths: packed, and padded to one length. The layers that take them are in `recurrent`."""

from __future__ import annotations

import functools
from typing import Any

from onnxscript import opset18 as op

from opbridge.translations.lib.dims import Dim, dim_of, maximum
from opbridge.translations.lib.dtypes import const
from opbridge.translations.lib.packed_sequences import Padded, batch_sizes_of, masked, packed, padded_form
from opbridge.translations.lib.reshaping import take_slice
from opbridge.translations.registry import builtin


@builtin("aten::_pack_padded_sequence")
def pack_padded_sequence(input, lengths, batch_first: bool):
    """_pack_padded_sequence(Tensor input, Tensor lengths, bool batch_first) -> (Tensor, Tensor)"""
    sizes = batch_sizes_of(lengths)
    return packed(Padded(_transposed(input, batch_first), lengths, sizes)), sizes


@builtin("aten::_pad_packed_sequence")
def pad_packed_sequence(data, batch_sizes, batch_first: bool, padding_value, total_length):
    """_pad_packed_sequence(Tensor data, Tensor batch_sizes, bool batch_first, Scalar padding_value, int
    total_length) -> (Tensor, Tensor)
    """
    sequences = padded_form(data, batch_sizes)
    x = masked(sequences, padding_value)
    total = Dim(total_length)
    if (total.is_known and total <= 0) or _is_length_of(total_length, batch_sizes):
        if not sequences.is_tight:
            x = take_slice(x, 0, 0, op.ReduceMax(sequences.lengths, keepdims=0))
    elif dim_of(x, 0) != total:
        x = _lengthened(take_slice(x, 0, 0, total), total, padding_value)
    return _transposed(x, batch_first), sequences.lengths


@builtin("aten::pad_sequence")
def pad_sequence(sequences, batch_first: bool = False, padding_value: float = 0.0, padding_side: str = "right"):
    """pad_sequence(Tensor[] sequences, bool batch_first=False, float padding_value=0., str padding_side="right") ->
    Tensor
    """
    total = functools.reduce(maximum, (dim_of(each, 0) for each in sequences))
    padded = [_lengthened(each, total, padding_value, padding_side == "left") for each in sequences]
    axis = 0 if batch_first else 1
    return op.Concat(*(op.Unsqueeze(each, [axis]) for each in padded), axis=axis)


def _transposed(x: Any, batch_first: bool) -> Any:
    return op.Transpose(x, perm=[1, 0, *range(2, len(x.shape))]) if batch_first else x


def _lengthened(x: Any, total: Dim, padding: Any, before: bool = False) -> Any:
    """A value with its first dimension padded to a size that is not smaller."""
    more = total - dim_of(x, 0)
    if more == 0:
        return x
    none = [0] * (len(x.shape) - 1)
    sizes = [more.value, *none, 0, *none] if before else [0, *none, more.value, *none]
    return op.Pad(x, sizes, const(padding, x.dtype))


def _is_length_of(size: Any, vector: Any) -> bool:
    """Whether a size of the graph was asked of a vector."""
    producer = size.producer() if hasattr(size, "producer") else None
    while producer is not None and producer.op_type in ("Gather", "Squeeze", "Identity"):
        producer = producer.inputs[0].producer()
    return producer is not None and producer.op_type in ("Shape", "Size") and producer.inputs[0] is vector
