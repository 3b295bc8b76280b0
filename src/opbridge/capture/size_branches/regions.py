"""The sizes that a capture is the model for, and sizes that are others."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from opbridge.capture.size_constraints import holds_at, holds_between, holds_for_all, largest_of
from opbridge.graph.captured_graph import SizeCondition

__all__ = ["Conditions", "breaking", "expression_of", "fixed", "holds", "is_trivial", "negated", "where"]

Conditions = tuple[SizeCondition, ...]
"""What all has to hold of the sizes."""

Ranges = Mapping[str, tuple[int, int | None]]

_SCANNED = 512
_NEAR = 16
_FACTORS = (2, 3, 4, 8, 16, 32, 64)
_MOST = 4


def holds(conditions: Iterable[SizeCondition], sizes: Mapping[str, int]) -> bool:
    """Whether all conditions hold for sizes; one on a symbol that has no size does."""
    return all(_holds(each, sizes) for each in conditions)


def _holds(condition: SizeCondition, sizes: Mapping[str, int]) -> bool:
    if not sizes.keys() >= set(condition.symbols):
        return True
    return holds_at(condition.expression, sizes)


def fixed(region: Conditions, sizes: Mapping[str, int]) -> frozenset[str]:
    """The symbols that a region fixes to the value of given sizes, or, as `(n + 1) // 2 == 3`, to a few around it."""
    alone = [each for each in region if len(each.symbols) == 1 and each.symbols[0] in sizes]
    return frozenset(
        each.symbols[0]
        for each in alone
        if sizes[each.symbols[0]] and _fixes(each, each.symbols[0], sizes[each.symbols[0]])
    )


def _fixes(condition: SizeCondition, symbol: str, size: int) -> bool:
    """Whether a condition holds neither for larger sizes nor for smaller ones, but some around a size.

    As far as these are tried: a remainder is the same again for larger sizes.
    """
    end = 2 * size + _SCANNED
    held = [each for each in range(end) if _holds(condition, {symbol: each})]
    return size in held and held[0] > 0 and held[-1] <= size + _NEAR


def is_trivial(condition: SizeCondition, ranges: Ranges) -> bool:
    """Whether a condition holds for all sizes that a graph is asked for."""
    if not holds_for_all(condition.expression, condition.symbols, ranges):
        return False
    if len(condition.symbols) != 1:
        return True
    (symbol,) = condition.symbols
    return holds_between(condition.expression, symbol, *ranges.get(symbol, (1, None)))


def breaking(
    condition: SizeCondition,
    sizes: Mapping[str, int],
    others: Sequence[SizeCondition],
    ranges: Ranges,
    free: Collection[str],
) -> Iterator[dict[str, int]]:
    """Sizes that differ from given ones in one size, for which a condition does not hold; at most a few.

    Those for which all other conditions hold come first, of each size the next larger and the next smaller one. Where
    no single size matters, as to `min(h, w) <= 7`, all sizes of the condition are larger, or smaller, by as much.

    Args:
        condition: The condition.
        sizes: The sizes, by symbol, for which it holds.
        others: The other conditions.
        ranges: The smallest and the largest value of each size.
        free: The symbols that may have other sizes.
    """
    alone: list[dict[str, int]] = []
    more: list[dict[str, int]] = []
    for symbol in condition.symbols:
        if symbol not in free or symbol not in sizes:
            continue
        for candidates in _beside(condition, symbol, sizes[symbol], *ranges.get(symbol, (1, None))):
            tried = ({**sizes, symbol: each} for each in candidates)
            broken = [each for each in tried if not _holds(condition, each)]
            found = next((each for each in broken if holds(others, each)), None)
            if found is not None:
                alone.append(found)
            elif broken:
                more.append(broken[0])
    if not alone and not more:
        more = _breaking_together(condition, sizes, ranges, free)
    yield from (alone + more)[:_MOST]


def _breaking_together(
    condition: SizeCondition, sizes: Mapping[str, int], ranges: Ranges, free: Collection[str]
) -> list[dict[str, int]]:
    """Sizes for which a condition on several does not hold: all of them larger, or smaller, by as much."""
    together = [each for each in condition.symbols if each in free and each in sizes]
    if len(together) < 2:
        return []

    def is_allowed(symbol: str, size: int) -> bool:
        low, high = ranges.get(symbol, (1, None))
        return low <= size and (high is None or size <= high)

    found = []
    far = [(factor - 1) * max(sizes[each] for each in together) for factor in _FACTORS]
    for steps in (range(1, _NEAR + 1), range(-1, -_NEAR - 1, -1), far):
        tried = [{**sizes, **{each: sizes[each] + step for each in together}} for step in steps]
        allowed = [each for each in tried if all(is_allowed(symbol, each[symbol]) for symbol in together)]
        found += [each for each in allowed if not _holds(condition, each)][:1]
    return found


def _beside(
    condition: SizeCondition, symbol: str, size: int, low: int, high: int | None
) -> tuple[list[int], list[int]]:
    """Sizes above and below one, the nearest first; but one far away where the condition holds for one size alone."""
    if len(condition.symbols) == 1 and _fixes(condition, symbol, size):
        far = [2 * size + 3, *range(size + 1, size + 1 + _NEAR)]
        return [each for each in far if high is None or each <= high], list(range(size - 1, low - 1, -1))
    largest = largest_of(condition.expression, symbol) if len(condition.symbols) == 1 else None
    limit = largest + 1 if largest is not None else size
    above = [limit] if limit > size else []
    above += [*range(size + 1, size + 1 + _NEAR), *(size * factor + extra for factor in _FACTORS for extra in (0, 1))]
    below = range(size - 1, max(low, size - _SCANNED) - 1, -1)
    return [each for each in above if high is None or each <= high], list(below)


def expression_of(regions: Sequence[Conditions]) -> tuple[str, tuple[str, ...]]:
    """The condition that sizes are of one of several regions, as a Python expression, and its symbols."""
    expressions = [{each.expression for each in region} for region in regions]
    regions = [
        region
        for number, region in enumerate(regions)
        if not any(  # which is within another one
            other < expressions[number] or (other == expressions[number] and position < number)
            for position, other in enumerate(expressions)
        )
    ]
    told = [
        region[0].expression if len(region) == 1 else " and ".join(f"({each.expression})" for each in region) or "True"
        for region in regions
    ]
    expression = " or ".join(f"({each})" for each in told) if len(told) > 1 else told[0]
    symbols = {symbol for region in regions for each in region for symbol in each.symbols}
    return expression, tuple(sorted(symbols))


def where(before: Sequence[SizeCondition], condition: SizeCondition) -> SizeCondition | None:
    """A condition that has to hold only where others do; None where it is one of these."""
    if any(each.expression == condition.expression for each in before):
        return None
    if not before:
        return condition
    text = " or ".join(f"(not ({each.expression}))" for each in before)
    symbols = sorted({symbol for each in (*before, condition) for symbol in each.symbols})
    return dataclasses.replace(condition, expression=f"{text} or ({condition.expression})", symbols=tuple(symbols))


def negated(condition: SizeCondition) -> SizeCondition:
    """The opposite of a condition."""
    return dataclasses.replace(condition, expression=f"not ({condition.expression})")
