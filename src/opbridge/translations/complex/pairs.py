"""Complex numbers as pairs: a tensor whose last dimension, of size 2, holds the real and the imaginary part."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
from onnxscript import opset18 as op

from opbridge.errors import TranslationError
from opbridge.translations.catalogue import default_registry
from opbridge.translations.lib.dtypes import const

__all__ = [
    "COMPLEX",
    "axes",
    "axis",
    "conjugate",
    "divide",
    "each_part",
    "is_number",
    "join",
    "magnitude",
    "multiply",
    "number",
    "parts",
    "rank",
    "real_translation",
    "scaled",
    "times_i",
    "unjoined",
]

COMPLEX = frozenset({ir.DataType.COMPLEX64, ir.DataType.COMPLEX128})


def rank(x: Any) -> int:
    """The number of dimensions that torch counts."""
    return len(x.shape) - 1


def axis(x: Any, dim: int) -> int:
    """A dimension counted from the front, so that the last one, of the parts, is not counted."""
    return dim % max(rank(x), 1)


def axes(x: Any, dims: Sequence[int]) -> list[int]:
    """Dimensions counted from the front."""
    return [axis(x, dim) for dim in dims]


def is_number(x: Any) -> bool:
    """Whether an argument is a Python number."""
    return isinstance(x, (bool, int, float, complex))


def number(value: Any, like: Any) -> Any:
    """A Python number as a pair."""
    value = complex(value)
    return const([value.real, value.imag], like.dtype)


def parts(x: Any) -> tuple[Any, Any]:
    """The real and the imaginary part, without the last dimension."""
    return op.Gather(x, 0, axis=-1), op.Gather(x, 1, axis=-1)


def unjoined(x: Any) -> tuple[Any, Any]:
    """The real and the imaginary part, each with a last dimension of size 1."""
    real, imaginary = op.Split(x, num_outputs=2, axis=-1)
    return real, imaginary


def join(real: Any, imaginary: Any) -> Any:
    """Pairs of these parts, which have one shape."""
    return op.Concat(op.Unsqueeze(real, [-1]), op.Unsqueeze(imaginary, [-1]), axis=-1)


def each_part(function: Callable[..., Any], *tensors: Any) -> Any:
    """A function of real tensors, called with the real parts of complex ones and with their imaginary parts."""
    return join(*(function(*each) for each in zip(*map(parts, tensors), strict=True)))


def real_translation(operator: str) -> Callable[..., Any]:
    """The translation of an operator for real tensors.

    Raises:
        TranslationError: there is none.
    """
    found = default_registry().find(operator, 18)
    if found is None:
        raise TranslationError(f"{operator} has no translation for real tensors, which is required for complex ones.")
    return found.function


def times_i(x: Any) -> Any:
    """x times i."""
    return op.Gather(x, const([1, 0]), axis=-1) * const([-1, 1], x.dtype)


def conjugate(x: Any) -> Any:
    """The complex conjugate."""
    return x * const([1, -1], x.dtype)


def scaled(x: Any, factor: Any) -> Any:
    """x times a Python number, or a value that broadcasts against real and imaginary part."""
    if isinstance(factor, complex):
        if factor.imag == 0:
            return scaled(x, factor.real)
        if factor.real == 0:
            return times_i(x) * const(factor.imag, x.dtype)
        return x * const(factor.real, x.dtype) + times_i(x) * const(factor.imag, x.dtype)
    if isinstance(factor, (bool, int, float)):
        return x if factor == 1 else x * const(factor, x.dtype)
    return x * factor


def multiply(x: Any, y: Any) -> Any:
    """The product of two tensors of pairs, or of one and a number."""
    if is_number(y):
        return scaled(x, y)
    if is_number(x):
        return scaled(y, x)
    real, imaginary = unjoined(x)
    return real * y + imaginary * times_i(y)


def divide(x: Any, y: Any) -> Any:
    """The quotient of tensors of pairs; either may be a number."""
    if is_number(y):
        y = complex(y)
        if y.imag == 0:
            return x / const(y.real, x.dtype)
        y = number(y, x)
    if is_number(x):
        x = number(x, y)
    # As torch does it, also where a part is 0, infinite or nan: no square leaves the type's range on the way.
    real, imaginary = unjoined(y)
    sizes = op.Abs(real), op.Abs(imaginary)
    is_real = sizes[0] >= sizes[1]
    larger, smaller = op.Where(is_real, real, imaginary), op.Where(is_real, imaginary, real)
    ratio, one = smaller / larger, const(1, x.dtype)
    top = op.Where(is_real, one, ratio) * x - op.Where(is_real, ratio, one) * times_i(x)
    return op.Where(op.Equal(op.Max(*sizes), 0.0), x / sizes[0], top / (larger + smaller * ratio))


def magnitude(x: Any) -> Any:
    """The absolute values, without overflow on the way; that of an infinite part beside a nan is infinite."""
    real, imaginary = parts(op.Abs(x))
    limits = np.finfo(x.dtype.numpy())
    size = op.Clip(op.Max(real, imaginary), const(limits.tiny, x.dtype), const(limits.max, x.dtype))
    is_infinite = op.Or(op.IsInf(real), op.IsInf(imaginary))
    real, imaginary = real / size, imaginary / size
    length = op.Sqrt(real * real + imaginary * imaginary) * size
    return op.Where(is_infinite, const(np.inf, x.dtype), length)
