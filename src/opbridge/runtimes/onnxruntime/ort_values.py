"""Arrays as OrtValues and back, also of bfloat16, which NumPy and so ONNX Runtime's Python interface do not have."""

from __future__ import annotations

import ctypes
from typing import Any

import ml_dtypes
import numpy as np
import onnxruntime

from opbridge.errors import UsageError

__all__ = ["BFLOAT16", "array_of", "value_of"]

BFLOAT16 = "tensor(bfloat16)"
"""The type of an input or output, as ONNX Runtime spells it."""

_ELEMENT = 16
"""TensorProto.BFLOAT16: a file runs without the package onnx."""


def value_of(array: Any) -> Any:
    """An OrtValue with the elements of an array.

    Raises:
        UsageError: ONNX Runtime has no such elements.
    """
    array = np.asarray(array)
    if array.dtype == ml_dtypes.bfloat16:
        bits = np.ascontiguousarray(array).reshape(array.shape).view(np.uint16)
        return onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(bits, _ELEMENT)
    try:
        return onnxruntime.OrtValue.ortvalue_from_numpy(array)
    except RuntimeError as error:
        raise UsageError(
            f"An array of {array.dtype} cannot be given to ONNX Runtime: it supports numeric arrays. Give one of the "
            "type of the model's input."
        ) from error


def array_of(value: Any) -> np.ndarray:
    """An array with the elements of an OrtValue."""
    if value.data_type() != BFLOAT16:
        return np.asarray(value.numpy())
    found = np.empty(value.shape(), ml_dtypes.bfloat16)
    if found.nbytes:
        ctypes.memmove(found.ctypes.data, value.data_ptr(), found.nbytes)
    return found
