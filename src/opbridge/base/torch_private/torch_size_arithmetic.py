"""Private interfaces of torch that compute with expressions of sizes, where a faster way gives the same.

Checked on torch 2.13.0, 2.14.1 and 2.15.0.
"""

from __future__ import annotations

import contextlib
import functools
import types
from collections.abc import Callable, Iterator
from typing import Any

from opbridge.base.attributes import replacing
from opbridge.base.locks import process_state

__all__ = ["dividing_sizes_directly", "rounding_quotients_to_integers"]

# A dimension with more elements than this fits into no memory: a size of an input is at most this.
_MOST = 2**40
# Up to this, quotients of integers and sums with them are rounded by less than they differ from the next integer.
_LARGEST = 2**47


@contextlib.contextmanager
def dividing_sizes_directly() -> Iterator[None]:
    """Within this context, torch divides sizes faster, and writes equal quotients alike.

    1. To find the size that `view(-1, 7, 7, channels)` leaves open, torch divides by a common factor and simplifies the
       quotient by all of sympy's means. That takes a large part of a second for padded sizes, and changes nothing where
       no fraction is left: sympy cancels the factors of a product as it divides.
    2. Layers give `((n + 3) // 4 + 1) // 2` and `(n - 1) // 8 + 1`, which are both `(n + 7) // 8`. torch does not know
       that they are equal, and asks.
    """
    from torch.utils._sympy import functions

    of_torch = functions.FloorDiv.eval.__func__

    def divided(kind: Any, base: Any, divisor: Any) -> Any:
        form = _of_one_form(kind, base, divisor)
        return of_torch(kind, base, divisor) if form is None else form

    quotient: Any = functions.FloorDiv
    with process_state, replacing((functions, "sympy", _sympy()), (quotient, "eval", classmethod(divided))):
        yield


def _of_one_form(kind: Any, base: Any, divisor: Any) -> Any:
    """A quotient by a positive integer `d` in the form that all equal ones of its kind have; None where it has it.

    1. `(a // b + c) // d` is `(a + b * c) // (b * d)`, for integers `b > 0` and `c`: the floor of
       `(floor(a / b) + c) / d` is that of `(a / b + c) / d`, as `d` is an integer.
    2. `(a + c) // d` is `(a + c % d) // d + c // d`.
    """
    import sympy

    if not isinstance(base, sympy.Add) or not isinstance(divisor, sympy.Integer) or divisor <= 0:
        return None
    added, rest = base.as_coeff_Add()
    if not isinstance(added, sympy.Integer):
        return None
    if isinstance(rest, kind) and isinstance(rest.args[1], sympy.Integer) and rest.args[1] > 0:
        number, by = rest.args
        return kind(number + by * added, by * divisor)
    return None if 0 <= added < divisor else kind(rest + added % divisor, divisor) + added // divisor


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

    if _is_whole(expression):
        return expression
    form = _with_common_factors(expression)
    return form if _is_whole(form) else sympy.simplify(expression)


def _with_common_factors(expression: Any) -> Any:
    """A product whose sums have their integer factors before them: `(a + b) / (7 * a + 7 * b)` is `1 / 7`."""
    import sympy

    factors = []
    for factor in sympy.Mul.make_args(expression):
        base, exponent = factor.as_base_exp()
        if isinstance(base, sympy.Add) and isinstance(exponent, sympy.Integer):
            content, rest = base.primitive()
            factors += [content**exponent, rest**exponent]
        else:
            factors.append(factor)
    return sympy.Mul(*factors)


def _is_whole(expression: Any) -> bool:
    """Whether no part of an expression is a fraction."""
    import sympy

    return not any(
        (isinstance(part, sympy.Pow) and part.exp.is_nonnegative is not True)
        or (isinstance(part, sympy.Number) and not isinstance(part, sympy.Integer))
        for part in sympy.preorder_traversal(expression)
    )


@contextlib.contextmanager
def rounding_quotients_to_integers() -> Iterator[None]:
    """Within this context, a quotient of sizes that is rounded to an integer is a quotient of integers for torch.

    `int((n - 3) / 2 + 1)` is `(n - 3) // 2 + 1` where that is not negative, and torch knows how to compare and to bound
    the second one. Python computes the first one in float64, where both are the same as long as numbers are not large:
    a quotient `a / k` that is no integer is at least `1 / k` away from the next one, and a float64 of the size of `a /
    k` is off by at most `a / k * 2**-53`, so that it cannot reach an integer below `a = 2**52`; a few sums with
    integers are within 2**47. Where that is not known of the numbers, the expression stays as it is.
    """
    from torch.fx.experimental.sym_node import SymNode

    node: Any = SymNode
    replaced = [(node, name, _rounding(getattr(node, name), name)) for name in ("trunc", "floor", "ceil")]
    with process_state, replacing(*replaced):
        yield


