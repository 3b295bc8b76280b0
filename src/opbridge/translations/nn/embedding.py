"""Tables of vectors looked up by number, and numbers as vectors."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir
from onnxscript import opset18 as op

from opbridge.errors import TranslationError
from opbridge.translations.lib.dims import Dim, dim_of, positions
from opbridge.translations.lib.dtypes import cast, cast_like, computed_in_float32
from opbridge.translations.registry import builtin

_INT64 = ir.DataType.INT64


@builtin("aten::embedding")
def embedding(weight, indices, padding_idx=-1, scale_grad_by_freq: bool = False, sparse: bool = False):
    """embedding(Tensor weight, Tensor indices, SymInt padding_idx=-1, bool scale_grad_by_freq=False, ...) -> Tensor"""
    # What is special of padding_idx is its gradient.
    return op.Gather(weight, indices)


@builtin("aten::one_hot")
def one_hot(self, num_classes=-1):
    """one_hot(Tensor self, SymInt num_classes=-1) -> Tensor"""
    classes = Dim(num_classes)
    if classes == -1:
        classes = Dim(op.ReduceMax(self, keepdims=0)) + 1
    return cast(op.Equal(op.Unsqueeze(self, [-1]), positions(classes)), _INT64)


@builtin("aten::embedding_bag", "aten::_embedding_bag", "aten::_embedding_bag_forward_only")
def embedding_bag(
    weight,
    indices,
    offsets,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights=None,
    include_last_offset: bool = False,
    padding_idx: int = -1,
):
    """_embedding_bag(Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq=False, int mode=0,
    bool sparse=False, Tensor? per_sample_weights=None, bool include_last_offset=False, int padding_idx=-1)
    -> (Tensor, Tensor, Tensor, Tensor)

    Only the first result is of use outside of training. The others are the bag of each index and twice the size of
    each bag.
    """
    padding = None if padding_idx < 0 else padding_idx
    return _embedding_bag(weight, indices, offsets, mode, per_sample_weights, include_last_offset, padding)


@builtin("aten::embedding_bag.padding_idx")
def embedding_bag_padding(
    weight,
    indices,
    offsets,
    scale_grad_by_freq: bool,
    mode: int,
    sparse: bool,
    per_sample_weights=None,
    include_last_offset: bool = False,
    padding_idx=None,
):
    """embedding_bag.padding_idx(Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq, int mode,
    bool sparse, Tensor? per_sample_weights, bool include_last_offset, int? padding_idx)
    -> (Tensor, Tensor, Tensor, Tensor)
    """
    # Here a negative one counts from the end.
    padding = padding_idx
    if padding is not None and padding < 0:
        padding = (dim_of(weight, 0) + padding).value
    return _embedding_bag(weight, indices, offsets, mode, per_sample_weights, include_last_offset, padding)


def _embedding_bag(
    weight: Any, indices: Any, offsets: Any, mode: int, weights: Any, include_last_offset: bool, padding: Any
) -> tuple[Any, ...]:
    indices, starts = cast(indices, _INT64), cast(offsets, _INT64)
    count = op.Shape(indices)
    # An offset marks where a bag starts; the number of marks up to an index is the number of its bag.
    nothing = op.Expand(0, op.Add(count, 1))
    marks = op.ScatterElements(nothing, starts, op.Expand(1, op.Shape(starts)), axis=0, reduction="add")
    bags = op.Sub(op.CumSum(op.Slice(marks, [0], [-1]), 0), 1)
    number = op.Sub(op.Shape(starts), 1) if include_last_offset else op.Shape(starts)
    # What belongs to no bag goes to a row after the last, which is cut off.
    if padding is not None:
        bags = op.Where(op.Equal(indices, padding), number, bags)
    rows = op.Add(number, 1)
    sizes = op.ScatterElements(op.Expand(0, rows), bags, op.Expand(1, count), axis=0, reduction="add")
    sizes = op.Slice(sizes, [0], [-1])
    pooled = _pooled(op.Gather(weight, indices), weights, bags, rows, sizes, mode)
    return pooled, bags, sizes, sizes


@computed_in_float32
def _pooled(vectors: Any, weights: Any, bags: Any, rows: Any, sizes: Any, mode: int) -> Any:
    """The sum, mean or maximum of the vectors of each bag; 0 for an empty one."""
    if mode not in (0, 1, 2):
        raise TranslationError(f"embedding_bag has no mode {mode}.")
    if weights is not None:
        vectors = op.Mul(vectors, op.Unsqueeze(weights, [-1]))
    start = op.Expand(
        cast_like(0 if mode < 2 else float("-inf"), vectors), op.Concat(rows, op.Shape(vectors, start=1), axis=0)
    )
    places = op.Expand(op.Unsqueeze(bags, [1]), op.Shape(vectors))
    pooled = op.ScatterElements(start, places, vectors, axis=0, reduction="add" if mode < 2 else "max")
    pooled = op.Slice(pooled, [0], [-1])
    if mode == 0:
        return pooled
    wide = op.Unsqueeze(sizes, [1])
    if mode == 1:
        return op.Div(pooled, op.CastLike(op.Max(wide, 1), vectors))
    return op.Where(op.Equal(wide, 0), cast_like(0, vectors), pooled)
