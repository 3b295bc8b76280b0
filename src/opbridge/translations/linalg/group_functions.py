"""Products of groups of rows as ONNX functions: a loop over the groups, of which there may be hundreds."""

from __future__ import annotations

# onnxscript reads the source of these functions: what they contain is ONNX.
from onnxscript import opset18 as op
from onnxscript import script
from onnxscript.values import Opset

__all__ = ["products_of_all_rows", "products_of_parts", "products_of_rows"]

_DOMAIN = Opset("opbridge", 1)


@script(_DOMAIN, default_opset=op)
def products_of_rows(left, right, ends):
    """The rows of `left` times the matrix of `right` that is that of their group, and zeros after the last group.

    A group without rows costs nothing: its matrix is not read.

    left: (rows, K), of the type to compute in.
    right: (groups, K, columns), of the same type or a narrower one.
    ends: Where each group ends in the rows; int64.
    """
    zero = op.Constant(value_ints=[0])
    columns = op.Shape(right, start=2)
    nothing = op.CastLike(0.0, left)
    result = op.Expand(nothing, op.Concat(zero, columns, axis=0))
    start = op.Identity(zero)
    for group in range(op.Squeeze(op.Shape(right, end=1))):
        end = op.Gather(ends, op.Reshape(group, [1]))
        if op.Squeeze(start < end):
            matrix = op.CastLike(op.Gather(right, group, axis=0), left)
            longer = op.Concat(result, op.MatMul(op.Slice(left, start, end, zero), matrix), axis=0)
        else:
            longer = op.Identity(result)
        result = longer
        start = end
    rest = op.Concat(op.Shape(left, end=1) - start, columns, axis=0)
    return op.Concat(result, op.Expand(nothing, rest), axis=0)


@script(_DOMAIN, default_opset=op)
def products_of_all_rows(left, right, ends):
    """What `products_of_rows` gives, in tensors whose sizes are the same in all iterations.

    All rows are multiplied with the matrix of each group, which takes as many times as long as there are groups.
    """
    one = op.Constant(value_ints=[1])
    rows = op.Range(0, op.Squeeze(op.Shape(left, end=1)), 1)
    before = op.Cast(op.Unsqueeze(ends, [0]) <= op.Unsqueeze(rows, one), to=7)
    numbers = op.Unsqueeze(op.ReduceSum(before, one, keepdims=0), one)
    result = op.Expand(op.CastLike(0.0, left), op.Concat(op.Shape(left, end=1), op.Shape(right, start=2), axis=0))
    for group in range(op.Squeeze(op.Shape(right, end=1))):
        products = op.MatMul(left, op.CastLike(op.Gather(right, group, axis=0), left))
        result = op.Where(numbers == group, products, result)
    return result


@script(_DOMAIN, default_opset=op)
def products_of_parts(left, right, ends):
    """For each group, the product of a part of the columns of `left` with the same part of the rows of `right`.

    left: (rows, K).
    right: (K, columns).
    ends: Where each group ends in K; int64.
    """
    zero = op.Constant(value_ints=[0])
    shape = op.Concat(op.Shape(left, end=1), op.Shape(right, start=1), axis=0)
    result = op.Expand(op.CastLike(0.0, left), op.Concat(zero, shape, axis=0))
    start = op.Identity(zero)
    for group in range(op.Squeeze(op.Shape(ends))):
        end = op.Gather(ends, op.Reshape(group, [1]))
        product = op.MatMul(op.Slice(left, start, end, [1]), op.Slice(right, start, end, zero))
        result = op.Concat(result, op.Unsqueeze(product, zero), axis=0)
        start = end
    return result
