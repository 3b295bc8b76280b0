"""Factorisations of matrices as ONNX functions: a loop over the columns, for any batch of matrices of any size.

Each works on the last two dimensions of its arguments. They are LAPACK's textbook forms, with its choice of pivots and
signs, so that the results are the ones that torch gives.
"""

from __future__ import annotations

# onnxscript reads the source of these functions: what they contain is ONNX.
from onnxscript import opset18 as op
from onnxscript import script
from onnxscript.values import Opset

__all__ = ["cholesky", "householder", "lu", "orthogonal_triangular", "row_order", "solved", "substituted"]

_DOMAIN = Opset("opbridge", 1)


@script(_DOMAIN, default_opset=op)
def solved(matrix, right):
    """X of matrix @ X = right, by Gauss and Jordan's elimination with pivots."""
    size = op.Shape(matrix, start=-1)
    count = op.Squeeze(size)
    rows = op.Range(0, count, 1)
    work = op.Concat(matrix, right, axis=-1)
    for k in range(count):
        here = op.Reshape(k, [1])
        # TensorRT has no ArgMax of one dimension, and a repair does not see the shapes in a function.
        column = op.Abs(op.Gather(work, here, axis=-1))
        sizes = op.Where(op.Unsqueeze(rows >= k, [-1]), column, op.CastLike(-1.0, matrix))
        pivot = op.Squeeze(op.ArgMax(sizes, axis=-2, keepdims=1), [-1])
        order = op.Where(op.Equal(rows, k), pivot, op.Where(op.Equal(rows, pivot), k, rows))
        work = op.GatherElements(work, op.Expand(op.Unsqueeze(order, [-1]), op.Shape(work)), axis=-2)
        row = op.Gather(work, here, axis=-2)
        row = row / op.Gather(row, here, axis=-1)
        rest = work - op.Gather(work, here, axis=-1) * row
        work = op.Where(op.Unsqueeze(op.Equal(rows, k), [-1]), row, rest)
    return op.Slice(work, size, [9223372036854775807], [-1])


@script(_DOMAIN, default_opset=op)
def lu(matrix):
    """L and U in one matrix, the order of its rows, and LAPACK's pivots, counted from 1."""
    height = op.Squeeze(op.Shape(matrix, start=-2, end=-1))
    width = op.Squeeze(op.Shape(matrix, start=-1))
    count = op.Min(height, width)
    rows = op.Range(0, height, 1)
    columns = op.Range(0, width, 1)
    steps = op.Range(0, count, 1)
    work = op.Identity(matrix)
    batch = op.Shape(matrix, end=-2)
    order = op.Expand(rows, op.Concat(batch, op.Reshape(height, [1]), axis=0))
    pivots = op.Expand(steps, op.Concat(batch, op.Reshape(count, [1]), axis=0))
    for k in range(count):
        here = op.Reshape(k, [1])
        column = op.Abs(op.Gather(work, here, axis=-1))  # of two dimensions, as in `solved`
        sizes = op.Where(op.Unsqueeze(rows >= k, [-1]), column, op.CastLike(-1.0, matrix))
        pivot = op.Squeeze(op.ArgMax(sizes, axis=-2, keepdims=1), [-1])
        swap = op.Where(op.Equal(rows, k), pivot, op.Where(op.Equal(rows, pivot), k, rows))
        work = op.GatherElements(work, op.Expand(op.Unsqueeze(swap, [-1]), op.Shape(work)), axis=-2)
        order = op.GatherElements(order, swap, axis=-1)
        pivots = op.Where(op.Equal(steps, k), pivot, pivots)
        row = op.Gather(work, here, axis=-2)
        top = op.Gather(row, here, axis=-1)
        zero = op.CastLike(0.0, matrix)
        # Where the whole column is zero there is nothing to take away.
        ratio = op.Where(op.Equal(top, zero), zero, op.Gather(work, here, axis=-1) / top)
        below = op.Unsqueeze(rows > k, [-1])
        factor = op.Where(below, ratio, zero)
        reduced = op.Where(columns > k, work - factor * row, work)
        work = op.Where(op.And(below, op.Equal(columns, k)), factor, reduced)
    return work, order, pivots + 1


@script(_DOMAIN, default_opset=op)
def row_order(pivots, height):
    """The order of a matrix's rows after LAPACK's swaps, counted from 1: (..., height)."""
    rows = op.Range(0, height, 1)
    order = op.Expand(rows, op.Concat(op.Shape(pivots, end=-1), op.Reshape(height, [1]), axis=0))
    count = op.Squeeze(op.Shape(pivots, start=-1))
    for k in range(count):
        pivot = op.Gather(pivots, op.Reshape(k, [1]), axis=-1) - 1
        order = op.GatherElements(
            order, op.Where(op.Equal(rows, k), pivot, op.Where(op.Equal(rows, pivot), k, rows)), axis=-1
        )
    return order


