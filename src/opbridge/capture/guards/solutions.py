"""For which values of one size a condition holds.

Of sums, products with constants, floor divisions and remainders by constants, `max`, `min` and `abs`, the answer is
exact: with the right period, an expression is linear on each residue class of the size, and a comparison holds on an
interval of it. Of anything else, such as a rounded quotient, sizes are tried.
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from opbridge.capture.guards.expressions import (
    COMPARISONS,
    Constant,
    Expression,
    Operation,
    Symbol,
    holds_at,
    parsed,
    replaced,
    subexpressions,
)
from opbridge.capture.guards.linear import ONE, Linear, NotLinear, added, linear, without_choices
from opbridge.capture.guards.samples import LARGEST, SCANNED, Range

__all__ = ["Solutions", "solutions", "solutions_together"]

Interval = tuple[int, int]

_LONGEST_PERIOD = 2048


@dataclass(frozen=True)
class Solutions:
    """Values of a size.

    Attributes:
        low: The smallest value that was asked about.
        high: The largest one.
        classes: The values as `period * quotient + remainder`: for each remainder, intervals of the quotient in order.
        is_proven: Whether a condition is known to hold for these and no others, and not only as far as was tried.
    """

    low: int
    high: int
    classes: tuple[tuple[Interval, ...], ...]
    is_proven: bool = True

    @property
    def period(self) -> int:
        """The period of the condition."""
        return len(self.classes)

    def __contains__(self, size: int) -> bool:
        quotient, remainder = divmod(size, self.period)
        return any(first <= quotient <= last for first, last in self.classes[remainder])

    def __bool__(self) -> bool:
        return any(self.classes)

    def above(self, size: int) -> int | None:
        """The smallest one from a size on; None where there is none."""
        found = []
        for remainder, intervals in enumerate(self.classes):
            least = -((remainder - size) // self.period)
            quotient = next((max(first, least) for first, last in intervals if last >= least), None)
            if quotient is not None:
                found.append(self.period * quotient + remainder)
        return min(found, default=None)

    def below(self, size: int) -> int | None:
        """The largest one up to a size; None where there is none."""
        found = []
        for remainder, intervals in enumerate(self.classes):
            most = (size - remainder) // self.period
            quotient = next((min(last, most) for first, last in reversed(intervals) if first <= most), None)
            if quotient is not None:
                found.append(self.period * quotient + remainder)
        return max(found, default=None)

    def others(self) -> Solutions:
        """The values that were asked about and are none of these."""
        classes = (
            tuple(_others(intervals, *_quotients(self.low, self.high, self.period, remainder)))
            for remainder, intervals in enumerate(self.classes)
        )
        return Solutions(self.low, self.high, tuple(classes), self.is_proven)

    @property
    def is_everything(self) -> bool:
        """Whether these are all values that were asked about."""
        return not self.others()

    def span(self) -> tuple[int, int] | None:
        """The smallest and the largest one; None where there is none, or another value between them."""
        first, last = self.above(self.low), self.below(self.high)
        if first is None or last is None:
            return None
        gap = self.others().above(first)
        return (first, last) if gap is None or gap > last else None

    @property
    def range(self) -> Range | None:
        """The span, without an upper bound where that is the largest size that a tensor may have."""
        found = self.span()
        return found and (found[0], None if found[1] >= LARGEST else found[1])

    def changes(self) -> Iterator[int]:
        """The values at which the condition has another answer than for the value before, in order."""
        both = self, self.others()
        size, which = self.low, self.low not in self
        while (change := both[not which].above(size)) is not None:
            size, which = change, not which
            yield size


def solutions(text: str, symbol: str, low: int, high: int | None, sizes: Mapping[str, int] | None = None) -> Solutions:
    """The values of a size for which a condition holds.

    Args:
        text: The condition; without a value, it holds.
        symbol: The size.
        low: The smallest value to look at.
        high: The largest one; None: that which a tensor may have.
        sizes: The values of all other sizes.
    """
    others = tuple(sorted((name, size) for name, size in (sizes or {}).items() if name != symbol))
    return _solutions(text, symbol, low, LARGEST if high is None else high, others)


def solutions_together(text: str, symbols: Sequence[str], low: int, high: int, sizes: Mapping[str, int]) -> Solutions:
    """The numbers by which several sizes may be larger, each by the same, so that a condition holds.

    Args:
        text: The condition; without a value, it holds.
        symbols: These sizes.
        low: The smallest number to look at.
        high: The largest one.
        sizes: The values of all sizes, to which the number is added.
    """
    others = tuple(sorted((name, size) for name, size in sizes.items() if name not in symbols))
    return _solutions(text, _STEP, low, high, others, tuple((each, sizes[each]) for each in symbols))


_STEP = "step"


@functools.lru_cache(maxsize=8192)
def _solutions(
    text: str,
    symbol: str,
    low: int,
    high: int,
    others: tuple[tuple[str, int], ...],
    moved: tuple[tuple[str, int], ...] = (),
) -> Solutions:
    known: dict[Expression, Expression] = {Symbol(name): Constant(size) for name, size in others}
    known.update((Symbol(name), Operation("+", (Symbol(symbol), Constant(size)))) for name, size in moved)
    expression = parsed(text)
    if expression is not None:
        with contextlib.suppress(NotLinear):
            return _exact(replaced(expression, known), symbol, low, high)

    def holds(size: int) -> bool:
        return holds_at(text, {**dict(others), symbol: size, **{name: start + size for name, start in moved}})

    return _tried(holds, low, high)


def _tried(holds: Callable[[int], bool], low: int, high: int) -> Solutions:
    """The values as far as is seen by trying: each of the first ones, and then each power of 2."""
    near = min(high, low + SCANNED)
    found = _united([(size, size) for size in range(low, near + 1) if holds(size)], ())
    first = near + 1
    while first <= high:
        last = min(2 * max(first, 1), high)
        change = _first_change(holds, first, last)
        parts = [(first, change - 1)] if holds(first) else []
        parts += [(change, last)] if holds(last) else []
        found = _united(found, [each for each in parts if each[0] <= each[1]])
        first = last + 1
    return Solutions(low, high, (tuple(found),), is_proven=False)


def _first_change(holds: Callable[[int], bool], low: int, high: int) -> int:
    """The first value from one to another for which the answer is that for the last, as all after it are to have."""
    answer = holds(high)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) == answer else (middle + 1, high)
    return low


def _exact(expression: Expression, symbol: str, low: int, high: int) -> Solutions:
    """The values, of a condition that is linear on each residue class.

    Raises:
        NotLinear: It is not, or there are many classes.
    """
    condition, period = without_choices(expression), 1

    def grown(unknown: Expression) -> Linear:
        """How much an unknown grows with the size. A period that all divisors divide is found with it."""
        nonlocal period
        if unknown == Symbol(symbol):
            return {_QUOTIENT: Fraction(1)}
        growth = Fraction(linear(_dividend(unknown), grown).get(_QUOTIENT, 0), _divisor(unknown))
        period = math.lcm(period, growth.denominator)
        return {_QUOTIENT: growth}

    for each in subexpressions(condition):
        if isinstance(each, Operation) and each.name in COMPARISONS:
            for side in each.operands:
                linear(side, grown)
    if period > _LONGEST_PERIOD:
        raise NotLinear
    classes = []
    for remainder in range(period):
        quotients = _quotients(low, high, period, remainder)
        found = _OnClass(symbol, period, remainder, *quotients)
        classes.append(tuple(found.intervals(condition, answer=True)) if quotients[0] <= quotients[1] else ())
    return Solutions(low, high, tuple(classes))


_QUOTIENT = Symbol("quotient")


def _dividend(unknown: Expression) -> Expression:
    if isinstance(unknown, Operation) and unknown.name == "//":
        return unknown.operands[0]
    raise NotLinear


def _divisor(unknown: Expression) -> int:
    assert isinstance(unknown, Operation) and isinstance(unknown.operands[1], Constant)
    return int(unknown.operands[1].value)


def _quotients(low: int, high: int, period: int, remainder: int) -> Interval:
    return -((remainder - low) // period), (high - remainder) // period


class _OnClass:
    """Conditions on one residue class, where all numbers are linear in the quotient.

    Args:
        symbol: The size, `period * quotient + remainder`.
        period: The period.
        remainder: The remainder.
        first: The smallest quotient.
        last: The largest one.
    """

    def __init__(self, symbol: str, period: int, remainder: int, first: int, last: int) -> None:
        self._size = Symbol(symbol)
        self._value = added(({_QUOTIENT: period}, 1), ({ONE: remainder}, 1))
        self._first, self._last = first, last

    def intervals(self, condition: Expression, *, answer: bool) -> list[Interval]:
        """The quotients for which a condition has an answer."""
        if not isinstance(condition, Operation):
            assert isinstance(condition, Constant)
            return [(self._first, self._last)] if bool(condition.value) is answer else []
        name, operands = condition.name, condition.operands
        if name == "not":
            return self.intervals(operands[0], answer=not answer)
        if name in ("and", "or"):
            found = [self.intervals(each, answer=answer) for each in operands]
            return functools.reduce(_common if (name == "and") is answer else _united, found)
        difference = linear(Operation("-", operands), self._unknown)
        return self._compared(name if answer else COMPARISONS[name], difference)

    def _compared(self, name: str, difference: Linear) -> list[Interval]:
        """The quotients for which a number compares with 0."""
        if name in ("==", "!="):
            both = [self._compared(each, difference) for each in (("<=", ">=") if name == "==" else ("<", ">"))]
            return _common(*both) if name == "==" else _united(*both)
        if name in (">", ">="):
            return self._compared({">": "<", ">=": "<="}[name], added((difference, -1)))
        slope, start = difference.get(_QUOTIENT, 0), difference.get(ONE, 0) + (name == "<")
        first, last = self._first, self._last
        if slope > 0:
            last = min(last, -start // slope)
        elif slope < 0:
            first = max(first, -(start // slope))
        return [(first, last)] if first <= last and (slope or start <= 0) else []

    def _unknown(self, unknown: Expression) -> Linear:
        if unknown == self._size:
            return self._value
        found, divisor = linear(_dividend(unknown), self._unknown), _divisor(unknown)
        return added(({each: number // divisor for each, number in found.items()}, 1))


def _common(one: Sequence[Interval], other: Sequence[Interval]) -> list[Interval]:
    pairs = ((max(a, c), min(b, d)) for a, b in one for c, d in other)
    return [each for each in pairs if each[0] <= each[1]]


def _united(one: Sequence[Interval], other: Sequence[Interval]) -> list[Interval]:
    found: list[Interval] = []
    for first, last in sorted((*one, *other)):
        if found and first <= found[-1][1] + 1:
            found[-1] = found[-1][0], max(last, found[-1][1])
        else:
            found.append((first, last))
    return found


def _others(intervals: Sequence[Interval], first: int, last: int) -> list[Interval]:
    """The intervals between some, which are in order, from one number to another."""
    found = []
    for begin, end in intervals:
        if first < begin:
            found.append((first, min(begin - 1, last)))
        first = max(first, end + 1)
    return [*found, (first, last)] if first <= last else found
