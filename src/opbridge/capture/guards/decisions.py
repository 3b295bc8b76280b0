"""Whether a condition on sizes holds for all sizes, or wherever others do, and sizes for which it does not."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from opbridge.capture.guards.expressions import Operation, holds_at, parsed, symbols_in, value_at
from opbridge.capture.guards.refutation import is_refuted
from opbridge.capture.guards.samples import Range, mixtures
from opbridge.capture.guards.solutions import Solutions, solutions

__all__ = ["Verdict", "decided", "implied"]

_MOST_LINES = 8
"""Of so many sizes that are tried, each one is varied as well."""


@dataclass(frozen=True)
class Verdict:
    """Whether a condition holds for all sizes.

    Attributes:
        holds: Whether it does.
        is_proven: Whether that is known, and not only as far as sizes were tried.
        witness: Sizes for which it does not hold; None where there are none.
    """

    holds: bool
    is_proven: bool
    witness: Mapping[str, int] | None = None

    def __bool__(self) -> bool:
        return self.holds


def decided(condition: str, ranges: Mapping[str, Range]) -> Verdict:
    """Whether a condition holds for all sizes.

    A condition on one size is decided exactly where `solutions` does. One on several is proven where `refutation`
    proves that its opposite has no solution; else sizes are tried.

    Args:
        condition: The condition. It holds where it has no value, and one that is no expression is taken to hold.
        ranges: The smallest and the largest value of each size; from 1 by default.
    """
    expression = parsed(condition)
    if expression is None:
        return Verdict(holds=True, is_proven=False)
    own = tuple((symbol, ranges.get(symbol, (1, None))) for symbol in sorted(symbols_in(condition)))
    return _decided(condition, own)


@functools.lru_cache(maxsize=8192)
def _decided(condition: str, ranges: tuple[tuple[str, Range], ...]) -> Verdict:
    if all(low == high for _, (low, high) in ranges):
        sizes = {symbol: low for symbol, (low, _) in ranges}
        holds = holds_at(condition, sizes)
        return Verdict(holds, value_at(condition, sizes) is not None, None if holds else sizes)
    if len(ranges) == 1:
        ((symbol, (low, high)),) = ranges
        found = solutions(condition, symbol, low, high)
        size = found.others().above(found.low)
        return Verdict(holds=True, is_proven=found.is_proven) if size is None else Verdict(False, True, {symbol: size})
    tried = list(mixtures([symbol for symbol, _ in ranges], dict(ranges)))
    witness = next((each for each in tried if not holds_at(condition, each)), None)
    if witness is not None:
        return Verdict(False, True, witness)
    expression = parsed(condition)
    assert expression is not None
    if is_refuted(Operation("not", (expression,)), dict(ranges)):
        return Verdict(holds=True, is_proven=True)
    for sizes, (symbol, (low, high)) in itertools.product(tried[:_MOST_LINES], ranges):
        size = solutions(condition, symbol, low, high, sizes).others().above(low)
        if size is not None:
            return Verdict(False, True, {**sizes, symbol: size})
    return Verdict(holds=True, is_proven=False)


def implied(condition: str, by: Iterable[str], ranges: Mapping[str, Range]) -> Verdict:
    """Whether a condition holds for all sizes for which others do.

    Args:
        condition: The condition.
        by: The others.
        ranges: The smallest and the largest value of each size; from 1 by default.
    """
    others = tuple(by)
    symbols = {symbol for each in (condition, *others) for symbol in symbols_in(each)}
    if len(symbols) == 1:
        (symbol,) = symbols
        found = _implied(condition, others, symbol, *ranges.get(symbol, (1, None)))
        if found is not None:
            return found
    return decided(" or ".join((*(f"(not ({each}))" for each in others), f"({condition})")), ranges)


def _implied(condition: str, by: tuple[str, ...], symbol: str, low: int, high: int | None) -> Verdict | None:
    """`implied` for conditions on one size, by those that are decided exactly; None where that leaves it open.

    What these leave of the sizes is found once, for all conditions that they may imply.
    """
    own = solutions(condition, symbol, low, high)
    left, is_whole = _left_by(by, symbol, low, high)
    breaking = left.common(own.others()) if own.is_proven else None
    if breaking is None:
        return None
    size = breaking.above(breaking.low)
    if size is None:
        return Verdict(holds=True, is_proven=True)
    return Verdict(False, True, {symbol: size}) if is_whole else None


@functools.lru_cache(maxsize=1024)
def _left_by(conditions: tuple[str, ...], symbol: str, low: int, high: int | None) -> tuple[Solutions, bool]:
    """The sizes for which conditions hold that are decided exactly, and whether these are all conditions."""
    left, is_whole = solutions("True", symbol, low, high), True
    for each in conditions:
        own = solutions(each, symbol, low, high)
        both = left.common(own) if own.is_proven else None
        left, is_whole = (left, False) if both is None else (both, is_whole)
    return left, is_whole
