"""The first operator that differs between two files, and whether it does so alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx
import torch

from opbridge.errors import OpbridgeError
from opbridge.onnx import subgraphs
from opbridge.onnx.subgraphs import GraphIndex
from opbridge.verification.bisection import entering, iterations
from opbridge.verification.bisection.cases import Case, Located
from opbridge.verification.bisection.files import FileSide
from opbridge.verification.bisection.graphs import comparable, nodes_between
from opbridge.verification.bisection.judging import Judge
from opbridge.verification.bisection.metadata import operator_of
from opbridge.verification.bisection.report import Culprit, Operator, ValueRange
from opbridge.verification.bisection.search import Probe, Search, Values, search
from opbridge.verification.bisection.types import known_types, random_values, tensors, typed
from opbridge.verification.compare import rms

__all__ = ["FEW_VALUES", "MOST_LEVELS", "budget_of", "examined", "locate", "operators_of", "values_of"]

MOST_LEVELS = 8
FEW_VALUES = 64
_MOST_NAMED = 32


def values_of(side: FileSide, mapping: Mapping[str, str]) -> tuple[Values, dict[str, onnx.TypeProto]]:
    """The values of a file that can be compared, for its inputs.

    Args:
        side: The file, with its inputs.
        mapping: The names of the values that have a counterpart.
    """
    shapes = {name: list(each.shape) for name, each in side.feeds.items()}
    types = known_types(side.index, shapes, isolated=side.setting.isolated is not False)
    random = random_values(side.index)
    names = [name for name in tensors(side.index, types) if name in mapping and name not in random]
    return comparable(side.index, names, types), types


def locate(
    left: FileSide,
    right: FileSide,
    mapping: Mapping[str, str],
    wrong: str,
    judge: Judge,
    within: Sequence[str] = (),
) -> Located:
    """Finds the first operator that differs between two files with inputs on which they do.

    Args:
        left: The file whose values are expected.
        right: The other file.
        mapping: By the name of a value of the first, that of the second.
        wrong: The name of a value of the first that differs.
        judge: Compares values.
        within: The nodes that hold these files' nodes, in words.

    Raises:
        OpbridgeError: A run fails.
    """
    values, _ = values_of(left, mapping)
    if wrong not in values.parents:
        values = _with(values, wrong, left.index)
    plain = left.setting.is_plain and right.setting.is_plain
    few = len(values.order) <= FEW_VALUES
    kept: tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]] = ({}, {})

    def probe(names: Sequence[str]) -> Probe:
        asked = list(names) if wrong in names or (plain and not few) else [*names, wrong]
        for each in kept:
            each.clear()
        kept[0].update(left.fetch(asked))
        kept[1].update(right.fetch([mapping[name] for name in asked]))
        differing = {name for name in asked if not judge.compare(name, kept[0][name], kept[1][mapping[name]]).ok}
        return Probe(frozenset(differing), plain or wrong in differing)

    found = search(values, wrong, probe, budget_of(left, right))
    region = found.region
    inside = set(region)
    parents = sorted({each for name in region for each in values.parents[name] if each not in inside})
    return examined(left, right, mapping, found, parents, judge, within, kept if plain else ({}, {}))


def budget_of(left: FileSide, right: FileSide) -> int:
    """The bytes of values that a run may fetch in addition to a cut of the graph."""
    return (16 << 20) + max(left.workspace.weight_bytes, right.workspace.weight_bytes) // 8


def _with(values: Values, wrong: str, index: GraphIndex) -> Values:
    """The values with one that is no tensor as far as is known, but was compared as one."""
    known = comparable(index, [*values.order, wrong], {})
    return Values(known.order, known.parents, {**known.sizes, **values.sizes})


def examined(
    left: FileSide,
    right: FileSide,
    mapping: Mapping[str, str],
    found: Search,
    parents: Sequence[str],
    judge: Judge,
    within: Sequence[str],
    kept: tuple[Mapping[str, torch.Tensor], Mapping[str, torch.Tensor]] = ({}, {}),
) -> Located:
    """What there is to say of a value that was found: ranges, and whether its operator differs on the same inputs.

    Args:
        left: As for `locate`.
        right: As for `locate`.
        mapping: As for `locate`.
        found: The value.
        parents: The values of the first file that it depends on and that agree.
        judge: As for `locate`.
        within: As for `locate`.
        kept: Values of each file that were fetched before.

    Raises:
        OpbridgeError: A run fails.
    """
    value, other = found.value, mapping[found.value]
    nodes = nodes_between(left.index, [value], parents)
    others = nodes_between(right.index, [other], [mapping[each] for each in parents])
    first = subgraphs.part(left.index, [value], parents, nodes=nodes)
    second = subgraphs.part(right.index, [other], [mapping[each] for each in parents], nodes=others)
    reverse = {mapping[name]: name for name in mapping}
    read = subgraphs.inputs_of(first)
    expected = {**kept[0], **left.fetch([name for name in (*read, value) if name not in kept[0]])}
    names = subgraphs.inputs_of(second)
    actual = {**kept[1], **right.fetch([name for name in dict.fromkeys([*names, other]) if name not in kept[1]])}
    given = {name: expected[name] for name in read}
    # The second part takes what the first one takes, and what only it reads from its own file.
    same = {name: given.get(reverse.get(name, name), actual[name]) for name in names}
    same = {name: _as_like(each, actual[name]) for name, each in same.items()}
    pairs = {
        name: (expected[name], actual[mapping.get(name, name)]) for name in read if mapping.get(name, name) in actual
    }
    inputs = [judge.compare(name, *pair) for name, pair in pairs.items()]
    comparison = judge.compare(value, expected[value], actual[other])
    alone, note = None, ""
    scale = max([1.0, *(rms(each) for each in given.values())])
    typed(first, given, {value: expected[value]})
    typed(second, same, {other: actual[other]})
    fused = bool(found.disturbing) and len(found.region) > 1
    case = Case((first, second), (given, same), (value, other), (left, right))
    if not fused and len(within) < MOST_LEVELS:
        deeper = _entered(case, judge, within)
        if deeper is not None and deeper.culprit.alone:
            return deeper
    try:
        its = left.compute(first, given)[value]
        mine = right.compute(second, same)[other]
        apart = judge.compare(value, its, mine, scale=scale)
        alone = not apart.ok
        comparison = apart if alone and comparison.ok else comparison
    except OpbridgeError as error:
        note = str(error)
    operators = operators_of(right, others)
    same_file = left.label == right.label
    expected_operators = [] if same_file else operators_of(left, nodes)
    culprit = Culprit(
        value,
        (*expected_operators, *operators),
        tuple((ValueRange.of(name, one), ValueRange.of(name, two)) for name, (one, two) in pairs.items()),
        (ValueRange.of(value, expected[value]), ValueRange.of(other, actual[other])),
        comparison,
        max((each.relative for each in inputs), default=0.0),
        all(each.ok for each in inputs),
        alone,
        tuple(within),
        fused,
        note,
    )
    return Located(culprit, case)


def operators_of(side: FileSide, nodes: Sequence[int]) -> list[Operator]:
    """The operators of some nodes of a file, the last of many, without constants."""
    made = [side.index.nodes[at] for at in nodes]
    made = [node for node in made if node.op_type != "Constant"] or made
    return [operator_of(side.label, node) for node in made[-_MOST_NAMED:]]


def _entered(case: Case, judge: Judge, within: Sequence[str]) -> Located | None:
    """The operator within a node that holds others; None where there is none, or where it cannot be run by itself.

    It is in the branch of an If that is taken, in the body of a function, or in that of a Loop or Scan, in the first
    iteration that differs.
    """
    sides: list[FileSide] = []
    try:
        held = entering.held(case) or iterations.first_iteration(case, judge)
        if held is None:
            return None
        for side, model, feeds in zip(case.sides, held.models, held.inputs, strict=True):
            sides.append(side.part(model))
            sides[-1].feeds = dict(feeds)
        left, right = sides
        wrong, other = held.outputs
        if wrong not in left.index.makers:
            return None
        mapping = {**dict(entering.same_names(left.index, right.index)), wrong: other}
        return locate(left, right, mapping, wrong, judge, [*within, held.holder])
    except OpbridgeError:  # the node that holds it is named
        return None
    finally:
        for side, inside in zip(case.sides, sides, strict=False):
            side.runs += inside.runs


def _as_like(given: torch.Tensor, own: torch.Tensor) -> torch.Tensor:
    """A value of the first file in the dtype of the second's."""
    return given if given.dtype == own.dtype or given.shape != own.shape else given.to(own.dtype)
