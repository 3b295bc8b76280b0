"""Sizes for which a condition does not hold: the nearest ones beside given sizes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from opbridge.capture.guards.conditions import hold
from opbridge.capture.guards.samples import LARGEST, Range
from opbridge.capture.guards.solutions import Solutions, solutions, solutions_together
from opbridge.graph.captured_graph import SizeCondition

__all__ = ["fixed_by", "witnesses"]

_NEAR = 16
_MOST = 4
_MOST_STEPS = 1000


def witnesses(
    condition: SizeCondition,
    sizes: Mapping[str, int],
    others: Sequence[SizeCondition],
    ranges: Mapping[str, Range],
    free: Collection[str],
) -> Iterator[dict[str, int]]:
    """Sizes that differ from given ones in one size, for which a condition does not hold.

    Of each size the next larger and the next smaller value; first those for which all other conditions hold. Where a
    condition fixes a size, a much larger one is taken: the next one may be fixed together with it. Where no single size
    matters, as to `min(h, w) <= 7`, all sizes of the condition are larger, or smaller, by as much.

    Args:
        condition: The condition.
        sizes: The sizes, by symbol, for which it holds.
        others: The other conditions.
        ranges: The smallest and the largest value of each size.
        free: The symbols that may have other sizes.
    """
    alone: list[dict[str, int]] = []
    more: list[dict[str, int]] = []
    changing = [each for each in condition.symbols if each in free and each in sizes]
    known = [each for each in others if sizes.keys() >= set(each.symbols)]
    for symbol in changing:
        size, (low, high) = sizes[symbol], ranges.get(symbol, (1, None))
        broken = solutions(condition.expression, symbol, low, high, sizes).others()
        kept = [solutions(each.expression, symbol, low, high, sizes) for each in known if symbol in each.symbols]
        is_possible = hold((each for each in known if symbol not in each.symbols), sizes)
        above = [2 * size + 3, size + 1] if symbol in fixed_by((condition,), sizes) else [size + 1]
        for starts, upwards in ((above, True), ([size - 1], False)):
            value = _first([broken, *kept], starts, upwards=upwards) if is_possible else None
            if value is not None:
                alone.append({**sizes, symbol: value})
            elif (value := _first([broken], starts, upwards=upwards)) is not None:
                more.append({**sizes, symbol: value})
    if not alone and not more and len(changing) > 1:
        more = list(_together(condition.expression, changing, sizes, ranges))
    yield from (alone + more)[:_MOST]


def _first(found: Sequence[Solutions], starts: Sequence[int], *, upwards: bool) -> int | None:
    """The first value in a direction, from one of several on, that all solutions have; None where there is none."""
    return next((value for each in starts if (value := _common(found, each, upwards=upwards)) is not None), None)


def _common(found: Sequence[Solutions], size: int, *, upwards: bool) -> int | None:
    for _ in range(_MOST_STEPS):
        nearest = [each.above(size) if upwards else each.below(size) for each in found]
        values = [each for each in nearest if each is not None]
        if len(values) < len(nearest):
            return None
        if size == (furthest := max(values) if upwards else min(values)):
            return size
        size = furthest
    return None


def _together(
    condition: str, changing: Sequence[str], sizes: Mapping[str, int], ranges: Mapping[str, Range]
) -> Iterator[dict[str, int]]:
    """Sizes all of which are larger, or smaller, by as much as needed."""
    limits = [(sizes[each], *ranges.get(each, (1, None))) for each in changing]
    low = max(low - size for size, low, _ in limits)
    high = min((LARGEST if high is None else high) - size for size, _, high in limits)
    found = solutions_together(condition, changing, low, high, sizes).others()
    for step in (found.above(1), found.below(-1)):
        if step is not None:
            yield {**sizes, **{each: sizes[each] + step for each in changing}}


def fixed_by(conditions: Iterable[SizeCondition], sizes: Mapping[str, int]) -> frozenset[str]:
    """The symbols that conditions fix to the value of given sizes, or, as `(n + 1) // 2 == 3`, to a few around it.

    Where Python has asked for a number, as `range(0, n, 100)` does, they may be more: each number has sizes of its own.
    """
    alone = ((each, each.symbols[0]) for each in conditions if len(each.symbols) == 1 and each.symbols[0] in sizes)
    return frozenset(symbol for each, symbol in alone if _is_fixed(each, symbol, sizes[symbol]))


def _is_fixed(condition: SizeCondition, symbol: str, size: int) -> bool:
    found = solutions(condition.expression, symbol, 0, None)
    last = found.below(found.high)
    if size <= 0 or size not in found or 0 in found or last is None:
        return False
    return condition.is_number or last <= size + _NEAR