def _rounding(original: Callable[[Any], Any], name: str) -> Callable[[Any], Any]:
    """A function of torch's that rounds a number."""
    from torch.fx.experimental.sym_node import SymNode

    @functools.wraps(original)
    def rounded(number: Any) -> Any:
        form = _rounded(number.shape_env, number.expr, name) if number.shape_env is not None else None
        if form is None:
            return original(number)
        return SymNode(form, number.shape_env, int, None)

    return rounded


def _rounded(env: Any, expression: Any, name: str) -> Any:
    """A rounded number as an integer expression; None where it is not known to be one."""
    from torch.utils._sympy.functions import FloorDiv, Max

    found = _quotient(expression)
    if found is None:
        return None
    number, divisor, added = found
    whole = number + divisor * added
    limits = [_limits(env, each) for each in (whole, divisor, number, divisor * added)]
    known = [each for each in limits if each is not None and max(-each[0], each[1]) <= _LARGEST]
    if len(known) < len(limits):
        return None
    (lowest, _), (least, _), *_ = known
    if least < 1:
        return None
    if name == "ceil":
        return FloorDiv(number + divisor - 1, divisor) + added
    # The form that torch gives the sizes of convolutions.
    floor = FloorDiv(number, divisor) + added
    if name == "floor" or lowest >= 0:
        return floor
    if lowest <= -least:
        return None
    cut = Max(floor, 0)  # -1 / 2 is cut off to 0
    return cut if cut.has(Max) else None  # torch leaves that out where it takes a size that may be 0 for positive


def _quotient(expression: Any) -> Any:
    """Integers of which a number is `a / k + c`, each operation in float64; None for other numbers."""
    import sympy
    from torch.utils._sympy.functions import FloatTrueDiv, IntTrueDiv

    terms = expression.args if isinstance(expression, sympy.Add) else (expression,)
    wholes = list(map(_whole, terms))
    others = [term for term, whole in zip(terms, wholes, strict=True) if whole is None]
    if len(others) != 1:
        return None
    added = sympy.Add(*(each for each in wholes if each is not None))
    (term,) = others
    if isinstance(term, IntTrueDiv):
        return (*term.args, added)
    if isinstance(term, FloatTrueDiv):
        number, divisor = map(_whole, term.args)
        return None if number is None or divisor is None else (number, divisor, added)
    if isinstance(term, sympy.Mul):  # by 0.5 and the like, which rounds nothing
        factor, rest = term.as_coeff_Mul()
        number, parts = _whole(rest), 1 / sympy.Rational(factor)
        if number is not None and parts.is_Integer and parts > 0 and int(parts).bit_count() == 1:
            return number, parts, added
    return None


def _whole(expression: Any) -> Any:
    """The integer that a float64 is, as an expression; None where it may have a fraction."""
    import sympy
    from torch.utils._sympy.functions import ToFloat

    if isinstance(expression, ToFloat):
        return expression.args[0]
    if isinstance(expression, sympy.Number):
        return sympy.Integer(int(expression)) if float(expression).is_integer() else None
    if isinstance(expression, (sympy.Add, sympy.Mul)):
        parts = list(map(_whole, expression.args))
        return None if None in parts else expression.func(*parts)
    return None


def _limits(env: Any, expression: Any) -> tuple[int, int] | None:
    """The least and the largest value of an integer expression; None where it has no limits that are known.

    A number that data decide may be any one in its range; a size of an input is limited by memory as well.
    """
    from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols
    from torch.utils._sympy.numbers import int_oo
    from torch.utils._sympy.value_ranges import ValueRanges, bound_sympy

    unknown = free_unbacked_symbols(expression)
    ranges = {}
    for symbol in expression.free_symbols:
        known = env.var_to_range.get(symbol)
        if known is None:
            return None
        ranges[symbol] = known if symbol in unknown else known & ValueRanges(-_MOST, _MOST)
    found = bound_sympy(expression, ranges)
    if found.lower in (-int_oo, int_oo) or found.upper in (-int_oo, int_oo):
        return None
    return int(found.lower), int(found.upper)
