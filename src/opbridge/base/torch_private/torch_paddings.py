"""Private interfaces of torch about amounts of padding that are computed from sizes, as expressions of sympy.

Checked on torch 2.13.0, 2.14.1 and 2.15.0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from opbridge.base.torch_private.torch_shape_env import asked_now

__all__ = ["as_fill", "continued", "multiples"]


def as_fill(amount: torch.SymInt) -> torch.SymInt:
    """An amount that fills a size up to a multiple, in the form which makes the padded size plain; any other as it is.

    `(b - a % b) % b`, `-a % b` and `a % 2` become `b * ((a + b - 1) // b) - a`, which they are for all integers. The
    sum with `a` is then a multiple of `b` by its form, for torch as well.
    """
    node = amount.node
    form = _fill_of(node.shape_env, node.expr)
    return amount if form is None else node.shape_env.create_symintnode(form, hint=None)


def continued(amount: torch.SymInt, is_implied: Callable[[str, list[str]], bool]) -> torch.SymInt:
    """An amount for a size that is no multiple, continued to multiples, where the guards so far say that it is none.

    After `if a % b != 0`, the remainder is `a - b * ((a + b - 1) // b) + b`, which is `b` for a multiple: nothing is
    left of `b - a % b` there. An amount that is 0 for a multiple as it is, such as `a % b`, stays.

    Args:
        amount: The amount.
        is_implied: Whether a condition holds wherever others do.
    """
    expression, env = amount.node.expr, amount.node.shape_env
    new = expression
    for remainder in sorted(_remainders(expression), key=str):
        if expression.xreplace({remainder: _zero()}).is_zero:
            continue
        guards = [asked_now(each.expr)[0] for each in env.guards if each.expr.has(remainder)]
        if guards and is_implied(f"{asked_now(remainder)[0]} != 0", guards):
            size, divisor = remainder.args
            new = _without_bound(env, new, remainder)
            new = new.xreplace({remainder: size - divisor * multiples(size, divisor) + divisor})
    return amount if new == expression else env.create_symintnode(new, hint=None)


def _fill_of(env: Any, expression: Any) -> Any:
    from torch.utils._sympy.functions import Mod, PythonMod

    if not isinstance(expression, (Mod, PythonMod)):
        return None
    number, divisor = expression.args
    if not env.bound_sympy(divisor).lower >= 0:  # by 0, the model has divided already
        return None
    rest = divisor - number
    if isinstance(rest, (Mod, PythonMod)) and rest.args[1] == divisor:
        size = rest.args[0]
    else:
        size = number if divisor == 2 else -number
        if divisor.is_Integer:
            constant, _ = size.as_coeff_Add()
            size += int(constant) % int(divisor) - constant
        if not env.bound_sympy(size).lower >= 0:
            return None
    return divisor * multiples(size, divisor) - size


def multiples(size: Any, divisor: Any) -> Any:
    """How many multiples of a divisor hold a size: the quotient, rounded up."""
    from torch.utils._sympy.functions import FloorDiv

    if isinstance(size, FloorDiv) and size.args[1].is_Integer and size.args[1] > 0 and divisor.is_Integer:
        return FloorDiv(size.args[0] + (divisor - 1) * size.args[1], size.args[1] * divisor)
    return FloorDiv(size + divisor - 1, divisor)


def _without_bound(env: Any, expression: Any, remainder: Any) -> Any:
    """An expression with `e` for `max(e, 0)`, where that is so for each remainder, and the divisor in its place."""
    from torch.utils._sympy.functions import Max

    known = {}
    for bound in expression.atoms(Max):
        if len(bound.args) == 2 and _zero() in bound.args:
            (other,) = (each for each in bound.args if not each.is_zero)
            most = other.xreplace({remainder: remainder.args[1]})
            if all(env.bound_sympy(each).lower >= 0 for each in (other, most)):
                known[bound] = other
    return expression.xreplace(known)


def _remainders(expression: Any) -> set[Any]:
    from torch.utils._sympy.functions import Mod, PythonMod

    found: set[Any] = expression.atoms(Mod, PythonMod)
    return found


def _zero() -> Any:
    import sympy

    return sympy.Integer(0)
