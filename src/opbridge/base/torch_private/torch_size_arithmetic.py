"""Private interfaces of torch that compute with expressions of sizes, where a faster way gives the same.

Checked on torch 2.13.0 and 2.15.0.
"""

from __future__ import annotations

import contextlib
import functools
import types
from collections.abc import Iterator
from typing import Any

from opbridge.base.attributes import replacing
from opbridge.base.locks import process_state

__all__ = ["dividing_sizes_directly"]


@contextlib.contextmanager
def dividing_sizes_directly() -> Iterator[None]:
    """Within this context, torch does not simplify a quotient of sizes that has no fraction left.

    To find the size that `view(-1, 7, 7, channels)` leaves open, torch divides by a common factor and simplifies the
    quotient by all of sympy's means. That takes a large part of a second for padded sizes, and changes nothing: sympy
    cancels the factors of a product as it divides.
    """
    from torch.utils._sympy import functions

    with process_state, replacing((functions, "sympy", _sympy())):
        yield


@functools.cache
def _sympy() -> types.ModuleType:
    """The module `sympy` with another function `simplify`."""
    import sympy

    found = types.ModuleType("sympy")
    found.__dict__.update({**vars(sympy), "simplify": _simplified})
    return found


def _simplified(expression: Any) -> Any:
    """An expression that sympy simplifies only where it has a fraction."""
    import sympy

    return expression if _is_whole(expression) else sympy.simplify(expression)


def _is_whole(expression: Any) -> bool:
    """Whether no part of an expression is a fraction."""
    import sympy

    return not any(
        (isinstance(part, sympy.Pow) and part.exp.is_nonnegative is not True)
        or (isinstance(part, sympy.Number) and not isinstance(part, sympy.Integer))
        for part in sympy.preorder_traversal(expression)
    )
