"""Registers translations of which opset 21 allows a better form."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from opbridge.translations.lib.quantizing import BLOCKS_SINCE
from opbridge.translations.registry import builtin

__all__ = ["builtin_in_two_forms"]


def builtin_in_two_forms(*operators: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Registers a translation that has a keyword `wide`: true where the opset has blocks and 16-bit integers.

    Args:
        *operators: `namespace::name`, with `.overload` for any but the default overload.
    """

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        builtin(*operators)(function)

        @functools.wraps(function)
        def with_blocks(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs, wide=True)

        builtin(*operators, opset=BLOCKS_SINCE)(with_blocks)
        return function

    return register
