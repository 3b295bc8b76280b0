"""Eigenvalues of Hermitian matrices by rotations, as an ONNX function: `rotations.diagonalised` for complex numbers.

The element between two columns is turned to a real one first, by its own phase, which the other column is multiplied
by. With it, the two columns are rotated as those of a symmetric matrix are.

onnxscript confuses the order of what a loop carries where that is more than four variables. The real and the imaginary
parts are therefore one tensor, along a first dimension of size 2.
"""

from __future__ import annotations

# onnxscript reads the source of this function: what it contains is ONNX.
from onnxscript import opset18 as op
from onnxscript import script
from onnxscript.values import Opset

__all__ = ["hermitian_diagonalised"]


@script(Opset("opbridge", 1), default_opset=op)
def hermitian_diagonalised(matrix):
    """The eigenvalues of Hermitian matrices, in no order, and V, whose columns are the eigenvectors.

    matrix (2, ..., n, n) has the real parts before the imaginary ones, and so has V. The eigenvalues are (1, ..., n).
    """
    width = op.Shape(matrix, start=-1)
    size = op.Squeeze(width)
    places = op.Range(0, size, 1)
    rounds = size + op.Mod(size, 2) - 1
    half = (rounds + 1) / 2
    zero = op.CastLike(0.0, matrix)
    one = op.CastLike(1.0, matrix)
    is_diagonal = op.Equal(op.Unsqueeze(places, [-1]), places)
    work = op.Identity(matrix)
    unit = op.Expand(op.Where(is_diagonal, one, zero), op.Shape(op.Slice(matrix, [0], [1], [0])))
    base = op.Concat(unit, unit - unit, axis=0)
    scale = op.ReduceMax(op.ReduceMax(op.Abs(matrix), [-2, -1], keepdims=1), [0], keepdims=1)
    for _sweep in range(40):
        turned = op.CastLike(0, rounds)
        for step in range(rounds):
            raw = op.Mod(step - places, rounds)
            met = op.Where(op.Equal(raw, places), rounds, raw)
            last = op.Mod(step * half, rounds)
            found = op.Where(op.Equal(places, rounds), last, met)
            partner = op.Where(found >= size, places, found)
            diagonal = op.ReduceSum(op.Where(is_diagonal, work, zero), [-2], keepdims=1)
            first = op.Slice(diagonal, [0], [1], [0])
            second = op.Gather(first, partner, axis=-1)
            is_pair = op.Equal(op.Unsqueeze(places, [-1]), partner)
            between = op.ReduceSum(op.Where(is_pair, work, zero), [-2], keepdims=1)
            product = op.ReduceL2(between, [0], keepdims=1)
            size_of_pair = op.Sqrt(op.Abs(first)) * op.Sqrt(op.Abs(second)) + scale * op.CastLike(1e-3, matrix)
            large = product > size_of_pair * op.CastLike(1e-16, matrix)
            is_turned = op.And(large, op.Not(op.Equal(partner, places)))
            divisor = op.Where(is_turned, product, one)
            ratio = (second - first) / (divisor + divisor)
            sign = op.Where(op.Equal(ratio, zero), op.Where(places < partner, one, op.Neg(one)), op.Sign(ratio))
            tangent = op.Where(is_turned, sign / (op.Abs(ratio) + op.Sqrt(one + ratio * ratio)), zero)
            cosine = one / op.Sqrt(one + tangent * tangent)
            # The other column is multiplied by a complex number: its real part, and i times its imaginary part.
            turn = tangent * between / divisor
            by_real = op.Slice(turn, [0], [1], [0])
            by_imaginary = op.Slice(turn, [1], [2], [0])
            other = op.Gather(work, partner, axis=-1)
            other_by_i = op.Concat(op.Neg(op.Slice(other, [1], [2], [0])), op.Slice(other, [0], [1], [0]), axis=0)
            columns = cosine * (work - (by_real * other + by_imaginary * other_by_i))
            tall_cosine = op.Einsum(cosine, equation="...ij->...ji")
            tall_real = op.Einsum(by_real, equation="...ij->...ji")
            tall_imaginary = op.Einsum(by_imaginary, equation="...ij->...ji")
            across = op.Gather(columns, partner, axis=-2)
            across_by_i = op.Concat(op.Neg(op.Slice(across, [1], [2], [0])), op.Slice(across, [0], [1], [0]), axis=0)
            work = tall_cosine * (columns - (tall_real * across - tall_imaginary * across_by_i))
            axes = op.Gather(base, partner, axis=-1)
            axes_by_i = op.Concat(op.Neg(op.Slice(axes, [1], [2], [0])), op.Slice(axes, [0], [1], [0]), axis=0)
            base = cosine * (base - (by_real * axes + by_imaginary * axes_by_i))
            turned = turned + op.ReduceSum(op.Cast(is_turned, to=7), keepdims=0)
        is_done = op.Equal(turned, op.CastLike(0, turned))
        if is_done:
            break
    diagonal = op.ReduceSum(op.Where(is_diagonal, work, zero), [-2], keepdims=0)
    values = op.Slice(diagonal, [0], [1], [0])
    return values, base
