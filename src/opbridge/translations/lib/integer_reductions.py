"""Sums and products of int64, exact and with the overflow that integers have.

ONNX Runtime's ReduceSum and ReduceProd of int64 compute in double, which holds 53 bits, and end at the type's limits
(checked on 1.32). Add and Mul are exact.
"""

from __future__ import annotations

from typing import Any

import onnx_ir as ir
from onnxscript import INT64, script
from onnxscript import opset18 as op

from opbridge.translations.lib.dims import axis_of
from opbridge.translations.lib.dtypes import FLOATS

__all__ = ["product_of_integers", "product_over_axis", "reduce_sum"]

_PART = 1 << 30  # which runtimes without int64 take as well
_FEW = 16
_NARROW = frozenset(
    getattr(ir.DataType, name) for name in ("BOOL", "INT8", "UINT8", "INT16", "UINT16", "INT32", "UINT32")
)


def reduce_sum(x: Any, *axes: Any, keepdims: int = 1) -> Any:
    """op.ReduceSum, by two parts of each number where it is of int64 and not seen to be of fewer bits.

    It is exact for up to 2**20 elements.
    """
    if x.dtype != ir.DataType.INT64 or _is_narrow(x):
        return op.ReduceSum(x, *axes, keepdims=keepdims)
    high = op.Div(x, _PART)
    low = op.Sub(x, op.Mul(high, _PART))
    total_high, total_low = (op.ReduceSum(part, *axes, keepdims=keepdims) for part in (high, low))
    return op.Add(op.Mul(total_high, _PART), total_low)


def product_of_integers(x: Any, like: Any, dim: int | None, keepdim: bool) -> Any:
    """The product of the elements of an int64 tensor, over one dimension or all."""
    if not like.shape:
        return op.Identity(x)
    if dim is None:
        return _folded(op.Reshape(x, [-1]))
    axis = axis_of(dim, len(like.shape))
    found = product_over_axis(x, axis, len(like.shape), like.shape[axis])
    return op.Unsqueeze(found, [axis]) if keepdim else found


def product_over_axis(x: Any, axis: int, rank: int, size: Any = None) -> Any:
    """The product over an axis of an int64 tensor, without that axis."""
    if isinstance(size, int) and 0 < size <= _FEW:
        total = op.Gather(x, 0, axis=axis)
        for place in range(1, size):
            total = op.Mul(total, op.Gather(x, place, axis=axis))
        return total
    return _folded(op.Transpose(x, perm=[axis, *(each for each in range(rank) if each != axis)]))


def _is_narrow(x: Any) -> bool:
    """Whether a tensor of int64 comes from a type of fewer bits."""
    node = x.producer()
    while node is not None and node.op_type == "Cast" and not node.domain:
        x = node.inputs[0]
        if x.dtype in _NARROW:
            return True
        if x.dtype in FLOATS:
            return False
        node = x.producer()
    return False


@script(default_opset=op)
def _folded(x: INT64) -> INT64:
    """The product over the first axis."""
    count = op.Squeeze(op.Shape(x, start=0, end=1))
    total = op.Expand(op.Constant(value_int=1), op.Shape(x, start=1))
    for place in range(count):
        total = op.Mul(total, op.Gather(x, place))
    return total
