"""Linear recurrences, by doubling: as many steps as the logarithm of the length, each with one product of matrices."""

from __future__ import annotations

from typing import Any

from onnxscript import opset18 as op

from opbridge.translations.lib.dims import Dim, dim_of, minimum
from opbridge.translations.lib.dtypes import const

__all__ = ["linear_recurrence"]

_MOST_STEPS = 31
"""For a length that only a run tells: no tensor has 2^31 elements along a dimension."""


def linear_recurrence(values: Any, matrix: Any) -> Any:
    """All of `y[t] = values[t] + y[t - 1] @ matrix`, where nothing is before `y[0]`.

    After the step of length k, each row has the sum of `values[t - i] @ matrix^i` for i below 2k. Its terms may be much
    larger than the sum, as where two poles of a filter are close to each other: such a caller computes in float64.

    Args:
        values: Of shape (..., length, width), of a floating type.
        matrix: Of shape (..., width, width), which broadcasts.

    Returns:
        A value of the shape of `values`.
    """
    length = dim_of(values, -2)
    steps = _MOST_STEPS if length.known is None else max(length.known - 1, 0).bit_length()
    for step in range(steps):
        values = op.Add(values, _shifted(op.MatMul(values, matrix), 2**step, length))
        if step + 1 < steps:
            matrix = op.MatMul(matrix, matrix)
    return values


def _shifted(values: Any, count: int, length: Dim) -> Any:
    """Rows moved back by a number of rows, with zeros in their place. Beyond the end, no row is left.

    Powers of a matrix that are too large for their type are multiplied by no row then.
    """
    kept = op.Slice(values, const([0]), const([-count]), const([-2]))
    if length.known is not None:
        return op.Pad(kept, const([count, 0]), None, const([-2]))
    amount = op.Reshape(minimum(Dim(count), length).value, const([1]))
    return op.Pad(kept, op.Concat(amount, const([0]), axis=0), None, const([-2]))
