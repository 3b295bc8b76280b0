"""Covariance and correlation of variables, the rows of a matrix."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir
from onnxscript import opset18 as op

from opbridge.translations.lib.dims import dim_of, element_count
from opbridge.translations.lib.dtypes import FLOATS, cast, const
from opbridge.translations.lib.matrices import matrix_diagonal
from opbridge.translations.lib.promotion import result_type
from opbridge.translations.registry import builtin


@builtin("aten::cov")
def cov(self, correction: int = 1, fweights=None, aweights=None):
    """cov(Tensor self, *, int correction=1, Tensor? fweights=None, Tensor? aweights=None) -> Tensor"""
    rank = len(self.shape)
    dtype = result_type(self, *(each for each in (fweights, aweights) if each is not None))
    values = cast(self, dtype if dtype in FLOATS else ir.DataType.FLOAT)
    rows = values if rank == 2 else op.Reshape(values, [1, -1])
    # Each observation's weight, and what the sum of the products is divided by.
    weights = _observation_weights(values.dtype, fweights, aweights)
    if weights is None:
        count = element_count(self, [1] if rank == 2 else None)
        total = const(int(count), values.dtype) if count.is_known else op.Cast(count.value, to=values.dtype)
        mean = op.Div(op.ReduceSum(rows, [1]), total)
        taken = const(correction, values.dtype)
    else:
        total = op.ReduceSum(weights, keepdims=0)
        mean = op.Div(op.ReduceSum(op.Mul(rows, weights), [1]), total)
        taken = const(correction, values.dtype)
        if aweights is not None:
            share = op.ReduceSum(op.Mul(weights, cast(aweights, values.dtype)), keepdims=0)
            taken = op.Mul(taken, op.Div(share, total))
    centred = op.Sub(rows, mean)
    weighted = centred if weights is None else op.Mul(centred, weights)
    products = op.MatMul(centred, op.Transpose(weighted, perm=[1, 0]))
    result = op.Div(products, op.Max(op.Sub(total, taken), const(0, values.dtype)))
    # torch drops a single variable's dimensions, of a matrix of one row too.
    return _without_ones(result, self, rank)


@builtin("aten::corrcoef")
def corrcoef(self):
    """corrcoef(Tensor self) -> Tensor"""
    covariance = cov(self)
    if len(self.shape) < 2 or self.shape[0] == 1:
        return op.Div(covariance, covariance)
    deviations = op.Sqrt(matrix_diagonal(covariance, dim_of(self, 0), 2))
    quotient = op.Div(op.Div(covariance, op.Unsqueeze(deviations, [1])), op.Unsqueeze(deviations, [0]))
    one = const(1, self.dtype if self.dtype in FLOATS else ir.DataType.FLOAT)
    return op.Clip(quotient, op.Neg(one), one)


def _observation_weights(dtype: ir.DataType, fweights: Any, aweights: Any) -> Any:
    given = [cast(each, dtype) for each in (fweights, aweights) if each is not None]
    return None if not given else given[0] if len(given) == 1 else op.Mul(*given)


def _without_ones(matrix: Any, source: Any, rank: int) -> Any:
    return op.Squeeze(matrix, [0, 1]) if rank < 2 or source.shape[0] == 1 else matrix
