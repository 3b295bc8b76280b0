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
    value_at,
    written,
)
from opbridge.capture.guards.linear import Linear, NotLinear, check_operators, linear, without_choices
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
            tuple(_others(intervals, -((remainder - self.low) // self.period), (self.high - remainder) // self.period))
            for remainder, intervals in enumerate(self.classes)
        )
        return Solutions(self.low, self.high, tuple(classes), self.is_proven)

    def common(self, other: Solutions) -> Solutions | None:
        """The values that are solutions of another condition too, asked about the same ones; None: the period is long.

        Args:
            other: The solutions of the other condition.
        """
        period = math.lcm(self.period, other.period)
        if period > _LONGEST_PERIOD:
            return None
        classes = tuple(
            tuple(_common(self._quotients(remainder, period), other._quotients(remainder, period)))
            for remainder in range(period)
        )
        return Solutions(self.low, self.high, classes, self.is_proven and other.is_proven)

    def _quotients(self, remainder: int, period: int) -> Sequence[Interval]:
        """The intervals of the quotient by a multiple of the period, of the values with a remainder by it."""
        times, (step, own) = period // self.period, divmod(remainder, self.period)
        if times == 1:
            return self.classes[own]
        found = ((-((step - first) // times), (last - step) // times) for first, last in self.classes[own])
        return [each for each in found if each[0] <= each[1]]

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
    check_operators(expression)
    condition, period = without_choices(expression), 1

    def grown(unknown: Expression) -> Linear:
        """How much an unknown grows with the size. A period that all divisors divide is found with it.

        A quotient stays an unknown as well: one that does not grow is no constant, which something else could be
        multiplied by.
        """
        nonlocal period
        if unknown == Symbol(symbol):
            return {unknown: Fraction(1)}
        if not isinstance(unknown, Operation) or unknown.name != "//":
            raise NotLinear
        dividend, divisor = unknown.operands
        assert isinstance(divisor, Constant)
        growth = Fraction(linear(dividend, grown).get(Symbol(symbol), 0), int(divisor.value))
        period = math.lcm(period, growth.denominator)
        return {Symbol(symbol): growth, unknown: 1}

    comparisons = _comparisons(condition)
    differences = [Operation("-", each.operands) for each in comparisons]
    slopes = [linear(each, grown).get(Symbol(symbol), Fraction(0)) for each in differences]
    if period > _LONGEST_PERIOD:
        raise NotLinear
    texts = list(map(written, differences))
    classes: list[tuple[Interval, ...]] = []
    for remainder in range(period):
        first, last = -((remainder - low) // period), (high - remainder) // period
        starts = (value_at(each, {symbol: remainder}) for each in texts)
        if first > last:
            classes.append(())
            continue
        known: dict[Expression, list[Interval]] = {}
        for each, slope, start in zip(comparisons, slopes, starts, strict=True):
            known[each] = _compared(each.name, int(slope * period), start, first, last)
        classes.append(tuple(_where(condition, known, first, last)))
    return Solutions(low, high, tuple(classes))


def _comparisons(condition: Expression) -> list[Operation]:
    """The comparisons that a condition consists of, each one once."""
    found: dict[Operation, None] = {}
    seen, waiting = set(), [condition]
    while waiting:
        each = waiting.pop()
        if not isinstance(each, Operation) or each in seen:
            continue
        seen.add(each)
        if each.name in COMPARISONS:
            found[each] = None
        else:
            waiting.extend(each.operands)
    return list(found)


def _where(condition: Expression, known: dict[Expression, list[Interval]], first: int, last: int) -> list[Interval]:
    """The quotients for which a condition holds.

    Args:
        condition: The condition.
        known: Those for which its comparisons hold; those of its other parts are added.
        first: The smallest quotient.
        last: The largest one.
    """
    if not isinstance(condition, Operation):
        assert isinstance(condition, Constant)
        return [(first, last)] if condition.value else []
    if condition not in known:
        found = [_where(each, known, first, last) for each in condition.operands]
        if condition.name == "not":
            known[condition] = _others(found[0], first, last)
        else:
            known[condition] = functools.reduce(_common if condition.name == "and" else _united, found)
    return known[condition]


def _compared(name: str, slope: int, start: int, first: int, last: int) -> list[Interval]:
    """The quotients for which `slope * quotient + start` compares with 0."""
    if name in ("==", "!="):
        equal = _common(*(_compared(each, slope, start, first, last) for each in ("<=", ">=")))
        return equal if name == "==" else _others(equal, first, last)
    if name in (">", ">="):
        slope, start = -slope, -start
    start += name in ("<", ">")
    if slope > 0:
        last = min(last, -start // slope)
    elif slope < 0:
        first = max(first, -(start // slope))
    elif start > 0:
        return []
    return [(first, last)] if first <= last else []


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