@script(_DOMAIN, default_opset=op)
def cholesky(matrix):
    """L of matrix = L @ L.T; nan from the first column on that has no root."""
    count = op.Squeeze(op.Shape(matrix, start=-1))
    rows = op.Unsqueeze(op.Range(0, count, 1), [-1])
    columns = op.Range(0, count, 1)
    zero = op.CastLike(0.0, matrix)
    lower = op.Expand(zero, op.Shape(matrix))
    for k in range(count):
        here = op.Reshape(k, [1])
        taken = op.ReduceSum(lower * op.Gather(lower, here, axis=-2), [-1], keepdims=1)
        column = op.Gather(matrix, here, axis=-1) - taken
        root = op.Sqrt(op.Gather(column, here, axis=-2))
        lower = op.Where(op.Equal(columns, k), op.Where(rows >= k, column / root, zero), lower)
    return lower


@script(_DOMAIN, default_opset=op)
def substituted(lower, right):
    """X of lower @ X = right, where only the lower triangle counts."""
    count = op.Squeeze(op.Shape(lower, start=-1))
    rows = op.Unsqueeze(op.Range(0, count, 1), [-1])
    result = right * op.CastLike(0.0, right)
    for k in range(count):
        here = op.Reshape(k, [1])
        row = op.Gather(lower, here, axis=-2)
        value = (op.Gather(right, here, axis=-2) - op.MatMul(row, result)) / op.Gather(row, here, axis=-1)
        result = op.Where(op.Equal(rows, k), value, result)
    return result


@script(_DOMAIN, default_opset=op)
def orthogonal_triangular(matrix):
    """Q, square, and R of matrix = Q @ R, by Householder's reflections."""
    height = op.Squeeze(op.Shape(matrix, start=-2, end=-1))
    width = op.Squeeze(op.Shape(matrix, start=-1))
    count = op.Min(height, width)
    places = op.Range(0, height, 1)
    rows = op.Unsqueeze(places, [-1])
    zero = op.CastLike(0.0, matrix)
    one = op.CastLike(1.0, matrix)
    square = op.Concat(op.Shape(matrix, end=-1), op.Reshape(height, [1]), axis=0)
    base = op.Expand(op.Where(op.Equal(rows, places), one, zero), square)
    work = op.Identity(matrix)
    for k in range(count):
        here = op.Reshape(k, [1])
        column = op.Gather(work, here, axis=-1)
        tail = op.Where(rows > k, column, zero)
        top = op.Gather(column, here, axis=-2)
        rest = op.ReduceSumSquare(tail, [-2], keepdims=1)
        norm = op.Sqrt(top * top + rest)
        end = op.Where(top >= zero, op.Neg(norm), norm)
        trivial = op.Equal(rest, zero)
        factor = op.Where(trivial, zero, (end - top) / end)
        vector = op.Where(op.Equal(rows, k), one, op.Where(trivial, zero, tail / (top - end)))
        work = work - factor * vector * op.ReduceSum(vector * work, [-2], keepdims=1)
        base = base - factor * op.MatMul(base, vector) * op.Einsum(vector, equation="...ij->...ji")
    return base, work


@script(_DOMAIN, default_opset=op)
def householder(vectors, factors):
    """The product of reflections, of which the lower triangle holds the vectors."""
    height = op.Squeeze(op.Shape(vectors, start=-2, end=-1))
    width = op.Squeeze(op.Shape(vectors, start=-1))
    count = op.Squeeze(op.Shape(factors, start=-1))
    rows = op.Unsqueeze(op.Range(0, height, 1), [-1])
    zero = op.CastLike(0.0, vectors)
    one = op.CastLike(1.0, vectors)
    result = op.Expand(op.Where(op.Equal(rows, op.Range(0, width, 1)), one, zero), op.Shape(vectors))
    for step in range(count):
        k = count - 1 - step
        here = op.Reshape(k, [1])
        vector = op.Where(op.Equal(rows, k), one, op.Where(rows > k, op.Gather(vectors, here, axis=-1), zero))
        factor = op.Unsqueeze(op.Gather(factors, here, axis=-1), [-1])
        result = result - factor * vector * op.ReduceSum(vector * result, [-2], keepdims=1)
    return result
