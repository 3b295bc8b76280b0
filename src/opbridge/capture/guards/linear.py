"""Expressions over sizes as sums of unknowns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from opbridge.capture.guards.expressions import (
    COMPARISONS,
    Constant,
    Expression,
    Operation,
    Symbol,
    parsed,
    replaced,
    subexpressions,
)

__all__ = ["ONE", "Linear", "NotLinear", "added", "check_operators", "compared_sum", "linear", "without_choices"]

Linear = dict[Expression, Any]
"""A sum of unknowns, each with its coefficient, a whole number or a fraction; that of `ONE` is the constant."""

ONE = Constant(1)

_OF_SUMS = frozenset({"+", "-", "neg", "*", "//", "%"})
_OF_CHOICES = frozenset({"if", "abs", "max", "min"})
_KNOWN = _OF_SUMS | _OF_CHOICES | COMPARISONS.keys() | {"and", "or", "not"}


class NotLinear(Exception):
    """An expression is no sum of unknowns."""


def added(*parts: tuple[Linear, int]) -> Linear:
    """The sum of several ones, each multiplied by a number."""
    found: Linear = {}
    for each, factor in parts:
        for unknown, number in each.items():
            found[unknown] = found.get(unknown, 0) + factor * number
    return {unknown: number for unknown, number in found.items() if number}


def linear(expression: Expression, unknown: Callable[[Expression], Linear]) -> Linear:
    """An expression as a sum of unknowns.

    Args:
        expression: The expression.
        unknown: Gives what stands for a size, for a floor division by a positive number, and for a product of sizes.

    Raises:
        NotLinear: It is none, or has numbers that are not whole.
    """
    if isinstance(expression, Constant):
        if isinstance(expression.value, float):
            raise NotLinear
        return {ONE: int(expression.value)} if expression.value else {}
    if isinstance(expression, Symbol):
        return unknown(expression)
    name = expression.name
    if name not in _OF_SUMS:
        raise NotLinear
    found = [linear(each, unknown) for each in expression.operands]
    if name in ("+", "-"):
        return added((found[0], 1), (found[1], 1 if name == "+" else -1))
    if name == "neg":
        return added((found[0], -1))
    if name == "*":
        for number, other in (found, found[::-1]):
            if number.keys() <= {ONE}:
                return added((other, number.get(ONE, 0)))
        left, right = sorted(expression.operands, key=repr)
        return unknown(Operation("*", (left, right)))
    divisor = found[1].get(ONE, 0)
    if not found[1].keys() <= {ONE} or divisor <= 0:
        raise NotLinear
    if found[0].keys() <= {ONE}:
        number = found[0].get(ONE, 0)
        return {ONE: value} if (value := number // divisor if name == "//" else number % divisor) else {}
    quotient = unknown(Operation("//", (expression.operands[0], Constant(divisor))))
    return quotient if name == "//" else added((found[0], 1), (quotient, -divisor))


def check_operators(condition: Expression) -> None:
    """Checks that a condition may consist of comparisons of sums, before its choices are written as cases.

    An operator that no sum has is one of a case as well, of which there may be many.

    Raises:
        NotLinear: It has such an operator.
    """
    if any(isinstance(each, Operation) and each.name not in _KNOWN for each in subexpressions(condition)):
        raise NotLinear


def without_choices(condition: Expression, most: int = 6) -> Expression:
    """A condition of comparisons alone: `max`, `min`, `abs` and `if` are written as the cases that they stand for.

    What decides between cases has choices itself, and is part of each: what it becomes is one object in all of them.

    Args:
        condition: The condition.
        most: How many of these a comparison may have.

    Raises:
        NotLinear: One has more.
    """
    return _without_choices(condition, most, {})


def _without_choices(condition: Expression, most: int, known: dict[tuple[Expression, int], Expression]) -> Expression:
    if isinstance(condition, Constant):
        return condition
    if isinstance(condition, Symbol) or condition.name not in (*COMPARISONS, "and", "or", "not"):
        condition = Operation("!=", (condition, Constant(0)))
    found = known.get((condition, most))
    if found is None:
        found = known[condition, most] = _expanded(condition, most, known)
    return found


def _expanded(condition: Operation, most: int, known: dict[tuple[Expression, int], Expression]) -> Expression:
    """`_without_choices` of a comparison, or of conditions that are joined."""
    if condition.name not in COMPARISONS:
        return Operation(condition.name, tuple(_without_choices(each, most, known) for each in condition.operands))
    choice = next((found for each in subexpressions(condition) if (found := _cases(each)) is not None), None)
    if choice is None:
        return condition
    if not most:
        raise NotLinear
    chosen, asked, one, other = choice
    cases = [
        Operation("and", (each, replaced(condition, {chosen: value})))
        for each, value in ((asked, one), (Operation("not", (asked,)), other))
    ]
    return _without_choices(Operation("or", tuple(cases)), most - 1, known)


def _cases(expression: Expression) -> tuple[Expression, Expression, Expression, Expression] | None:
    """An expression, what decides of which other one it has the value, and both; None where nothing decides."""
    match expression:
        case Operation("if", (asked, one, other)):
            return expression, asked, one, other
        case Operation("abs", (one,)):
            return expression, Operation(">=", (one, Constant(0))), one, Operation("neg", (one,))
        case Operation("max" | "min" as name, (one, *others)) if others:
            other = others[0] if len(others) == 1 else Operation(name, tuple(others))
            return expression, Operation(">=" if name == "max" else "<=", (one, other)), one, other
    return None


def compared_sum(condition: str) -> dict[str, int] | None:
    """The difference of the sides of a comparison with "==", "<=" or ">=", linear in sizes; None for another condition.

    Returns:
        The coefficient of each size, by its name, and the constant by "".
    """

    def size(unknown: Expression) -> Linear:
        if not isinstance(unknown, Symbol):
            raise NotLinear
        return {unknown: 1}

    match parsed(condition):
        case Operation("==" | "<=" | ">=", sides):
            try:
                found = linear(Operation("-", sides), size)
            except NotLinear:
                return None
            sizes = {each.name: number for each, number in found.items() if isinstance(each, Symbol)}
            return {"": found.get(ONE, 0), **sizes}
    return None
