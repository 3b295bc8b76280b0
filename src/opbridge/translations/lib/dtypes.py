"""Element types: which are floating, values brought to another one, and constants of one."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as ir
from onnxscript import opset18 as op

from opbridge.translations.lib.conventions import conventions
from opbridge.translations.lib.float8 import FLOAT8, to_float8

__all__ = [
    "FLOATS",
    "HALVES",
    "UNSIGNED",
    "cast",
    "cast_like",
    "computed_in_double",
    "computed_in_float32",
    "const",
    "convert",
    "default_float",
    "described",
    "is_double",
    "is_float",
    "is_number",
    "is_tensor",
    "rounded",
    "widen",
]

HALVES = frozenset({ir.DataType.FLOAT16, ir.DataType.BFLOAT16})
FLOATS = frozenset({ir.DataType.FLOAT, ir.DataType.DOUBLE, *HALVES})
UNSIGNED = frozenset({ir.DataType.UINT8, ir.DataType.UINT16, ir.DataType.UINT32, ir.DataType.UINT64})
_NARROW_INTEGERS = frozenset({ir.DataType.INT8, ir.DataType.INT16, ir.DataType.UINT8, ir.DataType.UINT16})


def default_float() -> ir.DataType:
    """The type of floating numbers where nothing asks for another one: that of torch.get_default_dtype()."""
    return conventions().default_float


def is_tensor(value: Any) -> bool:
    """Whether an argument is a value of the graph, as opposed to a Python number."""
    return isinstance(value, ir.Value)


def is_number(value: Any, number: float) -> bool:
    """Whether an argument is this Python number. A number that only a run tells is a value of the graph, and is not."""
    return not is_tensor(value) and bool(value == number)


def is_float(value: Any) -> bool:
    """Whether a value is of a floating type."""
    return value.dtype in FLOATS


def is_double(value: Any) -> bool:
    """Whether a value is of type DOUBLE, for which runtimes lack some kernels."""
    return value.dtype == ir.DataType.DOUBLE


# Values in another type


def cast(value: Any, dtype: Any) -> Any:
    """A value in another type, by ONNX's Cast; itself where it has that type."""
    dtype = ir.DataType(dtype)
    if value.dtype == dtype:
        return value
    return described(op.Cast(value, to=dtype), value.shape, dtype)


def described(result: Any, shape: ir.Shape | None, dtype: ir.DataType | None) -> Any:
    """A new value that knows its shape and type, as far as they are given.

    torch.onnx.export, which may call translations too, finds neither out while they run.
    """
    # A shape without unknown sizes is all that inference could give, and is not asked for then.
    if (shape is not None and shape.is_static()) or result.shape is None:
        result.shape = shape
    if result.dtype is None and dtype is not None:
        result.dtype = dtype
    return result


def cast_like(value: Any, like: Any) -> Any:
    """A number or a value in the type of another value."""
    if like.dtype is None:
        return op.CastLike(value if is_tensor(value) else op.Constant(value=ir.tensor(value)), like)
    return cast(value, like.dtype) if is_tensor(value) else const(value, like.dtype)


def convert(value: Any, dtype: int | None) -> Any:
    """A value in the type that an argument `dtype` asks for, as torch converts it.

    Args:
        value: The value.
        dtype: None or -1 where none is asked for, and the value stays as it is.
    """
    if dtype in (None, -1):
        return value
    if dtype in _NARROW_INTEGERS and is_float(value):
        # Numbers beyond the range keep their low bits.
        value = cast(value, ir.DataType.INT32)
    if dtype in FLOAT8:
        return described(to_float8(value, ir.DataType(dtype)), value.shape, ir.DataType(dtype))
    return cast(value, dtype)


def const(array: Any, dtype: Any = None) -> Any:
    """A constant of the graph from a number, an array or nested lists, of a numpy or ONNX type."""
    if isinstance(dtype, ir.DataType):
        numbers = np.asarray(array).astype(dtype.numpy())
        return described(op.Constant(value=ir.tensor(numbers, dtype=dtype)), ir.Shape(numbers.shape), dtype)
    return op.Constant(value=ir.tensor(np.asarray(array, dtype=dtype)))


# Computing in a wider type


def widen(value: Any) -> Any:
    """A float16 or bfloat16 value as float32, in which torch computes what takes several steps; others as they are."""
    return cast(value, ir.DataType.FLOAT) if value is not None and value.dtype in HALVES else value


def rounded(value: Any, dtype: ir.DataType) -> Any:
    """A float32 value rounded to a narrower type, and float32 again.

    ONNX Runtime drops two Casts that follow each other, and so computes several operators of float16 in float32; a
    Concat of one value stands between the two.
    """
    narrow = op.Cast(value, to=dtype)
    shape = value.shape
    kept = op.Max(narrow) if shape is not None and len(shape) == 0 else op.Concat(narrow, axis=0)
    return described(op.Cast(kept, to=ir.DataType.FLOAT), shape, ir.DataType.FLOAT)


def computed_in_float32(translation: Callable[..., Any]) -> Callable[..., Any]:
    """A translation that computes 16-bit floating tensors in float32, as torch does inside one operator."""

    @functools.wraps(translation)
    def widened(*args: Any, **kwargs: Any) -> Any:
        tensors = [value for value in (*args, *kwargs.values()) if is_tensor(value)]
        dtype = tensors[0].dtype if tensors else None
        if dtype not in HALVES:
            return translation(*args, **kwargs)

        def widen_tensor(value: Any) -> Any:
            return widen(value) if is_tensor(value) else value

        result = translation(*map(widen_tensor, args), **{name: widen_tensor(value) for name, value in kwargs.items()})
        return op.Cast(result, to=dtype)

    return widened


def computed_in_double(translation: Callable[..., Any]) -> Callable[..., Any]:
    """A translation that computes in double and gives the type of its first floating tensor, or else the default."""

    @functools.wraps(translation)
    def widened(*args: Any, **kwargs: Any) -> Any:
        tensors = [value for value in args if is_tensor(value)]
        dtype = next((value.dtype for value in tensors if is_float(value)), default_float())
        wide = [cast(value, ir.DataType.DOUBLE) if is_tensor(value) else value for value in args]
        return op.Cast(translation(*wide, **kwargs), to=dtype)

    return widened
