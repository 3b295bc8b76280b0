"""What torch does differently from one setting or release to the next, as far as translations depend on it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass

import onnx_ir as ir

__all__ = ["Conventions", "conventions", "following"]


@dataclass(frozen=True)
class Conventions:
    """What holds while a model is translated.

    Attributes:
        default_float: The type of floating numbers where nothing asks for another one: torch.get_default_dtype().
        counts_fractions: Whether an `arange` of int64 is counted by its bounds as they are, as for all other integers;
            older releases of torch cut their fractions off first.
        saturates_float8_e4m3fn: Whether a number beyond the range of FLOAT8E4M3FN becomes its largest number; in older
            releases of torch, and in the other float8 types, it becomes an infinity or NaN.
    """

    default_float: ir.DataType = ir.DataType.FLOAT
    counts_fractions: bool = True
    saturates_float8_e4m3fn: bool = True


_CURRENT: ContextVar[Conventions] = ContextVar("conventions")
_ORDINARY = Conventions()


def conventions() -> Conventions:
    """What holds now."""
    return _CURRENT.get(_ORDINARY)


@contextlib.contextmanager
def following(given: Conventions) -> Iterator[None]:
    """Within this context, other conventions hold."""
    before = _CURRENT.set(given)
    try:
        yield
    finally:
        _CURRENT.reset(before)
