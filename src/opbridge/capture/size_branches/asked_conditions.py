"""The conditions on sizes that several captures ask, with their answers for many sizes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from opbridge.capture.guards.conditions import hold
from opbridge.capture.guards.expressions import holds_at
from opbridge.capture.guards.samples import Range
from opbridge.capture.guards.trial_sizes import Sizes, TrialSizes
from opbridge.graph.captured_graph import SizeCondition

__all__ = ["AskedCondition", "AskedConditions"]


class AskedCondition:
    """A condition, which is asked where others have certain answers.

    Attributes:
        condition: The condition.
        before: What holds where it is asked.
        taken: The answers that a capture was made for.
    """

    def __init__(self, condition: SizeCondition, before: tuple[str, ...]) -> None:
        self.condition, self.before = condition, before
        self.taken: set[bool] = set()


class AskedConditions:
    """The conditions of several captures.

    Args:
        example: The sizes of the example, by symbol.
        ranges: The smallest and the largest value of each symbol that may have others.
        kept: What holds of all sizes.
        numbers: Remainders of which sizes with many combinations are wanted.

    Attributes:
        points: Sizes.
        found: The conditions.
    """

    def __init__(
        self,
        example: Sizes,
        ranges: Mapping[str, Range],
        kept: Sequence[SizeCondition] = (),
        numbers: Sequence[str] = (),
    ) -> None:
        self._ranges, self._kept = ranges, kept
        self._answers: dict[str, list[bool]] = {}
        self.points: list[Sizes] = []
        self.found: list[AskedCondition] = []
        trial = TrialSizes(example, ranges)
        self._add([example, *trial.beside(), *trial.mixed(), *trial.combined(numbers)])

    def _add(self, points: Iterable[Sizes]) -> None:
        known = {tuple(each.items()) for each in self.points}
        for each in points:
            if tuple(each.items()) not in known and hold(self._kept, each):
                known.add(tuple(each.items()))
                self.points.append(each)

    def answers(self, expression: str) -> list[bool]:
        """The answers of a condition for all sizes."""
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
        """Notes the conditions of a capture.

        One that has, where it is asked, the answers of another one, or always the opposite ones, is that one.

        Args:
            conditions: What the model asked, in that order.
            sizes: The sizes of the capture.
            is_general: Whether it is to be that of all sizes: what each condition is asked of holds for all of them.
        """
        self._add([sizes, *TrialSizes(sizes, self._ranges, conditions).beside()])
        here = self.points.index(sizes)
        before: list[str] = []
        places = self.where(())
        for condition in conditions:
            answers = self.answers(condition.expression)
            own = [answers[place] for place in places]
            if not all(own):
                asked = self._known(places, own)
                if asked is None:
                    asked = AskedCondition(condition, () if is_general else tuple(before))
                    self.found.append(asked)
                asked.taken.add(self.answers(asked.condition.expression)[here])
                before.append(condition.expression)
                places = [place for place, answer in zip(places, own, strict=True) if answer]

    def _known(self, places: Sequence[int], own: Sequence[bool]) -> AskedCondition | None:
        opposite = [not each for each in own]
        for asked in self.found:
            answers = self.answers(asked.condition.expression)
            if [answers[place] for place in places] in (own, opposite):
                return asked
        return None
