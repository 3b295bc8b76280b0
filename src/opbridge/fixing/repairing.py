"""The repairs of a model, round after round, until nothing is found that one of them mends."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import onnx_ir as ir

from opbridge.fixing import families
from opbridge.fixing.site import Around, Refused, Site, repairs_of
from opbridge.rules.findings import Finding
from opbridge.rules.lint import chosen_rules, look
from opbridge.targets import Target

__all__ = ["Change", "repaired"]

del families  # imported for the repairs that they register

_FIRST = frozenset({"clashing-names", "unsorted-nodes"})
"""The rules whose repairs make a model one that others can be made in."""

_ALONE = frozenset({"local-function"})
"""The rules whose repairs change so much that the model is looked at again after each."""

_MOST_ROUNDS = 12
"""A repair may bring findings of its own, as an operator in other operators does."""


@dataclass(frozen=True)
class Change:
    """What was done for one finding.

    Attributes:
        finding: The finding.
        done: What was done, as in "cast the inputs of Add to float32".
    """

    finding: Finding
    done: str


def repaired(
    model: ir.Model, targets: Sequence[Target], chosen: frozenset[str] | None = None, *, asked: Iterable[str] = ()
) -> tuple[list[Change], list[Finding]]:
    """Repairs what the rules find in a model, in place.

    Args:
        model: The model.
        targets: What it is to run on.
        chosen: The rules whose findings are repaired; None: all.
        asked: The rules that were asked for by their names, for repairs that are made only then.

    Returns:
        What was done, and what is found afterwards, by all rules.
    """
    every = chosen_rules((), ())
    around = Around(model, targets, asked)
    changes: list[Change] = []
    refused: dict[tuple[str, ...], str] = {}
    rules = every if chosen is None else chosen
    settled = False
    for _ in range(_MOST_ROUNDS):
        done: set[ir.Node | None] = set()
        found = look(around.looked, targets, rules)
        for finding, node in found:
            if _key(finding) in refused or (node is not None and (node.graph is None or node in done)):
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
                refused[_key(finding)] = why
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
    return changes, [_explained(each, refused.get(_key(each), "")) for each in left]


def _key(finding: Finding) -> tuple[str, ...]:
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
        site.give_up()
    return "", reasons[0] if reasons else ""


def _explained(finding: Finding, why: str) -> Finding:
    """A finding that was left, with why there is no repair for it."""
    if not why or why.startswith("("):
        return finding
    told = f"{finding.remedy} There is no repair for {finding.operator} {why}."
    return dataclasses.replace(finding, remedy=told)
