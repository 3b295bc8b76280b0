"""Which numbers that follow from sizes are equal wherever conditions on the sizes hold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from opbridge.capture.guards.decisions import implied
from opbridge.capture.guards.expressions import (
    Constant,
    Expression,
    Operation,
    operators_in,
    parsed,
    subexpressions,
    symbols_in,
    value_at,
    written,
)
from opbridge.capture.guards.samples import Range

__all__ = ["EqualNumbers"]


class EqualNumbers:
    """Gives expressions of sizes that are proven to be equal wherever conditions hold one representative.

    1. Numbers that differ for some of the sizes are not equal, and two that a condition says are equal are.
    2. What follows from one size is compared by `decisions`, which is exact for most such expressions.
    3. An expression of several sizes is compared with the representatives in the place of its parts that follow from
       one size: `(h // 4) * w` is `((h + 3) // 4) * w` where `h % 4 == 0`. Else a proof of the whole is tried.

    Without proofs for several sizes, expressions of these are equal where they are so for the given ones.

    Args:
        conditions: What holds of the sizes. A condition that is no expression is left out.
        ranges: The smallest and the largest value of each size; from 1 by default.
        points: Some sizes for which the conditions hold, one at least.
        is_proven: Whether equality has to be proven also of expressions of several sizes.
    """

    def __init__(
        self,
        conditions: Iterable[str],
        ranges: Mapping[str, Range],
        points: Sequence[Mapping[str, int]],
        *,
        is_proven: bool = True,
    ) -> None:
        self._conditions = {each: set(symbols_in(each)) for each in conditions if parsed(each) is not None}
        self._stated = {parsed(each) for each in self._conditions}
        self._ranges, self._points, self._is_proven = ranges, points, is_proven
        self._found: dict[str, str] = {}
        self._by_values: dict[tuple[int, ...], list[str]] = {}

    def representative(self, text: str) -> str:
        """The integer that an expression is, or the first expression asked for that it is proven to be equal to.

        Args:
            text: The expression, of integers.
        """
        if text not in self._found:
            self._found[text] = self._representative(text)
        return self._found[text]

    def _representative(self, text: str) -> str:
        values = tuple(value_at(text, point) for point in self._points)
        if not all(type(each) is int for each in values):
            return text
        normal = self._normal(text)
        if len(set(values)) == 1 and self._are_equal(normal, str(values[0])):
            return str(values[0])
        known = self._by_values.setdefault(values, [])
        for each in known:
            if self._are_equal(normal, self._normal(each)):
                return each
        known.append(text)
        return text

    def _normal(self, text: str) -> str:
        """An expression in which representatives stand for its parts that follow from one size.

        One of one size that `decisions` compares by itself stays as it is.
        """
        expression = parsed(text)
        if not isinstance(expression, Operation) or (len(symbols_in(text)) < 2 and not _divides_by_size(expression)):
            return text
        return written(self._of_parts(expression))

    def _of_parts(self, expression: Operation) -> Expression:
        operands = [self._replaced(each) for each in _operands(expression)]
        if expression.name in ("+", "*"):
            operands.sort(key=repr)
        if expression.name == "//" and operands[0] == operands[1]:
            return Constant(1)
        return Operation(expression.name, tuple(operands))

    def _replaced(self, expression: Expression) -> Expression:
        if not isinstance(expression, Operation):
            return expression
        text = written(expression)
        if len(symbols_in(text)) == 1:
            return parsed(self.representative(text)) or expression
        return self._of_parts(expression)

    def _are_equal(self, one: str, other: str) -> bool:
        if one == other or self._is_stated(one, other) or self._is_stated(other, one):
            return True
        symbols = {*symbols_in(one), *symbols_in(other)}
        if len(symbols) > 1 and not self._is_proven:
            return True  # for the given sizes they are
        every = [each for each, own in self._conditions.items() if own <= symbols]
        few = [each for each in every if operators_in(each) & {"%", "=="}]  # which mostly suffice, and are decided fast
        return any(self._is_implied(f"({one}) == ({other})", by) for by in ([few, every] if few != every else [every]))

    def _is_stated(self, one: str, other: str) -> bool:
        """Whether a condition is the equation of two expressions, as where torch has asked whether they are equal."""
        return parsed(f"({one}) == ({other})") in self._stated

    def _is_implied(self, condition: str, by: Sequence[str]) -> bool:
        verdict = implied(condition, by, self._ranges)
        return verdict.holds and verdict.is_proven


def _divides_by_size(expression: Expression) -> bool:
    """Whether a part of an expression is divided by another one that follows from a size."""
    return any(
        isinstance(each, Operation) and each.name in ("//", "%") and not isinstance(each.operands[1], Constant)
        for each in subexpressions(expression)
    )


def _operands(expression: Operation) -> list[Expression]:
    """The operands of an expression; all terms of a sum, and all factors of a product."""
    found: list[Expression] = []
    for each in expression.operands:
        if isinstance(each, Operation) and each.name == expression.name and expression.name in ("+", "*"):
            found += _operands(each)
        else:
            found.append(each)
    return found
