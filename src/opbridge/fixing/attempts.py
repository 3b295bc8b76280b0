"""A model repaired again and again, without the repairs that failed or changed its results."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import onnx_ir as ir

from opbridge.fixing.repairing import Broken, Change, Key, key_of, repaired
from opbridge.fixing.versions import RULE, Versions, to_versions
from opbridge.onnx import reading
from opbridge.rules.findings import Finding
from opbridge.rules.looking import Looked
from opbridge.side_by_side import SideBySide
from opbridge.targets import Target

__all__ = ["Attempt", "Attempts"]

_MOST_COMPARED = 40
"""So many models are compared with the original to find the repairs that change results. What is not known by then is
undone."""


@dataclass(frozen=True)
class Attempt:
    """A repaired model.

    Attributes:
        model: The model.
        changes: What was done.
        left: What is found in it afterwards.
    """

    model: ir.Model
    changes: Sequence[Change]
    left: Sequence[Finding]


class Attempts:
    """The repairs of one file.

    Args:
        original: The file, or its content.
        label: Its name in messages.
        targets: What it is repaired for.
        chosen: The rules whose findings are repaired.
        asked: The rules that were asked for by their names.
    """

    def __init__(
        self,
        original: str | bytes,
        label: str,
        targets: Sequence[Target],
        chosen: frozenset[str],
        asked: Sequence[str],
    ) -> None:
        self._original, self._label, self._targets = original, label, targets
        self._chosen, self._asked = chosen, asked
        self._undone: dict[Key, tuple[Change, str]] = {}
        self._compared = 0
        self._unconverted = ""

    @property
    def undone(self) -> list[tuple[Change, str]]:
        """The repairs that failed or changed results, with what came of them."""
        return list(self._undone.values())

    def made(self, looked: Looked | None = None, without: Collection[Key] = ()) -> Attempt:
        """The file with its repairs, but for those that fail.

        Args:
            looked: The file as it was read; None: it is read again.
            without: The findings that are left as they are.
        """
        while True:
            undone = {**dict.fromkeys(without, ""), **{key: why for key, (_, why) in self._undone.items()}}
            before = Looked(reading.load_with_clashes(self._original)) if looked is None else looked
            looked = None
            versions = self._chosen - {RULE} if any(key[0] == RULE for key in undone) else self._chosen
            first = to_versions(before, self._original, self._label, self._targets, versions)
            try:
                changes, left = self._repaired(first, undone, before if first.model is before.model else None)
                why = self._unconverted or first.why
                if first.why and changes and not self._unconverted:
                    # Repairs may have put others in the place of the operators that the older opset does not have.
                    again = to_versions(Looked(first.model), None, self._label, self._targets, versions)
                    if again.why:
                        self._unconverted = again.why  # the model is lost: it is made again, at its own opset
                        continue
                    why = ""
                    more, left = self._repaired(again, undone, None)
                    changes += more
            except Broken as broken:
                self._undone[key_of(broken.finding)] = Change(broken.finding, "(nothing)"), f"it failed ({broken.why})."
                continue
            return Attempt(first.model, changes, [_with_reason(each, why) for each in left])

    def _repaired(
        self, given: Versions, undone: Mapping[Key, str], looked: Looked | None
    ) -> tuple[list[Change], list[Finding]]:
        """What was done to a model, its conversion first, and what is found afterwards."""
        changes, left = repaired(
            given.model, self._targets, self._chosen, asked=self._asked, undone=undone, looked=looked
        )
        return [*(Change(finding, said) for finding, said in given.done), *changes], left

    def without_failing(self, first: Attempt, found: SideBySide, compare: Callable[[Attempt], SideBySide]) -> Attempt:
        """The file with the repairs that leave its results as they are.

        Args:
            first: The file with all repairs.
            found: What came of comparing that.
            compare: Compares another one.
        """
        by_key = {key_of(each.finding): each for each in first.changes}

        def holds(without: Sequence[Key]) -> bool:
            """Whether the results are as they were without some of the repairs."""
            if self._compared >= _MOST_COMPARED:
                return False
            self._compared += 1
            made = self.made(without=without)
            said = compare(made) if made.changes else None
            return said is None or bool(said.runs and said.ok)

        def failing(keys: list[Key], without: list[Key]) -> list[Key]:
            """Those of some repairs that have to be undone, where undoing all of them is enough."""
            if len(keys) == 1:
                return keys
            halves = keys[: len(keys) // 2], keys[len(keys) // 2 :]
            for half in halves:
                if holds([*without, *half]):
                    return failing(half, without)
            found = failing(halves[0], [*without, *halves[1]])
            return found + failing(halves[1], [*without, *found])

        for key in failing(list(by_key), []):
            self._undone[key] = by_key[key], found.summary()
        return self.made()


def _with_reason(finding: Finding, why: str) -> Finding:
    """A finding on the model's opset, with why the model was not converted."""
    if finding.rule != RULE or not why:
        return finding
    return dataclasses.replace(finding, remedy=f"{finding.remedy} The model was not converted. {why}")
