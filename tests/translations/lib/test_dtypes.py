"""Values in other types, constants, and translations that compute in a wider type."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from onnxscript import opset18 as op

from opbridge.onnx.builder import Builder
from opbridge.translations.lib.dtypes import (
    HALVES,
    cast,
    cast_like,
    computed_in_double,
    computed_in_float32,
    const,
    convert,
    is_float,
    is_tensor,
    widen,
)
from opbridge.translations.lib.promotion import promote, result_type

BOOL, UINT8, INT8, INT32, INT64 = (
    ir.DataType.BOOL, ir.DataType.UINT8, ir.DataType.INT8, ir.DataType.INT32, ir.DataType.INT64,
)  # fmt: skip
HALF, BFLOAT16, FLOAT, DOUBLE = ir.DataType.FLOAT16, ir.DataType.BFLOAT16, ir.DataType.FLOAT, ir.DataType.DOUBLE


@pytest.fixture
def builder():
    builder = Builder(18)
    with builder.translating():
        yield builder


def _tensor(builder, dtype, *shape):
    return builder.value(builder.unique("x"), dtype, list(shape))


def _operators(builder):
    return [node.op_type for node in builder.nodes]


def test_a_cast_keeps_the_shape(builder):
    x = _tensor(builder, FLOAT, 2, "n")
    assert cast(x, FLOAT) is x
    result = cast(x, INT64)
    assert result.dtype == INT64
    assert result.shape == x.shape
    assert _operators(builder) == ["Cast"]


def test_numbers_and_values_in_the_type_of_another(builder):
    like = _tensor(builder, HALF, 2)
    number = cast_like(0.5, like)
    assert (number.const_value.dtype, number.const_value.numpy()) == (HALF, 0.5)
    assert cast_like(_tensor(builder, FLOAT, 2), like).dtype == HALF
    assert cast_like(like, like) is like


def test_no_dtype_means_no_conversion(builder):
    x = _tensor(builder, FLOAT, 2)
    assert convert(x, None) is x
    assert convert(x, -1) is x
    assert not builder.nodes


def test_narrow_integers_keep_the_low_bits_of_a_floating_number(builder):
    assert convert(_tensor(builder, FLOAT, 2), UINT8).dtype == UINT8
    assert _operators(builder) == ["Cast", "Cast"]
    assert convert(_tensor(builder, INT32, 2), INT8).dtype == INT8
    assert _operators(builder) == ["Cast"] * 3


def test_constants(builder):
    assert const([1, 2]).dtype == INT64
    assert const(1.5, np.float64).dtype == DOUBLE
    whole = const([[1, 2]], BFLOAT16)
    assert (whole.dtype, whole.shape) == (BFLOAT16, ir.Shape([1, 2]))
    assert not builder.nodes


def test_kinds_of_values(builder):
    assert is_tensor(_tensor(builder, FLOAT))
    assert not is_tensor(1.0)
    assert is_float(_tensor(builder, BFLOAT16))
    assert not is_float(_tensor(builder, BOOL))


def test_halves_are_widened(builder):
    for dtype in HALVES:
        assert widen(_tensor(builder, dtype, 2)).dtype == FLOAT
    for dtype in (FLOAT, DOUBLE, INT32):
        x = _tensor(builder, dtype, 2)
        assert widen(x) is x
    assert widen(None) is None


@computed_in_float32
def _square_root(x, scale=1.0):
    return op.Mul(op.Sqrt(x), scale)


@computed_in_double
def _logarithm(x, base=None):
    return op.Log(x) if base is None else op.Div(op.Log(x), op.Log(base))


def test_computing_in_float32(builder):
    assert _square_root(_tensor(builder, HALF, 2), 2.0).dtype == HALF
    assert _operators(builder) == ["Cast", "Sqrt", "Mul", "Cast"]
    assert _square_root(_tensor(builder, DOUBLE, 2)).dtype == DOUBLE
    assert _operators(builder)[4:] == ["Sqrt", "Mul"]


def test_computing_in_double(builder):
    assert _logarithm(_tensor(builder, HALF, 2)).dtype == HALF
    assert _operators(builder) == ["Cast", "Log", "Cast"]
    assert _logarithm(_tensor(builder, DOUBLE, 2)).dtype == DOUBLE
    assert _operators(builder)[3:] == ["Log"]
    # Integers give float, and the first floating argument decides.
    assert _logarithm(_tensor(builder, INT64, 2)).dtype == FLOAT
    assert _logarithm(_tensor(builder, INT64, 2), _tensor(builder, HALF, 2)).dtype == HALF


@pytest.mark.parametrize(
    "left, right, expected",
    [
        (INT32, INT64, INT64),
        (UINT8, INT8, ir.DataType.INT16),
        (ir.DataType.UINT16, INT32, INT32),
        (HALF, BFLOAT16, FLOAT),
        (HALF, DOUBLE, DOUBLE),
        (BOOL, UINT8, UINT8),
        (INT64, HALF, HALF),
    ],
)
def test_types_that_tensors_are_promoted_to(builder, left, right, expected):
    tensors = _tensor(builder, left, 2), _tensor(builder, right, 2)
    assert result_type(*tensors) == result_type(*reversed(tensors)) == expected
    assert [value.dtype for value in promote(*tensors)] == [expected] * 2


def test_tensors_count_before_scalars_and_numbers(builder):
    vector, scalar = _tensor(builder, HALF, 2), _tensor(builder, DOUBLE)
    assert result_type(vector, scalar, 1.5) == HALF
    assert result_type(_tensor(builder, UINT8, 2), 300) == UINT8
    assert result_type(_tensor(builder, UINT8, 2), 1.5) == FLOAT
    assert result_type(_tensor(builder, BOOL, 2), True) == BOOL
    assert result_type(scalar, 1) == DOUBLE


def test_promoted_numbers_are_constants(builder):
    x, number = promote(_tensor(builder, HALF, 2), 3)
    assert (x.dtype, number.dtype, number.const_value.numpy()) == (HALF, HALF, 3)
    wide, one = promote(x, 1, dtype=DOUBLE)
    assert (wide.dtype, one.dtype) == (DOUBLE, DOUBLE)
