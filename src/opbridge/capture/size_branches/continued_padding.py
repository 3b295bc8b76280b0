"""Conditions on sizes one branch of which does what is nothing on the other one, in one graph without a decision.

`if n % 4 != 0: x = pad(x, (0, 4 - n % 4))` pads by nothing where `n` is a multiple of 4, as the tracer continues the
amount to that (`opbridge.base.torch_private.torch_paddings.continued`); after it, the size is a multiple of 4 for all
`n`. A slice of what was padded takes everything there.

1. The model is captured for sizes that are multiples of nothing that it asks about: all is padded.
2. It is captured for other sizes, until each answer of each condition was given. Each of these captures has
   to be the same as the first one for the sizes that it is for, when what does nothing there is left out.
3. The first capture has to give what the model gives for sizes that give the answers together which these do not.

Where that is so, the first capture is the model for all these sizes, and its conditions are none.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import itertools
import random
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from opbridge.capture import other_branches
from opbridge.capture.dynamic_shapes import Shapes
from opbridge.capture.guards.conditions import hold, negated
from opbridge.capture.guards.expressions import holds_at, remainders, symbols_in, value_at
from opbridge.capture.guards.trial_sizes import Sizes, TrialSizes
from opbridge.capture.limits import CaptureLimits
from opbridge.capture.size_branches.asked_conditions import AskedConditions
from opbridge.capture.size_branches.model_runs import Agreeing, ModelRuns
from opbridge.capture.size_branches.same_where import is_same_where
from opbridge.graph.captured_graph import CapturedGraph, SizeCondition

__all__ = ["padding_continued"]

_MOST_CAPTURES = 10
_MOST_AGAIN = 3
_MOST_TRIED = 16
_MOST_TRIED_SINCE = 5
"""How many sizes are tried after those for which a model pads the most: these come early."""
_COMPARED = 10
_NEAREST = 600
_MIXED = 600

_MOST_TIMES = 8

Capturing = Callable[[Shapes], CapturedGraph | None]


class _CountedPadding(TorchFunctionMode):
    """Counts the ends of dimensions that are padded by something while a model runs."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_function__(self, function: Callable[..., Any], kinds: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function is torch.nn.functional.pad:
            given = inspect.signature(function).bind(*args, **(kwargs or {}))
            self.count += sum(bool(each) for each in given.arguments["pad"])
        return function(*args, **(kwargs or {}))


def _until_zero(expressions: Sequence[str], sizes: Sizes, never: set[str]) -> list[str]:
    """The first numbers, up to one that is 0 for sizes and should not be."""
    found = []
    for each in expressions:
        if each not in never:
            found.append(each)
            if not value_at(each, sizes):
                break
    return found


def _remainders(conditions: Iterable[SizeCondition]) -> list[str]:
    """The remainders that a model asks about, as expressions of sizes."""
    return list(dict.fromkeys(found for each in conditions for found in remainders(each.expression)))


def _multiplicity(number: int) -> int:
    """How often a number can be divided by 2, up to five times; 0 for 0, as a size of 1 is like no other."""
    return 0 if not number else next((times for times in range(5) if number % 2 ** (times + 1)), 5)


def _beside_multiples(size: int) -> list[int]:
    """Sizes that are one more than a multiple of powers of 2, and remain so if they are halved and rounded up."""
    found = range(1, 3 * size + 64)
    return sorted(found, key=lambda each: (-_multiplicity(each - 1), abs(each - size)))[:24] + list(found[:9])


def padding_continued(
    found: CapturedGraph,
    leaves: list[Any],
    shapes: Shapes,
    capture: Capturing,
    agrees: Agreeing,
    limits: CaptureLimits,
    *,
    is_by_size: bool = False,
) -> CapturedGraph | None:
    """One graph for the sizes of both branches of conditions on remainders; None where there is none.

    Args:
        found: A capture of the example.
        leaves: The leaves of `(args, kwargs)`.
        shapes: The dynamic shapes of the example.
        capture: Captures the model for the sizes of other shapes, without in-place operators; None where that fails.
        agrees: Compares a capture with the model.
        limits: How many captures there may be.
        is_by_size: Whether that is how the capture of the example was made.
    """
    continuation = _PaddingContinuation(found, leaves, shapes, capture, agrees, limits, is_by_size)
    return continuation.graph() if continuation.remainders else None


