"""The questions about sizes of several captures, with their answers for many sizes."""

from __future__ import annotations

import ast
import functools
import itertools
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from opbridge.capture.guards.expressions import holds_at, value_at
from opbridge.graph.captured_graph import SizeCondition

__all__ = ["AskedQuestions", "Question", "remainders"]

Sizes = dict[str, int]

_NEAR, _FAR = 1500, 1500
_AROUND = 40
_SCANNED = 512
_MULTIPLE, _FAR_AWAY = 64 * 2520, 64
_MIXED = 600
_MOST_MIXED = 4000
_SPECIAL = 16
_CHANGED = 0.7


class Question:
    """A question, which is asked where others have certain answers.

    Attributes:
        condition: The question.
        before: What holds where it is asked.
        taken: The answers that a capture was made for.
    """

    def __init__(self, condition: SizeCondition, before: tuple[str, ...]) -> None:
        self.condition, self.before = condition, before
        self.taken: set[bool] = set()


class AskedQuestions:
    """The questions of several captures.

    Args:
        example: The sizes of the example, by symbol.
        low: The smallest value of each symbol that may have others.
        high: The largest one; None: any.

    Attributes:
        points: Sizes.
        found: The questions.
    """

    def __init__(self, example: Mapping[str, int], low: Mapping[str, int], high: Mapping[str, int | None]) -> None:
        self._example, self._low, self._high = dict(example), low, high
        self._kept: dict[str, None] = {}
        self._answers: dict[str, list[bool]] = {}
        self.points: list[Sizes] = []
        self.found: list[Question] = []
        self._add(self._by_chance())

    def _by_chance(self) -> Iterator[Sizes]:
        chance = random.Random(0)
        yield dict(self._example)
        for number in range(_NEAR + _FAR):
            sizes = dict(self._example)
            for symbol in self._low:
                size = self._example[symbol]
                span = (size - _AROUND, size + _AROUND) if number < _NEAR else (1, 3 * size + _AROUND)
                if chance.random() < _CHANGED:
                    sizes[symbol] = chance.randint(*span)
            yield sizes

    def _add(self, points: Iterable[Sizes]) -> None:
        known = {tuple(each.values()) for each in self.points}
        for each in points:
            key = tuple(each.values())
            if key not in known and all(self._allows(*own) for own in each.items()) and self._holds(each):
                known.add(key)
                self.points.append(each)

    def _allows(self, symbol: str, size: int) -> bool:
        high = self._high.get(symbol)
        return size >= max(self._low.get(symbol, 0), 1) and (high is None or size <= high)

    def _holds(self, sizes: Sizes) -> bool:
        return all(holds_at(each, sizes) for each in self._kept)

    def mixed(self, symbols: Sequence[str], values: Callable[[int], list[int]]) -> list[Sizes]:
        """Sizes in which some are others than in the example.

        Args:
            symbols: Those of which.
            values: Gives values for a size of the example.
        """
        chance = random.Random(1)
        choices = {
            symbol: [each for each in values(self._example[symbol]) if self._allows(symbol, each)] for symbol in symbols
        }
        if not all(choices.values()):
            return []
        every = [
            {**self._example, **{symbol: chance.choice(own) for symbol, own in choices.items()}} for _ in range(_MIXED)
        ]
        return [dict(each) for each in {tuple(sizes.items()) for sizes in every} if self._holds(dict(each))]

    def add_multiples(self, expressions: Sequence[str]) -> None:
        """Adds sizes for which many remainders are 0, or few, in each combination.

        Args:
            expressions: The remainders, of which those of one size count.
        """
        choices = {symbol: [size] for symbol, size in self._example.items()}
        for symbol in self._low:
            own = [each for each in expressions if value_at(each, {symbol: 1}) is not None]
            size = self._example[symbol]
            patterns: dict[tuple[tuple[bool, ...], bool], int] = {}  # the nearest size on each side of the example's
            for each in sorted(range(1, 3 * size + _AROUND), key=lambda each: abs(each - size)):
                if self._allows(symbol, each):
                    zeros = tuple(not value_at(one, {symbol: each}) for one in own)
                    patterns.setdefault((zeros, each > size), each)
            most = [patterns[each] for each in sorted(patterns, key=lambda each: sum(each[0]), reverse=True)]
            if own:
                choices[symbol] = list(dict.fromkeys([size, *most[:_SPECIAL], *most[-4:]]))
        every = itertools.product(*choices.values())
        self._add(dict(zip(choices, each, strict=True)) for each in itertools.islice(every, _MOST_MIXED))

    def add_around(self, sizes: Sizes) -> None:
        """Adds sizes that differ from given ones in one of them."""
        self._add([sizes])
        for symbol in self._low:
            self._add({**sizes, symbol: each} for each in range(1, max(_SCANNED, 2 * sizes[symbol])))

    def keep(self, conditions: Sequence[SizeCondition]) -> None:
        """Leaves out sizes for which conditions do not hold, from now on."""
        self._kept |= dict.fromkeys(each.expression for each in conditions)
        self.points = [each for each in self.points if self._holds(each)]
        self._answers.clear()

    def answers(self, expression: str) -> list[bool]:
        """The answers of a question for all sizes."""
        known = self._answers.setdefault(expression, [])
        known.extend(holds_at(expression, each) for each in self.points[len(known) :])
        return known

    def where(self, expressions: Iterable[str]) -> list[int]:
        """The places of the sizes for which all conditions hold."""
        found = list(range(len(self.points)))
        for each in expressions:
            answers = self.answers(each)
            found = [place for place in found if answers[place]]
        return found

    def note(self, conditions: Sequence[SizeCondition], sizes: Sizes, *, is_general: bool = False) -> None:
        """Notes the questions of a capture.

        One that has, where it is asked, the answers of another one, or always the opposite ones, is that one.

        Args:
            conditions: What the model asked, in that order.
            sizes: The sizes of the capture.
            is_general: Whether it is to be that of all sizes: what each question is asked of holds for all of them.
        """
        self.add_around(sizes)
        here = self.points.index(sizes)
        before: list[str] = []
        places = self.where(())
        for condition in conditions:
            answers = self.answers(condition.expression)
            own = [answers[place] for place in places]
            if not all(own):
                question = self._known(places, own)
                if question is None:
                    question = Question(condition, () if is_general else tuple(before))
                    self.found.append(question)
                question.taken.add(self.answers(question.condition.expression)[here])
                before.append(condition.expression)
                places = [place for place, answer in zip(places, own, strict=True) if answer]

    def _known(self, places: Sequence[int], own: Sequence[bool]) -> Question | None:
        opposite = [not each for each in own]
        for question in self.found:
            answers = self.answers(question.condition.expression)
            if [answers[place] for place in places] in (own, opposite):
                return question
        return None

    def far(self, sizes: Sizes) -> list[Sizes]:
        """Much larger sizes that have the remainders of given ones."""
        found = []
        for more in (_MULTIPLE, _FAR_AWAY * _MULTIPLE):
            found += [{**sizes, symbol: sizes[symbol] + more} for symbol in self._low]
            found.append({**sizes, **{symbol: sizes[symbol] + more for symbol in self._low}})
        return [each for each in found if all(self._allows(*own) for own in each.items()) and self._holds(each)]

    def around(self, sizes: Sizes, conditions: Sequence[SizeCondition], most: int = 40) -> list[Sizes]:
        """Sizes of the region of given ones: those of its conditions hold.

        Args:
            sizes: The sizes.
            conditions: The conditions.
            most: How many at most.
        """
        expressions = [each.expression for each in conditions]

        def holds(tried: Sizes) -> bool:
            return all(holds_at(each, tried) for each in expressions) and self._holds(tried)

        values = {
            symbol: [
                size
                for size in range(1, max(2 * _SCANNED, 3 * sizes[symbol]))
                if self._allows(symbol, size) and holds({**sizes, symbol: size})
            ]
            for symbol in self._low
        }
        chance = random.Random(2)
        found = [dict(sizes)]
        for symbol, own in values.items():
            found += [{**sizes, symbol: each} for each in {*own[:3], *own[-3:], *chance.sample(own, min(4, len(own)))}]
        for _ in range(4 * most):
            tried = {**sizes, **{symbol: chance.choice(own) for symbol, own in values.items() if own}}
            if len(found) < most and tried not in found and holds(tried):
                found.append(tried)
        return found


@functools.lru_cache(maxsize=4096)
def _remainders(expression: str) -> tuple[str, ...]:
    return tuple(
        ast.unparse(each)
        for each in ast.walk(ast.parse(expression, mode="eval"))
        if isinstance(each, ast.BinOp) and isinstance(each.op, ast.Mod)
    )


def remainders(conditions: Iterable[SizeCondition]) -> list[str]:
    """The remainders that a model asks about, as expressions of sizes."""
    return list(
        dict.fromkeys(found for each in conditions if not each.by_operator for found in _remainders(each.expression))
    )


def count_of_nonzero(expressions: Iterable[str], sizes: Sizes) -> int:
    """How many of some numbers are not 0 for sizes."""
    return sum(bool(value_at(each, sizes)) for each in expressions)
