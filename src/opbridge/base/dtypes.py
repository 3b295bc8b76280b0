"""torch's dtypes and ONNX's data types, each by the other."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import onnx_ir as ir

from opbridge.errors import UsageError

if TYPE_CHECKING:
    import torch

__all__ = ["onnx_dtype", "torch_dtype"]

_SAME_NAME = ("bfloat16", "bool", "complex64", "complex128", "float16", "int8", "int16", "int32", "int64", "uint8")


_NAMES = {
    "float32": "FLOAT",
    "float64": "DOUBLE",
    # Not in every PyTorch that can be captured with.
    "uint16": "UINT16",
    "uint32": "UINT32",
    "uint64": "UINT64",
    "float8_e4m3fn": "FLOAT8E4M3FN",
    "float8_e4m3fnuz": "FLOAT8E4M3FNUZ",
    "float8_e5m2": "FLOAT8E5M2",
    "float8_e5m2fnuz": "FLOAT8E5M2FNUZ",
    "float8_e8m0fnu": "FLOAT8E8M0",
} | {name: name.upper() for name in _SAME_NAME}


@functools.cache
def _dtypes() -> dict[torch.dtype, ir.DataType]:
    import torch

    return {getattr(torch, name): ir.DataType[onnx] for name, onnx in _NAMES.items() if hasattr(torch, name)}


@functools.cache
def _torch_dtypes() -> dict[ir.DataType, torch.dtype]:
    return {onnx: dtype for dtype, onnx in _dtypes().items()}


def onnx_dtype(dtype: torch.dtype) -> ir.DataType:
    """The ONNX data type of a torch dtype; complex ones included, though a `TorchTensor` carries them as pairs.

    Raises:
        UsageError: ONNX has no such type (quantized and sub-byte dtypes).
    """
    try:
        return _dtypes()[dtype]
    except KeyError:
        raise UsageError(
            f"ONNX has no data type for {dtype}. Convert the tensor before exporting, for a quantized one with "
            ".dequantize() or .int_repr(), otherwise with .to(...)."
        ) from None


def torch_dtype(dtype: ir.DataType) -> torch.dtype:
    """The torch dtype of an ONNX data type.

    Raises:
        UsageError: PyTorch, or the installed release of it, has no such type (strings, 4-bit numbers).
    """
    try:
        return _torch_dtypes()[ir.DataType(dtype)]
    except KeyError:
        import torch

        raise UsageError(
            f"PyTorch {torch.__version__} has no dtype that corresponds to ONNX's {ir.DataType(dtype).name}. Cast "
            "the value to a supported dtype."
        ) from None
