"""Sizes that are computed with too many operations to be worth it.

torch compares the sizes of the operands of most operators. Where a model takes the least and the greatest of sizes, and
parts of parts, the expressions grow with each operator, and a comparison takes seconds, then minutes. A capture that
would only make another one valid for more sizes is given up there.
"""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterator
from typing import Any

import torch

from opbridge.base.torch_private import torch_sizes

__all__ = ["SizesTooLong", "check_length", "refusing_long_sizes"]

_MOST = 128
_refusing: contextvars.ContextVar[bool] = contextvars.ContextVar("refusing", default=False)


class SizesTooLong(Exception):
    """A size of a tensor is computed with too many operations."""


@contextlib.contextmanager
def refusing_long_sizes() -> Iterator[None]:
    """Within this context, a tensor with a size that more than 128 operations give is an error."""
    token = _refusing.set(True)
    try:
        yield
    finally:
        _refusing.reset(token)


def check_length(result: Any) -> None:
    """Checks the sizes of what an operator gives.

    Raises:
        SizesTooLong: One is too long, within `refusing_long_sizes`.
    """
    if _refusing.get() and isinstance(result, torch.Tensor) and torch_sizes.operations(result.shape) > _MOST:
        raise SizesTooLong(f"A size is computed with more than {_MOST} operations.")
