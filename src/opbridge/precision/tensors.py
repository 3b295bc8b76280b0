"""Tensors of float32 in a format, and numbers that are read from files."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TypeGuard, TypeVar

import numpy as np
import onnx_ir as ir

from opbridge.precision.formats import Format, clamped, largest

__all__ = ["CastTensor", "from_numbers", "is_rounded"]

_T = TypeVar("_T")


class CastTensor(ir.LazyTensor):
    """A tensor of float32 in a format, made when it is read: one of the model at a time is in memory.

    Args:
        source: The tensor of float32.
        to: The format.

    Attributes:
        source: The tensor of float32.
    """

    def __init__(self, source: ir.TensorProtocol, to: Format) -> None:
        super().__init__(
            lambda: ir.Tensor(from_numbers(source, lambda array: clamped(array, to)), to.dtype),
            dtype=to.dtype,
            shape=ir.Shape(source.shape.numpy()),
        )
        self.source = source


def is_rounded(tensor: ir.TensorProtocol | None, to: Format) -> TypeGuard[CastTensor]:
    """Whether a Cast of a tensor of float32 gives this one: it has no number that is beyond the format."""
    return isinstance(tensor, CastTensor) and from_numbers(tensor.source, largest) <= to.largest


def from_numbers(tensor: ir.TensorProtocol, reckon: Callable[[np.ndarray], _T]) -> _T:
    """What a function makes of the numbers of a tensor.

    A file that is mapped into memory for that is not left there.

    Args:
        tensor: The tensor.
        reckon: The function. Its result must not share memory with the array that it gets.
    """
    is_kept = not isinstance(tensor, ir.ExternalTensor) or tensor.raw is not None
    result = reckon(tensor.numpy())
    if isinstance(tensor, ir.ExternalTensor) and not is_kept:
        with contextlib.suppress(BufferError):  # somebody else has its numbers by now
            tensor.release()
    return result