class _PaddingContinuation:
    """The captures of a model for sizes at which remainders are 0, and at which they are not; see `padding_continued`.

    Attributes:
        remainders: The remainders that the model asks about.
    """

    def __init__(
        self,
        found: CapturedGraph,
        leaves: list[Any],
        shapes: Shapes,
        capture: Capturing,
        agrees: Agreeing,
        limits: CaptureLimits,
        is_by_size: bool,
    ) -> None:
        self._capture, self._limits, self._made = capture, limits, 0
        self._axes = other_branches.plain_axes(found, shapes)
        self._runs = ModelRuns(leaves, shapes, self._axes, agrees, _MOST_TIMES)
        example = other_branches.sizes_of_symbols(found, shapes)
        self._example = example
        self._trial = TrialSizes(example, self._ranges)
        self._found, self._is_by_size = found, is_by_size
        self.remainders = _remainders(self._own(found))

    @property
    def _ranges(self) -> dict[str, tuple[int, int | None]]:
        """The smallest and the largest value of each size."""
        return {symbol: (axis.low or 0, axis.high) for symbol, axis in self._axes.items()}

    def _own(self, graph: CapturedGraph) -> list[SizeCondition]:
        """What the model itself asks, of sizes that are known."""
        return [each for each in graph.conditions if not each.by_operator and self._is_known(each)]

    def _is_known(self, condition: SizeCondition) -> bool:
        return (
            self._example.keys() >= set(condition.symbols) and value_at(condition.expression, self._example) is not None
        )

    def _kept(self, graph: CapturedGraph) -> list[SizeCondition]:
        """What else the model itself asks: there, the branches are different ones."""
        return [each for each in self._own(graph) if not remainders(each.expression)]

    def graph(self) -> CapturedGraph | None:
        """The graph; None where the branches differ in more."""
        self._beside = self._kept(self._found)
        made = self._of_no_multiples()
        if made is None:
            return None
        graph, sizes = made
        own = self._own(graph)
        # What the example was asked is no condition of this capture.
        self._asked_remainders = _remainders(own)
        self._asked = AskedConditions(self._example, self._ranges, self._kept(graph), self._asked_remainders)
        self._asked.note(own, sizes, is_general=True)
        accepted, branches = [sizes], [sizes]
        while (other := self._untaken(graph, branches)) is not None:
            region = self._same(graph, other)
            if region is None:
                return None
            accepted += region
            branches.append(other)
        asked = {each.expression for each in own}
        if not all(each.condition.expression in asked for each in self._asked.found if len(each.taken) < 2):
            return None  # what the model does for the other answer is not known, and the first capture does not ask
        if len(branches) < 2 or not self._is_model(graph, branches):
            return None
        left = tuple(
            each
            for each in graph.conditions
            if not self._is_known(each) or all(holds_at(each.expression, point) for point in accepted)
        )
        ranges = graph.ranges | {symbol: (0, axis.high) for symbol, axis in self._axes.items()}
        return dataclasses.replace(graph, conditions=left, ranges=ranges, branch_sizes=tuple(branches))

    def _of_no_multiples(self) -> tuple[CapturedGraph, Sizes] | None:
        """A capture in which everything is padded that may be, and its sizes."""
        wanted, made = _until_zero(self.remainders, self._example, set()), None
        never: set[str] = set()
        for _ in range(_MOST_AGAIN):
            sizes = self._with_remainders(wanted)
            while sizes is None and wanted:  # none has the last remainder, or the model runs for none
                never.add(wanted.pop())
                sizes = self._with_remainders(wanted)
            if sizes is None or not wanted:
                return made
            is_example = sizes == self._example
            graph = self._found if is_example and self._is_by_size else self._captured(sizes)
            if graph is None:
                return made
            beside = [each for each in self._kept(graph) if not holds_at(each.expression, self._example)]
            if beside:  # the example is on another branch of these
                self._beside += map(negated, beside)
                continue
            made = graph, sizes
            own = _remainders(self._own(graph))
            wanted = _until_zero(own, sizes, never)
            if all(value_at(each, sizes) for each in wanted):
                break
        return made

    def _with_remainders(self, wanted: Sequence[str]) -> Sizes | None:
        """Sizes for which these remainders are not 0, and for which the model pads as much as possible."""
        symbols = [each for each in self._axes if any(each in symbols_in(text) for text in self.remainders)]
        chance = random.Random(1)
        values = {symbol: _beside_multiples(self._example[symbol]) for symbol in symbols}
        mixed = [{symbol: chance.choice(own) for symbol, own in values.items()} for _ in range(_MIXED)]
        every = [{**self._example, **dict(each)} for each in dict.fromkeys(tuple(sizes.items()) for sizes in mixed)]
        found = [
            each
            for each in every
            if self._trial.allows(each) and hold(self._beside, each) and all(value_at(one, each) for one in wanted)
        ]
        found.sort(key=lambda each: (-sum(_multiplicity(each[symbol] - 1) for symbol in symbols), self._distance(each)))
        best: tuple[int, Sizes] | None = None
        tried_since = 0
        for sizes in found[:_MOST_TRIED]:
            with _CountedPadding() as counted:
                runs = self._runs.compare(None, sizes) is not None
            if runs and (best is None or counted.count > best[0]):
                best, tried_since = (counted.count, sizes), 0
            elif best is not None:
                tried_since += 1
            if tried_since == _MOST_TRIED_SINCE:
                break
        return best and best[1]

    def _distance(self, sizes: Sizes) -> int:
        return sum(abs(size - self._example[symbol]) for symbol, size in sizes.items())

    def _captured(self, sizes: Sizes) -> CapturedGraph | None:
        if self._made >= _MOST_CAPTURES or self._limits.why_reached(self._made):
            return None
        resized = self._runs.resized(sizes)
        if resized is None:
            return None
        graph = self._capture(resized[0])
        self._made += 1
        self._limits.count()
        if graph is None or dict(graph.places) != dict(self._found.places):
            return None
        return graph if all(holds_at(each.expression, sizes) for each in self._known(graph)) else None

    def _known(self, graph: CapturedGraph) -> list[SizeCondition]:
        return [each for each in graph.conditions if self._is_known(each)]

    def _same(self, graph: CapturedGraph, sizes: Sizes) -> list[Sizes] | None:
        """Captures the model for sizes; if it is the same for all sizes of that branch, some of these, else None."""
        other = self._captured(sizes)
        if other is None or len(self._known(other)) < len(other.conditions):
            return None
        own, trial = self._own(other), TrialSizes(sizes, self._ranges, other.conditions)
        beside = self._kept(graph)
        far = [each for each in trial.far() if hold(beside, each)]
        if not all(holds_at(each.expression, point) for each in own for point in far):
            return None  # the model does something else for large sizes of this branch
        conditions = (*beside, *other.conditions)
        region = [*trial.alike(functools.partial(hold, conditions)), *(each for each in far if hold(conditions, each))]
        is_same = is_same_where(graph, other, conditions, self._ranges, region, is_proven=False)
        if not is_same or not self._runs.compare(graph, sizes):
            return None
        self._asked.note(own, sizes)
        return region

    def _untaken(self, graph: CapturedGraph, branches: Sequence[Sizes]) -> Sizes | None:
        """Sizes that give answers of which there is no capture, as many as possible; None where there are none.

        Of those that give as many, the ones with the most remainders, at which the model mostly asks what it has not
        been asked yet: in `if w % 2 or h % 2`, it asks about `h` only where `w` is even.
        """
        wanted = []
        for asked in self._asked.found:
            answers = self._asked.answers(asked.condition.expression)
            places = self._asked.where(asked.before)
            wanted += [
                {place for place in places if answers[place] is answer}
                for answer in (True, False)
                if answer not in asked.taken
            ]
        count: dict[int, int] = {}
        for places_of_one in wanted:
            for place in places_of_one:
                count[place] = count.get(place, 0) + 1
        points = self._asked.points

        def rank(place: int) -> tuple[int, int, int]:
            sizes = points[place]
            remaining = sum(bool(value_at(each, sizes)) for each in self._asked_remainders)
            return -count[place], -remaining, self._distance(sizes)

        ordered = sorted(count, key=rank)
        untried = itertools.islice((points[place] for place in ordered if points[place] not in branches), _MOST_TRIED)
        return next(filter(self._runs.may_run, untried), None)

    def _is_model(self, graph: CapturedGraph, branches: Sequence[Sizes]) -> bool:
        """Whether a graph gives what the model gives for sizes that give each two answers together, as far as tried."""
        expressions = [each.condition.expression for each in self._asked.found]
        answers = list(zip(*map(self._asked.answers, expressions), strict=True))

        def pairs(place: int) -> set[tuple[int, bool, int, bool]]:
            own = answers[place]
            return {(i, own[i], j, own[j]) for i in range(len(own)) for j in range(i)}

        points = self._asked.points
        seen = set().union(*(pairs(points.index(each)) for each in branches))
        near = sorted(range(len(points)), key=lambda place: self._distance(points[place]))[:_NEAREST]
        for _ in range(_COMPARED):
            place = max(near, key=lambda each: len(pairs(each) - seen), default=None)
            if place is None or not pairs(place) - seen:
                break
            near.remove(place)
            if self._runs.may_run(points[place]):
                if not self._runs.compare(graph, points[place]):
                    return False
                seen |= pairs(place)
        return True
