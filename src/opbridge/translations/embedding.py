"""Tables of vectors looked up by number, and numbers as vectors."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir
from onnxscript import opset18 as op

from opbridge.errors import TranslationError
from opbridge.registry import translation
from opbridge.translations._common import size
from opbridge.translations._pointwise import typed, widened

_INT64 = ir.DataType.INT64


@translation("aten::embedding")
def embedding(weight, indices, padding_idx=-1, scale_grad_by_freq: bool = False, sparse: bool = False):
    """embedding(Tensor weight, Tensor indices, SymInt padding_idx=-1, bool scale_grad_by_freq=False, ...) -> Tensor"""
    # What is special of padding_idx is its gradient.
    return op.Gather(weight, indices)


@translation("aten::one_hot")
def one_hot(self, num_classes=-1):
    """one_hot(Tensor self, SymInt num_classes=-1) -> Tensor"""
    if isinstance(num_classes, int) and num_classes == -1:
        num_classes = op.Add(op.ReduceMax(self, keepdims=0), 1)
    return op.Cast(op.Equal(op.Unsqueeze(self, [-1]), op.Range(0, num_classes, 1)), to=_INT64)


@translation("aten::embedding_bag", "aten::embedding_bag.padding_idx", "aten::_embedding_bag", "aten::_embedding_bag_forward_only")
def embedding_bag(
    weight,
    indices,
    offsets,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights=None,
    include_last_offset: bool = False,
    padding_idx=None,
):
    """embedding_bag.padding_idx(Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq, int mode,
    bool sparse, Tensor? per_sample_weights, bool include_last_offset, int? padding_idx)
    -> (Tensor, Tensor, Tensor, Tensor)

    Of the four results only the first is of use after training; the others are made as torch documents them: the bag of
    each index, the size of each bag, and (of mode max) nothing.
    """
    indices, starts = op.Cast(indices, to=_INT64), op.Cast(offsets, to=_INT64)
    count = op.Shape(indices)
    ends = op.Slice(starts, [1], [1 << 62]) if include_last_offset else op.Concat(op.Slice(starts, [1], [1 << 62]), count, axis=0)
    if include_last_offset:
        starts = op.Slice(starts, [0], [-1])
    places = op.Range(0, op.Squeeze(count), 1)
    # (bags, indices): whether an index lies in a bag.
    inside = op.And(
        op.GreaterOrEqual(places, op.Unsqueeze(starts, [1])),
        op.Less(places, op.Unsqueeze(ends, [1])),
    )
    if padding_idx is not None and padding_idx != -1:
        rows = size(weight, 0)
        padding = padding_idx + rows if padding_idx < 0 else padding_idx
        inside = op.And(inside, op.Not(op.Equal(indices, padding)))
    vectors = op.Gather(weight, indices)
    if per_sample_weights is not None:
        vectors = op.Mul(vectors, op.Unsqueeze(per_sample_weights, [-1]))
    sizes = op.ReduceSum(op.Cast(inside, to=_INT64), [1], keepdims=0)
    return _pooled(vectors, inside, sizes, mode), places, sizes, sizes


@widened
def _pooled(vectors: Any, inside: Any, sizes: Any, mode: int) -> Any:
    """The sum, mean or maximum of the vectors of each bag; 0 for an empty one."""
    if mode in (0, 1):
        # An index outside of a bag must not bring its nan or infinity in, as a product with 0 would.
        chosen = op.Where(op.Unsqueeze(inside, [2]), op.Unsqueeze(vectors, [0]), typed(0, vectors))
        total = op.ReduceSum(chosen, [1], keepdims=0)
        if mode == 0:
            return total
        return op.Div(total, op.CastLike(op.Unsqueeze(op.Max(sizes, 1), [1]), vectors))
    if mode != 2:
        raise TranslationError(f"embedding_bag has no mode {mode}.")
    lowest = typed(float("-inf"), vectors)
    chosen = op.Where(op.Unsqueeze(inside, [2]), op.Unsqueeze(vectors, [0]), lowest)
    # One more row keeps the maximum of no indices at all defined.
    largest = op.ReduceMax(op.Concat(chosen, op.Expand(lowest, _row(chosen)), axis=1), [1], keepdims=0)
    return op.Where(op.Equal(op.Unsqueeze(sizes, [1]), 0), typed(0, vectors), largest)


def _row(x: Any) -> Any:
    """The shape of x with one in place of its second size."""
    return op.Concat(op.Shape(x, start=0, end=1), [1], op.Shape(x, start=2), axis=0)


