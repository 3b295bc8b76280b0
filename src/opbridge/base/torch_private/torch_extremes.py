"""Private interfaces of torch about the least and the greatest of sizes, as expressions of sympy.

Checked on torch 2.13.0, 2.14.1 and 2.15.0.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

__all__ = ["simplified"]


def simplified(size: Any) -> Any:
    """A least or greatest size without the numbers that another one decides, as in `min(n, min(n, 500) + 50)`.

    That is `min(n, 550)`. torch keeps it as it is, and what is computed of such a size is soon too long to compare.

    Args:
        size: What `torch.sym_min` or `torch.sym_max` gave; anything else is returned as it is.
    """
    from torch.utils._sympy.functions import Max, Min

    if not isinstance(size, torch.SymInt) or not isinstance(size.node.expr, (Max, Min)):
        return size
    expression, env = size.node.expr, size.node.shape_env
    kind = type(expression)
    best = min if kind is Min else max
    found: dict[Any, Any] = {}
    for added, rest in _terms(expression, kind):
        found[rest] = best(added, found.get(rest, added))
    shorter = kind(*(added + rest for rest, added in found.items()))
    return env.create_symintnode(shorter, hint=None) if shorter.count_ops() < expression.count_ops() else size


def _terms(number: Any, kind: Any, added: int = 0) -> Iterator[tuple[Any, Any]]:
    """What a number is the least or greatest of: integers, and what each is added to."""
    constant, rest = number.as_coeff_Add()
    if not isinstance(rest, kind):
        yield constant + added, rest
        return
    for each in rest.args:
        yield from _terms(each, kind, constant + added)
