"""Python values as constants and attributes of ONNX."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx_ir as ir

from opbridge.errors import TranslationError

__all__ = ["as_array", "as_attribute"]

_LARGEST_E4M3FN = 448


def as_array(value: Any, dtype: ir.DataType | None) -> np.ndarray:
    """A Python number, a (nested) list of numbers or a numpy array as an array.

    Args:
        value: What to convert; a complex number becomes its real and its imaginary part.
        dtype: The type wanted; None: that of an array, or INT64, FLOAT or BOOL after the Python type.

    Raises:
        TranslationError: a number with a fraction is asked for as an integer type.
    """
    if isinstance(value, complex):
        value = [value.real, value.imag]
    if isinstance(value, (list, tuple)) and len(value) == 0 and dtype is None:
        return np.zeros((0,), dtype=np.int64)
    array = np.asarray(value)
    if dtype is None:
        if isinstance(value, np.ndarray):
            return array
        return array.astype(np.float32) if array.dtype.kind == "f" else array
    target = dtype.numpy()
    if array.dtype == target:
        return array
    if np.issubdtype(array.dtype, np.floating) and np.issubdtype(target, np.integer):
        if not all(math.isfinite(item) and float(item).is_integer() for item in array.ravel().tolist()):
            raise TranslationError(
                f"The constant {value} cannot be represented exactly in {dtype.name}. In the translation, cast the "
                "other tensor to a floating-point type."
            )
    if dtype == ir.DataType.FLOAT8E4M3FN:  # of the float8 types, the one in which numbers beyond the range saturate
        array = np.clip(array, -_LARGEST_E4M3FN, _LARGEST_E4M3FN)
    return array.astype(target)


def as_attribute(name: str, value: Any) -> ir.Attr:
    """An attribute of the type that its Python value has."""
    # The common types first, as this is called for every attribute of a model.
    if isinstance(value, ir.Attr):
        return value
    if isinstance(value, int):  # a bool or an ir.DataType too
        return ir.AttrInt64(name, int(value))
    if isinstance(value, float):
        return ir.AttrFloat32(name, value)
    if isinstance(value, str):
        return ir.AttrString(name, value)
    if isinstance(value, ir.Graph):
        return ir.AttrGraph(name, value)
    if isinstance(value, (list, tuple)) and value and all(isinstance(item, int) for item in value):
        return ir.AttrInt64s(name, [int(item) for item in value])
    if isinstance(value, np.ndarray):
        return ir.AttrTensor(name, ir.Tensor(value))
    return ir.convenience.convert_attribute(name, value)
