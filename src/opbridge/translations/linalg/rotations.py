"""Eigenvalues and singular values of matrices by rotations, as ONNX functions, for any batch of matrices of any size.

Jacobi's method: pairs of columns are turned until they are orthogonal. In each of `size - 1` rounds all columns have a
partner, another one each time; when they have met, and nothing was turned any more, it is done. Each function works on
the last two dimensions of its argument, which is in double.

In round r, the columns i and j of i + j = r (mod rounds) meet, and the one that would meet itself meets the last. The
tangent of the angle comes out as t for the first column of a pair, and as -t for the second.
"""

from __future__ import annotations

# onnxscript reads the source of these functions: what they contain is ONNX.
from onnxscript import opset18 as op
from onnxscript import script
from onnxscript.values import Opset

__all__ = ["diagonalised", "exponential", "orthogonalised"]

_DOMAIN = Opset("opbridge", 1)


@script(_DOMAIN, default_opset=op)
def orthogonalised(matrix):
    """G, of orthogonal columns, and V, orthogonal, of matrix @ V = G (M. R. Hestenes, 1958)."""
    width = op.Shape(matrix, start=-1)
    size = op.Squeeze(width)
    places = op.Range(0, size, 1)
    rounds = size + op.Mod(size, 2) - 1
    half = (rounds + 1) / 2
    zero = op.CastLike(0.0, matrix)
    one = op.CastLike(1.0, matrix)
    work = op.Identity(matrix)
    square = op.Concat(op.Shape(matrix, end=-2), width, width, axis=0)
    base = op.Expand(op.Where(op.Equal(op.Unsqueeze(places, [-1]), places), one, zero), square)
    for _sweep in range(40):
        turned = op.CastLike(0, rounds)
        for step in range(rounds):
            raw = op.Mod(step - places, rounds)
            met = op.Where(op.Equal(raw, places), rounds, raw)
            last = op.Mod(step * half, rounds)
            found = op.Where(op.Equal(places, rounds), last, met)
            partner = op.Where(found >= size, places, found)
            other = op.Gather(work, partner, axis=-1)
            first = op.ReduceSumSquare(work, [-2], keepdims=1)
            second = op.Gather(first, partner, axis=-1)
            product = op.ReduceSum(work * other, [-2], keepdims=1)
            large = op.Abs(product) > op.Sqrt(first) * op.Sqrt(second) * op.CastLike(1e-15, matrix)
            is_turned = op.And(large, op.Not(op.Equal(partner, places)))
            ratio = (second - first) / op.Where(is_turned, product + product, one)
            sign = op.Where(op.Equal(ratio, zero), op.Where(places < partner, one, op.Neg(one)), op.Sign(ratio))
            tangent = op.Where(is_turned, sign / (op.Abs(ratio) + op.Sqrt(one + ratio * ratio)), zero)
            cosine = one / op.Sqrt(one + tangent * tangent)
            work = cosine * (work - tangent * other)
            base = cosine * (base - tangent * op.Gather(base, partner, axis=-1))
            turned = turned + op.ReduceSum(op.Cast(is_turned, to=7), keepdims=0)
        is_done = op.Equal(turned, op.CastLike(0, turned))
        if is_done:
            break
    return work, base


@script(_DOMAIN, default_opset=op)
def diagonalised(matrix):
    """The eigenvalues of symmetric matrices, in no order, and V, whose columns are the eigenvectors."""
    width = op.Shape(matrix, start=-1)
    size = op.Squeeze(width)
    places = op.Range(0, size, 1)
    rounds = size + op.Mod(size, 2) - 1
    half = (rounds + 1) / 2
    zero = op.CastLike(0.0, matrix)
    one = op.CastLike(1.0, matrix)
    is_diagonal = op.Equal(op.Unsqueeze(places, [-1]), places)
    work = op.Identity(matrix)
    base = op.Expand(op.Where(is_diagonal, one, zero), op.Shape(matrix))
    scale = op.ReduceMax(op.Abs(matrix), [-2, -1], keepdims=1)
    for _sweep in range(40):
        turned = op.CastLike(0, rounds)
        for step in range(rounds):
            raw = op.Mod(step - places, rounds)
            met = op.Where(op.Equal(raw, places), rounds, raw)
            last = op.Mod(step * half, rounds)
            found = op.Where(op.Equal(places, rounds), last, met)
            partner = op.Where(found >= size, places, found)
            first = op.ReduceSum(op.Where(is_diagonal, work, zero), [-2], keepdims=1)
            second = op.Gather(first, partner, axis=-1)
            is_pair = op.Equal(op.Unsqueeze(places, [-1]), partner)
            product = op.ReduceSum(op.Where(is_pair, work, zero), [-2], keepdims=1)
            size_of_pair = op.Sqrt(op.Abs(first)) * op.Sqrt(op.Abs(second)) + scale * op.CastLike(1e-3, matrix)
            large = op.Abs(product) > size_of_pair * op.CastLike(1e-16, matrix)
            is_turned = op.And(large, op.Not(op.Equal(partner, places)))
            ratio = (second - first) / op.Where(is_turned, product + product, one)
            sign = op.Where(op.Equal(ratio, zero), op.Where(places < partner, one, op.Neg(one)), op.Sign(ratio))
            tangent = op.Where(is_turned, sign / (op.Abs(ratio) + op.Sqrt(one + ratio * ratio)), zero)
            cosine = one / op.Sqrt(one + tangent * tangent)
            columns = cosine * (work - tangent * op.Gather(work, partner, axis=-1))
            tall_cosine = op.Einsum(cosine, equation="...ij->...ji")
            tall_tangent = op.Einsum(tangent, equation="...ij->...ji")
            work = tall_cosine * (columns - tall_tangent * op.Gather(columns, partner, axis=-2))
            base = cosine * (base - tangent * op.Gather(base, partner, axis=-1))
            turned = turned + op.ReduceSum(op.Cast(is_turned, to=7), keepdims=0)
        is_done = op.Equal(turned, op.CastLike(0, turned))
        if is_done:
            break
    values = op.ReduceSum(op.Where(is_diagonal, work, zero), [-2], keepdims=0)
    return values, base


@script(_DOMAIN, default_opset=op)
def exponential(matrix):
    """The exponentials of matrices: Taylor's series of a matrix halved until it is small, then squared again."""
    zero = op.CastLike(0.0, matrix)
    one = op.CastLike(1.0, matrix)
    two = op.CastLike(2.0, matrix)
    size = op.Squeeze(op.Shape(matrix, start=-1))
    places = op.Range(0, size, 1)
    unit = op.Where(op.Equal(op.Unsqueeze(places, [-1]), places), one, zero)
    norm = op.ReduceMax(op.ReduceSum(op.Abs(matrix), [-2], keepdims=1), [-1], keepdims=1)
    halvings = op.Ceil(op.Log(op.Max(norm, one)) / op.Log(two)) + one
    small = matrix / op.Pow(two, halvings)
    total = op.Expand(unit, op.Shape(matrix))
    for step in range(18):
        divisor = op.CastLike(18 - step, matrix)
        total = unit + op.MatMul(small, total) / divisor
    count = op.Cast(op.ReduceMax(halvings, keepdims=0), to=7)
    for step in range(count):
        is_left = op.CastLike(step, matrix) < halvings
        total = op.Where(is_left, op.MatMul(total, total), total)
    return total
