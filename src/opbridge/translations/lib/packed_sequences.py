"""Packed sequences: the steps of sequences of several lengths, one after another.

torch packs sequences, the longest one first, as the first step of each, the second step of each that has one, and so
on: `data`, of shape (steps of all, ...). `batch_sizes` says how many sequences have each step. ONNX's recurrent layers
take padded sequences, of shape (steps, sequences, ...), and lengths. A translation packs what it gives, and whatever
reads that reads the packed form, unless it asks here for the padded form, which the value remembers. What nothing reads
is removed with the model's other unused nodes.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from onnxscript import opset18 as op

from opbridge.translations.lib.dims import Dim, dim_of, dims_of, positions, product
from opbridge.translations.lib.dtypes import const
from opbridge.translations.lib.reshaping import reshape

__all__ = ["Padded", "batch_sizes_of", "masked", "packed", "padded_form"]

_KEY = "opbridge.packed_sequences"


@dataclasses.dataclass(frozen=True)
class Padded:
    """Sequences in padded form.

    Attributes:
        values: The steps, of shape (steps, sequences, ...), with as many steps as the longest sequence or more.
        lengths: The lengths, int64, of shape (sequences,), in descending order.
        sizes: The batch sizes of the packed form.
        is_zero: Whether the values beyond the lengths are zeros.
        is_tight: Whether there are as many steps as the longest sequence has.
    """

    values: Any
    lengths: Any
    sizes: Any
    is_zero: bool = False
    is_tight: bool = False


def batch_sizes_of(lengths: Any) -> Any:
    """The batch sizes of sequences of some lengths."""
    sizes = _count(op.Less(op.Unsqueeze(positions(op.ReduceMax(lengths, keepdims=0)), [1]), lengths), 1)
    sizes.meta[_KEY] = lengths
    return sizes


def packed(sequences: Padded) -> Any:
    """The steps of sequences in packed form, which remembers the padded form."""
    x = sequences.values
    steps, count, *rest = dims_of(x)
    is_step = reshape(_mask(sequences), [product([steps, count])])
    data = op.Compress(reshape(x, [product([steps, count]), *rest]), is_step, axis=0)
    data.meta[_KEY] = sequences
    return data


def padded_form(data: Any, batch_sizes: Any) -> Padded:
    """Sequences in padded form.

    Args:
        data: The steps in packed form.
        batch_sizes: How many sequences have each step.
    """
    known = data.meta.get(_KEY)
    if known is not None and known.sizes is batch_sizes:
        return known
    lengths = batch_sizes.meta.get(_KEY)
    count = Dim(op.Gather(batch_sizes, 0))
    if lengths is None:
        lengths = _count(op.Less(op.Unsqueeze(positions(count), [1]), batch_sizes), 1)
    before = op.CumSum(batch_sizes, 0, exclusive=1)
    at = op.Add(op.Unsqueeze(before, [1]), positions(count))
    values = op.Gather(data, op.Min(at, (dim_of(data, 0) - 1).value))
    return Padded(values, lengths, batch_sizes, is_tight=True)


def masked(sequences: Padded, padding: float) -> Any:
    """The values in padded form, with a number beyond the lengths."""
    x = sequences.values
    if sequences.is_zero and padding == 0:
        return x
    others = list(range(2, len(x.shape)))
    is_step = op.Unsqueeze(_mask(sequences), others) if others else _mask(sequences)
    return op.Where(is_step, x, const(padding, x.dtype))


def _mask(sequences: Padded) -> Any:
    """Which steps belong to a sequence, of shape (steps, sequences)."""
    return op.Less(op.Unsqueeze(positions(dim_of(sequences.values, 0)), [1]), sequences.lengths)


def _count(condition: Any, axis: int) -> Any:
    return op.ReduceSum(op.Cast(condition, to=7), [axis], keepdims=0)
