"""The repairs of a model, round after round, until nothing is found that one of them mends."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import onnx_ir as ir

from opbridge.fixing import families
from opbridge.fixing.site import Around, Refused, Site, repairs_of
from opbridge.rules.findings import Finding
from opbridge.rules.lint import chosen_rules, look
from opbridge.rules.looking import Looked
from opbridge.targets import Target

__all__ = ["Broken", "Change", "Key", "RepairedCopy", "key_of", "note_broken", "repaired", "repaired_copy"]

del families  # imported for the repairs that they register

_FIRST = frozenset({"clashing-names", "unsorted-nodes"})
"""The rules whose repairs make a model one that others can be made in."""

_ALONE = frozenset({"local-function"})
"""The rules whose repairs change so much that the model is looked at again after each."""

_MOST_ROUNDS = 12
"""A repair may bring findings of its own, as an operator in other operators does."""


Key: TypeAlias = tuple[str, ...]
"""What tells a finding from others, in a model that is repaired again."""


class Broken(Exception):
    """A repair that failed, and may have left the model half changed.

    Attributes:
        finding: The finding that it was for.
        why: What it raised.
    """

    def __init__(self, finding: Finding, why: str) -> None:
        super().__init__(why)
        self.finding, self.why = finding, why


@dataclass(frozen=True)
class Change:
    """What was done for one finding.

    Attributes:
        finding: The finding.
        done: What was done, as in "cast the inputs of Add to float32".
    """

    finding: Finding
    done: str


@dataclass(frozen=True)
class RepairedCopy:
    """A copy of a model, without the repairs that failed.

    Attributes:
        model: The copy.
        changes: What was done.
        left: What is found afterwards.
        undone: The findings whose repairs failed, and how.
    """

    model: ir.Model
    changes: list[Change]
    left: list[Finding]
    undone: dict[Key, str]


def repaired_copy(model: ir.Model, targets: Sequence[Target]) -> RepairedCopy:
    """Repairs a copy of a model, again and again without the repairs that fail.

    Args:
        model: The model, which is not changed.
        targets: What it is to run on.
    """
    undone: dict[Key, str] = {}
    while True:
        copy = model.clone()
        try:
            return RepairedCopy(copy, *repaired(copy, targets, undone=undone), undone)
        except Broken as broken:
            note_broken(broken, undone)


def note_broken(broken: Broken, undone: dict[Key, str]) -> None:
    """Notes a repair that failed among the findings that the next attempt leaves as they are."""
    undone[key_of(broken.finding)] = f"it failed ({broken.why})."


def repaired(
    model: ir.Model,
    targets: Sequence[Target],
    chosen: frozenset[str] | None = None,
    *,
    asked: Iterable[str] = (),
    undone: Mapping[Key, str] | None = None,
    looked: Looked | None = None,
) -> tuple[list[Change], list[Finding]]:
    """Repairs what the rules find in a model, in place.

    Args:
        model: The model.
        targets: What it is to run on.
        chosen: The rules whose findings are repaired; None: all.
        asked: The rules that were asked for by their names, for repairs that are made only then.
        undone: The findings that are left as they are, with what came of their repairs.
        looked: The model as the rules see it, where that is known.

    Returns:
        What was done, and what is found afterwards, by all rules.

    Raises:
        Broken: A repair failed. The model is not to be used.
    """
    every = chosen_rules((), ())
    around = Around(model, targets, asked, looked)
    changes: list[Change] = []
    known = dict(undone or {})
    refused: dict[Key, str] = {}
    rules = every if chosen is None else chosen
    settled = False
    for _ in range(_MOST_ROUNDS):
        done: set[ir.Node | None] = set()
        found = look(around.looked, targets, rules)
        for finding, node in found:
            if (
                key_of(finding) in known
                or key_of(finding) in refused
                or (node is not None and (node.graph is None or node in done))
            ):
                continue  # what else was found at a node may not hold any more once it was changed
            if finding.rule not in _FIRST and (around.looked.early or node in around.looked.malformed):
                continue  # what is not as ONNX has it is no place for other repairs
            said, why = _repaired(Site(around, finding, node))
            if said:
                changes.append(Change(finding, said))
                done.add(node)
                if finding.rule in _ALONE:
                    break
            else:
                refused[key_of(finding)] = why
        if not done:
            settled = rules == every
            break
        around.look()
    if not settled:
        found = look(around.looked, targets, every)
    left = [finding for finding, _ in found]
    for value in (value for node in around.looked.nodes for value in node.outputs):
        if value.type is None:
            value.shape = None  # a file has no shape without a type
    return changes, [
        _undone(each, known[key_of(each)]) if key_of(each) in known else _explained(each, refused.get(key_of(each), ""))
        for each in left
    ]


def key_of(finding: Finding) -> Key:
    """What tells a finding from others."""
    return finding.rule, finding.operator, finding.node, finding.message, finding.target


def _repaired(site: Site) -> tuple[str, str]:
    """What was done at a place, or why nothing was."""
    reasons = []
    for attempt in repairs_of(site.finding):
        try:
            if said := attempt(site):
                return said, ""
        except Refused as refused:
            if refused.why:
                reasons.append(refused.why)
        except Exception as error:  # a fault of the repair, which must not keep the others from being made
            raise Broken(site.finding, f"{type(error).__name__}: {' '.join(str(error).split())[:200]}") from error
        site.give_up()
    return "", reasons[0] if reasons else ""


def _undone(finding: Finding, why: str) -> Finding:
    """A finding whose repair was undone."""
    return dataclasses.replace(finding, remedy=f"{finding.remedy} The repair was undone: {why}")


def _explained(finding: Finding, why: str) -> Finding:
    """A finding that was left, with why there is no repair for it."""
    if not why or why.startswith("("):
        return finding
    told = f"{finding.remedy} There is no repair for {finding.operator} {why}."
    return dataclasses.replace(finding, remedy=told)
