"""A proof that a condition on several sizes holds for no sizes.

Each case of the condition becomes linear inequalities over the integers, of which one unknown after the other is
eliminated (Fourier and Motzkin's method). A product of sizes or a floor division is one more unknown, with the
inequalities that say what it is. The proof is sound, and not complete: where it finds nothing, there may still be no
such sizes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence

from opbridge.capture.guards.expressions import COMPARISONS, Constant, Expression, Operation, Symbol
from opbridge.capture.guards.linear import ONE, Linear, NotLinear, added, linear, without_choices
from opbridge.capture.guards.samples import LARGEST, Range

__all__ = ["is_refuted"]

_MOST_CASES = 64
_MOST_INEQUALITIES = 300

_Case = tuple[Operation, ...]
"""Comparisons that hold together."""


def is_refuted(condition: Expression, ranges: Mapping[str, Range]) -> bool:
    """Whether it is proven that a condition holds for no sizes.

    Args:
        condition: The condition.
        ranges: The smallest and the largest value of each size; from 1 by default.
    """
    try:
        cases = list(itertools.islice(_cases(without_choices(condition), answer=True), _MOST_CASES + 1))
    except NotLinear:
        return False
    return len(cases) <= _MOST_CASES and all(_System(each, ranges).is_impossible() for each in cases)


def _cases(condition: Expression, *, answer: bool) -> Iterator[_Case]:
    """The cases in which a condition has an answer."""
    if not isinstance(condition, Operation):
        assert isinstance(condition, Constant)
        yield from [()] if bool(condition.value) is answer else []
        return
    name, operands = condition.name, condition.operands
    if name == "not":
        yield from _cases(operands[0], answer=not answer)
    elif name in ("and", "or"):
        parts = [list(itertools.islice(_cases(each, answer=answer), _MOST_CASES + 1)) for each in operands]
        if (name == "and") is answer:
            yield from (tuple(itertools.chain(*each)) for each in itertools.product(*parts))
        else:
            yield from itertools.chain(*parts)
    else:
        name = name if answer else COMPARISONS[name]
        yield from ((Operation(each, operands),) for each in (("<", ">") if name == "!=" else (name,)))


class _System:
    """Inequalities: sums of unknowns that are at most 0.

    Args:
        comparisons: Those that are to hold; of one that is not linear nothing is known.
        ranges: The smallest and the largest value of each size.
    """

    def __init__(self, comparisons: _Case, ranges: Mapping[str, Range]) -> None:
        self._ranges = ranges
        self._found: list[Linear] = []
        self._known: set[Expression] = set()
        for each in comparisons:
            try:
                left, right = (linear(side, self._unknown) for side in each.operands)
            except NotLinear:
                continue
            if each.name in ("<", "<=", "=="):
                self._add(left, right, int(each.name == "<"))
            if each.name in (">", ">=", "=="):
                self._add(right, left, int(each.name == ">"))

    def _add(self, smaller: Linear, larger: Linear, more: int = 0) -> None:
        """Adds that a sum, and a number more, is at most another sum."""
        self._found.append(_tightened(added((smaller, 1), (larger, -1), ({ONE: more}, 1))))

    def _unknown(self, unknown: Expression) -> Linear:
        """An unknown as a sum; what is known of it is added."""
        itself: Linear = {unknown: 1}
        if unknown in self._known:
            return itself
        self._known.add(unknown)
        if isinstance(unknown, Symbol):
            low, high = self._ranges.get(unknown.name, (1, None))
            self._add({ONE: low}, itself)
            self._add(itself, {ONE: LARGEST if high is None else high})
            return itself
        assert isinstance(unknown, Operation)
        one, other = (linear(each, self._unknown) for each in unknown.operands)
        if unknown.name == "//":
            divisor = other[ONE]
            self._add({unknown: divisor}, one)
            self._add(one, {unknown: divisor, ONE: divisor - 1})
        else:
            lows = list(map(self._low, unknown.operands))
            if min(lows) >= 0:
                self._add(added((one, lows[1])), itself)
                self._add(added((other, lows[0])), itself)
        return itself

    def _low(self, expression: Expression) -> int:
        """A number that an expression is at least; -1 where none from 0 on is seen."""
        match expression:
            case Constant(int() as value):
                return max(value, -1)
            case Symbol(name):
                return max(self._ranges.get(name, (1, None))[0], -1)
            case Operation("//", (one, Constant(int() as divisor))) if divisor > 0:
                return self._low(one) // divisor
            case Operation("*" | "+" as name, (one, other)):
                lows = self._low(one), self._low(other)
                return -1 if min(lows) < 0 else lows[0] * lows[1] if name == "*" else sum(lows)
        return -1

    def is_impossible(self) -> bool:
        """Whether no numbers fulfil all inequalities, as far as is seen."""
        system = self._found
        while not any(each.keys() == {ONE} and each[ONE] > 0 for each in system):
            unknowns = {unknown for each in system for unknown in each if unknown != ONE}
            if not unknowns or len(system) > _MOST_INEQUALITIES:
                return False
            chosen = min(unknowns, key=lambda unknown: (_growth(system, unknown), repr(unknown)))
            above = [each for each in system if each.get(chosen, 0) > 0]
            below = [each for each in system if each.get(chosen, 0) < 0]
            new = [
                _tightened(added((one, -other[chosen]), (other, one[chosen])))
                for one, other in itertools.product(above, below)
            ]
            kept = [each for each in system if chosen not in each]
            system = list({frozenset(each.items()): each for each in (*kept, *new)}.values())
        return True


def _growth(system: Sequence[Linear], unknown: Expression) -> int:
    signs = [each[unknown] > 0 for each in system if unknown in each]
    return sum(signs) * (len(signs) - sum(signs)) - len(signs)


def _tightened(inequality: Linear) -> Linear:
    """An inequality divided by what its coefficients have in common; its constant is a whole number all the same."""
    divisor = math.gcd(*(number for unknown, number in inequality.items() if unknown != ONE))
    if divisor < 2:
        return inequality
    return added(({each: -(-number // divisor) for each, number in inequality.items()}, 1))
