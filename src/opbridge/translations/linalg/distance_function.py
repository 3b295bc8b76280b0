"""Euclidean distances between numbers of vectors that are known only when the model runs, as an ONNX function."""

from __future__ import annotations

# onnxscript reads the source of this function: what it contains is ONNX.
from onnxscript import opset9, opset11, script
from onnxscript import opset18 as op
from onnxscript.values import Opset

__all__ = ["euclidean_by_count", "euclidean_in_older_opsets", "euclidean_in_oldest_opsets"]


@script(Opset("opbridge", 1), default_opset=op)
def euclidean_by_count(x1, x2):
    """The Euclidean distances in the form that torch takes for as many vectors as there are when the model runs."""
    counts = op.Concat(op.Shape(x1, start=-2, end=-1), op.Shape(x2, start=-2, end=-1), axis=0)
    if op.ReduceMax(counts, keepdims=0) > 25:
        turned = op.Einsum(x2, equation="...ij->...ji")
        square1 = op.ReduceSumSquare(x1, [-1])
        square2 = op.ReduceSumSquare(turned, [-2])
        left = op.Concat(
            x1 * op.CastLike(-2.0, x1), square1, op.Expand(op.CastLike(1.0, x1), op.Shape(square1)), axis=-1
        )
        right = op.Concat(turned, op.Expand(op.CastLike(1.0, x1), op.Shape(square2)), square2, axis=-2)
        squares = op.MatMul(left, right)
        distances = op.Sqrt(op.Max(squares, op.CastLike(0.0, x1)))
    else:
        distances = op.ReduceL2(op.Unsqueeze(x1, [-2]) - op.Unsqueeze(x2, [-3]), [-1], keepdims=0)
    return distances


@script(Opset("opbridge", 1), default_opset=opset11)
def euclidean_in_older_opsets(is_product, left, right, zero, rows, columns):
    """The same for opsets 11 to 17, where what has other forms in these is computed before the call."""
    if is_product:
        distances = opset11.Sqrt(opset11.Max(opset11.MatMul(left, right), zero))
    else:
        distances = opset11.ReduceL2(opset11.Sub(rows, columns), axes=[-1], keepdims=0)
    return distances


@script(Opset("opbridge", 1), default_opset=opset9)
def euclidean_in_oldest_opsets(is_product, left, right, zero, rows, columns, ones, kept):
    """The same for opsets 9 and 10, whose reductions count no axes from the end."""
    if is_product:
        distances = opset9.Sqrt(opset9.Max(opset9.MatMul(left, right), zero))
    else:
        difference = opset9.Sub(rows, columns)
        squares = opset9.MatMul(opset9.Mul(difference, difference), ones)
        distances = opset9.Reshape(opset9.Sqrt(squares), opset9.Gather(opset9.Shape(squares), kept))
    return distances
