"""Products of groups of rows with a matrix each, as mixtures of experts have them."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir
from onnxscript import opset18 as op

from opbridge.errors import TranslationError
from opbridge.translations.lib.dtypes import cast, computed_in_float32, convert, widen
from opbridge.translations.linalg.group_functions import products_of_parts, products_of_rows
from opbridge.translations.registry import builtin


@builtin("transformers::grouped_mm_fallback")
def grouped_mm_fallback(input, weight, offs):
    """grouped_mm_fallback(Tensor input, Tensor weight, Tensor offs) -> Tensor"""
    return _grouped(input, weight, offs)


@builtin("aten::_grouped_mm")
def grouped_mm(self, mat2, offs=None, bias=None, out_dtype=None):
    """_grouped_mm(Tensor self, Tensor mat2, Tensor? offs=None, Tensor? bias=None, ScalarType? out_dtype=None) -> Tensor

    What belongs to no group is 0; PyTorch leaves it as the memory was.
    """
    if bias is not None:
        raise TranslationError("PyTorch supports grouped products only without a bias.")
    return convert(_grouped(self, mat2, offs), out_dtype)


def _grouped(left: Any, right: Any, offs: Any) -> Any:
    """The products of all groups.

    Args:
        left: Of shape (rows, K) or (groups, rows, K).
        right: Of shape (groups, K, columns) or (K, columns).
        offs: Where each group ends: in the rows of a matrix on the left, else in the columns of one on the right; in
            the common dimension where both are matrices.
    """
    ranks = len(left.shape), len(right.shape)
    if offs is None or ranks == (3, 3):
        return _product(left, right)
    ends = op.Cast(offs, to=ir.DataType.INT64)
    if ranks == (2, 2):
        found = products_of_parts(widen(left), widen(right), ends)
    elif ranks == (2, 3):
        found = products_of_rows(widen(left), right, ends)
    else:
        turned = products_of_rows(op.Transpose(widen(right), perm=[1, 0]), op.Transpose(left, perm=[0, 2, 1]), ends)
        found = op.Transpose(turned, perm=[1, 0])
    return cast(found, left.dtype)


@computed_in_float32
def _product(left: Any, right: Any) -> Any:
    return op.MatMul(left, right)
