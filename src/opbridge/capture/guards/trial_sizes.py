"""Sizes to try a model with: values at which conditions change their answers, and mixtures of them."""

from __future__ import annotations

import functools
import itertools
import random
from collections.abc import Callable, Iterable, Mapping, Sequence

from opbridge.capture.guards.expressions import symbols_in, value_at
from opbridge.capture.guards.samples import Range
from opbridge.capture.guards.solutions import solutions
from opbridge.graph.captured_graph import SizeCondition

__all__ = ["Sizes", "TrialSizes"]

Sizes = dict[str, int]

_NEAR = 18
_MOST_CHANGES = 8
_FEW = 4
_MIXTURES = 1500
_KEPT = 0.3
_EQUAL = (1, 2, 3, 8)
_MOST_COMBINED = 4000
_MOST_ZEROS, _FEWEST_ZEROS = 16, 4
_FURTHER = 40
_MULTIPLE, _FAR_AWAY = 64 * 2520, 64
_MOST_ALIKE = 40


class TrialSizes:
    """Sizes around given ones.

    Args:
        sizes: The sizes, by symbol.
        ranges: The smallest and the largest value of each that may have others; from 1 by default.
        conditions: What is asked of the sizes.
    """

    def __init__(self, sizes: Sizes, ranges: Mapping[str, Range], conditions: Iterable[SizeCondition] = ()) -> None:
        self._sizes, self._ranges = sizes, ranges
        asked: dict[str, list[str]] = {}
        for each in conditions:
            if len(each.symbols) == 1:
                asked.setdefault(each.symbols[0], []).append(each.expression)
        self.values = {symbol: self._values(symbol, asked.get(symbol, [])) for symbol in ranges}
        """Values of each size, in order."""

    def _values(self, symbol: str, asked: Iterable[str]) -> list[int]:
        size = self._sizes[symbol]
        found = {*range(1, _NEAR), *range(size - _NEAR, size + _NEAR), 2 * size, 2 * size + 1, size // 2}
        for each in asked:
            changes = _changes(each, symbol)
            found.update(changes)
            if len(changes) <= _FEW:  # multiples among those beyond a limit, which another condition is about
                found.update(value + more for value in changes for more in range(_NEAR))
        return sorted(each for each in found if self.allows({symbol: each}))

    def allows(self, sizes: Sizes) -> bool:
        """Whether sizes are within their ranges, and none is 0."""
        spans = ((size, *self._ranges.get(symbol, (1, None))) for symbol, size in sizes.items())
        return all(size >= max(low, 1) and (high is None or size <= high) for size, low, high in spans)

    def beside(self) -> list[Sizes]:
        """Sizes that differ from the given ones in one."""
        return [{**self._sizes, symbol: value} for symbol, values in self.values.items() for value in values]

    def mixed(self) -> list[Sizes]:
        """Sizes of which several are others, and such that are equal to each other."""
        chance = random.Random(0)
        found = [
            {
                **self._sizes,
                **{symbol: chance.choice(own) for symbol, own in self.values.items() if chance.random() >= _KEPT},
            }
            for _ in range(_MIXTURES if len(self.values) > 1 else 0)
        ]
        for pair in itertools.combinations(self.values, 2):
            for value in sorted({*_EQUAL, *(self._sizes[each] for each in pair)}):
                found.append({**self._sizes, **dict.fromkeys(pair, value)})
        return [each for each in found if self.allows(each)]

    def combined(self, numbers: Sequence[str]) -> list[Sizes]:
        """Sizes for which many numbers are 0, or few, in each combination: the nearest ones.

        Args:
            numbers: The numbers, of which those that follow from one size count.
        """
        choices = [[size, *self._by_zeros(symbol, numbers)] for symbol, size in self._sizes.items()]
        every = itertools.islice(itertools.product(*choices), _MOST_COMBINED)
        return [dict(zip(self._sizes, each, strict=True)) for each in every]

    def _by_zeros(self, symbol: str, numbers: Sequence[str]) -> list[int]:
        own = [each for each in numbers if symbols_in(each) == (symbol,)]
        size, found = self._sizes[symbol], dict[tuple[tuple[bool, ...], bool], int]()
        for value in sorted(range(1, 3 * size + _FURTHER), key=lambda each: abs(each - size)) if own else ():
            if self.allows({symbol: value}):
                zeros = tuple(not value_at(each, {symbol: value}) for each in own)
                found.setdefault((zeros, value > size), value)  # the nearest one on each side
        ordered = sorted(found, key=lambda each: sum(each[0]), reverse=True)
        return list(dict.fromkeys(found[each] for each in (*ordered[:_MOST_ZEROS], *ordered[-_FEWEST_ZEROS:])))

    def far(self) -> list[Sizes]:
        """Much larger sizes that have the remainders of the given ones."""
        found = []
        for more in (_MULTIPLE, _FAR_AWAY * _MULTIPLE):
            found += [{**self._sizes, symbol: self._sizes[symbol] + more} for symbol in self.values]
            found.append({**self._sizes, **{symbol: self._sizes[symbol] + more for symbol in self.values}})
        return [each for each in found if self.allows(each)]

    def alike(self, holds: Callable[[Sizes], bool]) -> list[Sizes]:
        """Some sizes for which something holds that holds for the given ones.

        Args:
            holds: What holds.
        """
        chance = random.Random(2)
        values = {
            symbol: [each for each in own if holds({**self._sizes, symbol: each})]
            for symbol, own in self.values.items()
        }
        found = [dict(self._sizes)]
        for symbol, own in values.items():
            some = {*own[:3], *own[-3:], *chance.sample(own, min(4, len(own)))}
            found += [{**self._sizes, symbol: each} for each in sorted(some)]
        for _ in range(4 * _MOST_ALIKE):
            tried = {**self._sizes, **{symbol: chance.choice(own) for symbol, own in values.items() if own}}
            if len(found) < _MOST_ALIKE and tried not in found and holds(tried):
                found.append(tried)
        return found


@functools.lru_cache(maxsize=1024)
def _changes(expression: str, symbol: str) -> tuple[int, ...]:
    """The first sizes at which a condition has another answer than for the size before, and the last ones before."""
    found = itertools.islice(solutions(expression, symbol, 1, None).changes(), _MOST_CHANGES)
    return tuple(each for size in found for each in (size - 1, size))
