"""The two formats of 16 bits, and what becomes of float32 numbers in them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import ml_dtypes
import numpy as np
import onnx_ir as ir

from opbridge.errors import UsageError

__all__ = ["BFLOAT16", "FLOAT16", "Format", "clamped", "find_format", "largest", "loss", "narrowed"]


_AT_ONCE = 1 << 20
"""So many numbers are in memory beside an array and what it becomes."""


@dataclass(frozen=True)
class Format:
    """A format of 16 bits.

    Attributes:
        name: Its name, as PyTorch and NumPy spell it.
        dtype: The type in ONNX.
        numpy: The type in NumPy.
        largest: The largest finite number.
        tolerance: How far an output may be from float32's by default, relative to its RMS. A number is rounded by up
            to 2**-11 of itself in float16 and 2**-8 in bfloat16. Independent roundings add up like the root of their
            number, so that 1e-2 allows some 400 of them in series in float16; bfloat16 rounds eight times as
            coarsely, and with 5e-2 still some 160: what a network of a few dozen layers takes, and no more than a
            factor of five away from float16.
        oldest: The oldest opset in which most operators take it.
    """

    name: str
    dtype: ir.DataType
    numpy: np.dtype
    largest: float
    tolerance: float
    oldest: int

    @property
    def limit(self) -> float:
        """The largest number that a value may reach; what float32 has beyond bfloat16 is no more than 0.4 % larger."""
        return self.largest if self.largest < 1e30 else math.inf

    @property
    def spelled(self) -> str:
        """The type as schemas write it."""
        return f"tensor({self.name})"


FLOAT16 = Format("float16", ir.DataType.FLOAT16, np.dtype(np.float16), 65504.0, 1e-2, 9)
BFLOAT16 = Format(
    "bfloat16",
    ir.DataType.BFLOAT16,
    np.dtype(ml_dtypes.bfloat16),
    float(ml_dtypes.finfo(ml_dtypes.bfloat16).max),
    5e-2,
    13,
)

_FORMATS = {each.name: each for each in (FLOAT16, BFLOAT16)} | {"fp16": FLOAT16, "half": FLOAT16, "bf16": BFLOAT16}


def find_format(name: str) -> Format:
    """The format of a name.

    Raises:
        UsageError: There is no such format.
    """
    found = _FORMATS.get(name) if isinstance(name, str) else None
    if found is None:
        raise UsageError(f"The precision {name!r} is not supported. Use float16 or bfloat16.")
    return found


def narrowed(array: np.ndarray, to: Format) -> np.ndarray:
    """The numbers rounded to the nearest of a format; those beyond it become infinite."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        return array.astype(to.numpy)


def clamped(array: np.ndarray, to: Format) -> np.ndarray:
    """The numbers rounded, where those beyond the format become its largest and not infinite."""
    flat, result = array.reshape(-1), np.empty(array.size, to.numpy)
    for at in range(0, flat.size, _AT_ONCE):
        part = flat[at : at + _AT_ONCE]
        within = np.where(np.isfinite(part), np.clip(part, -to.largest, to.largest), part)
        result[at : at + _AT_ONCE] = narrowed(within, to)
    return result.reshape(array.shape)


def largest(array: np.ndarray) -> float:
    """The largest finite magnitude."""
    flat, found = array.reshape(-1), 0.0
    for at in range(0, flat.size, _AT_ONCE):
        part = flat[at : at + _AT_ONCE]
        found = max(found, float(np.abs(part, where=np.isfinite(part), out=np.zeros_like(part)).max()))
    return found


def loss(array: np.ndarray, to: Format) -> tuple[float, float]:
    """How far rounded numbers are from the numbers, relative to their RMS, and the largest finite magnitude.

    Numbers that are not finite are left out, and 0 is no loss where all are 0.
    """
    flat = array.reshape(-1)
    most = apart = whole = 0.0
    for at in range(0, flat.size, _AT_ONCE):
        part = flat[at : at + _AT_ONCE]
        finite = part[np.isfinite(part)].astype(np.float64)
        if finite.size:
            most = max(most, float(np.abs(finite).max()))
            apart += float(((clamped(finite, to).astype(np.float64) - finite) ** 2).sum())
            whole += float((finite**2).sum())
    return (math.sqrt(apart / whole) if whole else 0.0), most
