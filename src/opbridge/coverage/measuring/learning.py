"""Facts from cases: which operators a runtime lacks, and which conditions are those of the nodes that it fails on.

A fact holds of no case that is right. Among those that do, the ones that explain the most of the others come first, and
of these the ones that say the least.
"""

from __future__ import annotations

import itertools
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import onnx_ir as ir

from opbridge.rules.forms import CONDITION, ENDS, LARGER, NEGATIVE, OUTER, conditions
from opbridge.rules.looking import Looked, name_of

__all__ = ["Example", "Learnt", "examples_of", "learn"]

_MOST_CONDITIONS = 3
_MOST_TIMES = 2
"""So many times as many cases of a form fail as are right where it is a fact all the same."""

# What is said rather: a type before an attribute, and a rank only where nothing else tells.
_COST = {
    "type": 1.0,
    "mode": 1.0,
    "given": 1.2,
    "computed": 1.1,
    "opset": 1.6,
    "elements": 1.7,
    "rank": 1.8,
    "count": 2.0,
    "number": 2.4,
}
_NAMED = 0.3
"""What of its cost a condition has whose attribute or input the runtime's errors name."""

_ENUMERATIONS = ("to", "dtype", "output_dtype", "stash_type")
_PLACES = ("axis", "batch_dims", "seed", "group", "k")


@dataclass(frozen=True)
class Example:
    """A node of a case.

    Attributes:
        operator: Its operator.
        conditions: What holds of it.
    """

    operator: str
    conditions: frozenset[str]


@dataclass
class Learnt:
    """A fact.

    Attributes:
        operator: The operator.
        form: What holds of the nodes that fail; nothing: all do.
        cases: The cases that it explains.
        right: How many right cases it holds of all the same.
        certain: Whether nodes of the form fail; else some do, or models with such nodes, and what tells them from
            others is not known.
        small: Whether the results differ by no more than precision.
    """

    operator: str
    form: tuple[str, ...]
    cases: list[str] = field(default_factory=list)
    right: int = 0
    certain: bool = True
    small: bool = False


def examples_of(model: ir.Model) -> list[Example]:
    """The nodes of a model, those of bodies included, each form once; functions of the model are looked into."""
    looked = Looked(model)
    found = {
        Example(name_of(node), frozenset(conditions(node, looked)))
        for node in looked.nodes
        if node.op_identifier() not in model.functions
    }
    return sorted(found, key=lambda each: (each.operator, sorted(each.conditions)))


def outer_examples(model: ir.Model) -> list[tuple[int, Example]]:
    """The nodes of a model that are in no body, with their places among these."""
    looked = Looked(model)
    return [(at, Example(name_of(node), frozenset(conditions(node, looked)))) for at, node in enumerate(model.graph)]


def learn(
    right: Mapping[str, Sequence[Example]], failing: Mapping[str, Sequence[Example]], said: Mapping[str, str]
) -> list[Learnt]:
    """The facts.

    Args:
        right: The nodes of the cases that are right, by the cases' names.
        failing: Those of the others.
        said: What the runtime said of these.

    A case that no such fact explains differs in nothing from one that is right, as far as conditions say: it fails for
    its values. Where that is so of most cases of a form, the form is a fact all the same. Of what is left, the operator
    is said to be there partly.
    """
    taken: dict[str, set[frozenset[str]]] = defaultdict(set)
    for nodes in right.values():
        for each in nodes:
            taken[each.operator].add(each.conditions)
    facts: list[Learnt] = _clear(right, failing)
    left = dict(failing)
    # One node first: there it is known which one fails.
    for several in (False, True):
        pending = {name: nodes for name, nodes in left.items() if (len(nodes) > 1) == several}
        pending = {name: nodes for name, nodes in pending.items() if not _explained(facts, name, nodes)}
        candidates = _candidates({name: _named(nodes, said[name]) for name, nodes in pending.items()}, taken)
        if several:  # an operator is missing only where an error names it
            candidates = {
                each: found
                for each, found in candidates.items()
                if each[1] or any(_names(each[0], said[name]) for name in found)
            }
        while candidates:
            best = max(candidates, key=lambda each: _score(each, candidates[each], said))
            operator, form = best
            done = set(candidates[best])
            if several:  # what fails may be another node, or nodes together; a place may be in a body that never runs
                named = _MOST_TIMES * sum(_names(operator, said[name]) for name in done) >= len(done)
                certain = bool(set(form) & set(ENDS)) or (named and (not form or any(map(_tells, form))))
            else:  # the values are no other ones for the opset
                certain = not form or not all(map(_is_opset, form)) or _all_refused(done, said)
                form = form if certain else ()
                # A number that no other test has is a reason only where the runtime says so.
                certain = certain and (not form or any(map(_tells, form)) or _says_why(form, done, said))
            facts.append(Learnt(operator, _with_ties(operator, form, candidates), sorted(done), certain=certain))
            candidates = {each: rest for each, names in candidates.items() if (rest := names - done)}
    alone = {
        name: nodes[0]
        for name, nodes in failing.items()
        if len(nodes) == 1 and not any(name in each.cases for each in facts)
    }
    # With other nodes around it, one may be right for the values that these give, and wrong too.
    tests = {name: each for name, each in alone.items() if "(node " not in name}
    mostly = _mostly({name: nodes for name, nodes in right.items() if len(nodes) == 1}, tests)
    facts += mostly
    for operator in sorted({each.operator for each in alone.values()}):
        of_operator = [name for name, each in alone.items() if each.operator == operator]
        unknown = [name for name in of_operator if not any(name in each.cases for each in mostly)]
        # A test says so by itself: in another type, its values may have no meaning.
        if any(" (" not in name for name in unknown):
            facts.append(Learnt(operator, (), unknown, certain=False))
    return facts


def _with_ties(operator: str, form: tuple[str, ...], candidates: Mapping[_Candidate, set[str]]) -> tuple[str, ...]:
    """A form of one condition, with the others that tell the same cases: which of them it is, is not known."""
    if len(form) != 1 or not _tells(form[0]):
        return form
    names, kept = candidates[operator, form], [form[0]]
    ties = [
        other[0]
        for (name, other), found in candidates.items()
        if name == operator and len(other) == 1 and found == names and _tells(other[0])
    ]
    for each in sorted(ties, key=lambda each: (_cost(each), each)):
        # Inputs that are of one type are so together, and of one subject the first condition says enough.
        if not any(_subject(each) == _subject(other) or _is_of_one_type(each, other) for other in kept):
            kept.append(each)
    return tuple(sorted(kept))


def _is_opset(condition: str) -> bool:
    return condition.startswith("of opset ")


def _all_refused(names: Iterable[str], said: Mapping[str, str]) -> bool:
    return all(said[each].startswith("refused: ") for each in names)


def _subject(condition: str) -> str:
    return condition.removeprefix("no attribute ").partition(" ")[0]


def _is_of_one_type(condition: str, other: str) -> bool:
    are_types = _cost(condition) == _cost(other) == _COST["type"] and " is " in condition
    return are_types and condition.partition(" is ")[2] == other.partition(" is ")[2]


def _tells(condition: str) -> bool:
    """Whether a condition is about a type, a mode, or what is given: no place, no count and no opset."""
    return _cost(condition) < _COST["opset"]


def _clear(right: Mapping[str, Sequence[Example]], failing: Mapping[str, Sequence[Example]]) -> list[Learnt]:
    """Single conditions under which every case of the one node fails, though some models with such a node are right.

    There the values are those for which the operator is right, or nothing depends on them. What a condition explains
    under which nothing is right is no evidence for another one that holds of the same nodes.
    """
    fails, runs = (_cases_by_condition(each) for each in (failing, right))
    exact = [names for key, names in fails.items() if key not in runs and _is_telling(key)]
    explained = set().union(*exact)
    fails = {key: names - explained for key, names in fails.items()}
    alone_fails, alone_runs = (
        _cases_by_condition({name: nodes for name, nodes in each.items() if len(nodes) == 1})
        for each in (failing, right)
    )
    clear = [
        key
        for key, names in fails.items()
        if alone_fails.get(key)
        and not alone_runs.get(key)
        and runs.get(key)
        and names
        and len(names) >= _MOST_TIMES * len(runs[key])
        and _is_telling(key)
    ]
    facts: list[Learnt] = []
    left = {key: set(fails[key]) for key in clear}
    while left:
        key = max(left, key=lambda each: (len(left[each]) - len(runs[each]), -_cost(each[1]), each))
        names = left.pop(key)
        if len(names) >= _MOST_TIMES * len(runs[key]):
            second = _second(key, names, right, failing)
            if second is None:
                facts.append(Learnt(key[0], (key[1],), sorted(names), len(runs[key])))
            else:
                names = {name for name in names if any({key[1], second} <= each.conditions for each in failing[name])}
                facts.append(Learnt(key[0], tuple(sorted((key[1], second))), sorted(names)))
            left = {each: rest - names for each, rest in left.items()}
    return facts


def _second(
    key: tuple[str, str],
    names: set[str],
    right: Mapping[str, Sequence[Example]],
    failing: Mapping[str, Sequence[Example]],
) -> str | None:
    """A second condition that holds of all failing cases of the one node, and of no right one: both are the form.

    A case of several nodes may fail for another one.
    """
    operator, first = key

    def having(nodes: Sequence[Example]) -> list[frozenset[str]]:
        return [each.conditions for each in nodes if each.operator == operator and first in each.conditions]

    alone = [held for name in names if len(failing[name]) == 1 for held in having(failing[name])]
    others = [held for nodes in right.values() for held in having(nodes)]
    common = frozenset.intersection(*alone) if alone else frozenset()
    found = [each for each in common if _tells(each) and not any(each in held for held in others)]
    return min(found, key=lambda each: (_cost(each), each), default=None)


def _is_telling(key: tuple[str, str]) -> bool:
    """Whether an operator's condition tells something by itself: a type, a mode, what is given."""
    return _tells(key[1])


def _cases_by_condition(cases: Mapping[str, Sequence[Example]]) -> dict[tuple[str, str], set[str]]:
    """By operator and condition, the cases with such a node."""
    found: dict[tuple[str, str], set[str]] = defaultdict(set)
    for name, nodes in cases.items():
        for each in nodes:
            for condition in each.conditions:
                found[each.operator, condition].add(name)
    return found


def _mostly(right: Mapping[str, Sequence[Example]], alone: Mapping[str, Example]) -> list[Learnt]:
    """The forms of which most cases fail, of cases of one node that nothing else explains."""
    facts: list[Learnt] = []
    left = dict(alone)
    while True:
        best: Learnt | None = None
        forms = {
            (each.operator, form)
            for each in left.values()
            for size in (1, 2)
            for form in itertools.combinations(sorted(each.conditions), size)
        }
        for operator, form in sorted(forms):
            names = [name for name, each in left.items() if each.operator == operator and each.conditions >= set(form)]
            taken = (
                sum(
                    any(each.operator == operator and each.conditions >= set(form) for each in nodes)
                    for nodes in right.values()
                )
                if len(names) > 1
                else 0
            )
            if len(names) >= max(2, _MOST_TIMES * taken):
                found = Learnt(operator, form, sorted(names), taken)
                if best is None or _gain(found) > _gain(best):
                    best = found
        if best is None:
            return facts
        facts.append(best)
        left = {name: each for name, each in left.items() if name not in best.cases}


def _gain(fact: Learnt) -> tuple[int, float]:
    return len(fact.cases) - fact.right, -sum(map(_cost, fact.form))


def _explained(facts: Iterable[Learnt], name: str, nodes: Sequence[Example]) -> bool:
    for fact in facts:
        if any(each.operator == fact.operator and each.conditions.issuperset(fact.form) for each in nodes):
            fact.cases.append(name)
            return True
    return False


def _named(nodes: Sequence[Example], said: str) -> Sequence[Example]:
    """The nodes whose operator an error names; all of them where it names none."""
    return [each for each in nodes if _names(each.operator, said)] or nodes


def _names(operator: str, said: str) -> bool:
    return re.search(rf"\b{re.escape(operator.rpartition('::')[2])}(?:\b|-\d)", said) is not None


_Candidate = tuple[str, tuple[str, ...]]


def _candidates(
    failing: Mapping[str, Sequence[Example]], taken: Mapping[str, set[frozenset[str]]]
) -> dict[_Candidate, set[str]]:
    """The facts that explain a failing case and no right one, each with the cases: of each node the shortest ones."""
    found: dict[_Candidate, set[str]] = defaultdict(set)
    memo: dict[Example, list[tuple[str, ...]]] = {}
    for name, nodes in failing.items():
        for each in nodes:
            if each not in memo:
                memo[each] = _shortest(each.conditions, taken.get(each.operator, set()))
            for form in memo[each]:
                found[each.operator, form].add(name)
    # A form explains also those failing nodes for which another one was as short.
    for (operator, form), names in found.items():
        for name, nodes in failing.items():
            if name not in names and any(
                each.operator == operator and each.conditions.issuperset(form) for each in nodes
            ):
                names.add(name)
    return found


def _shortest(held: frozenset[str], taken: set[frozenset[str]]) -> list[tuple[str, ...]]:
    """The smallest sets of conditions of a node that no right node has all of."""
    if ends := [each for each in ENDS if each in held]:
        return [(ends[0],)]  # nothing is said of the operator elsewhere in a model
    if not taken:
        return [()]
    # Only what some right node lacks tells anything; for the rest of the right nodes another condition has to.
    others = [each & held for each in taken]
    for size in range(1, _MOST_CONDITIONS + 1):
        forms = [
            form
            for form in itertools.combinations(sorted(held), size)
            if not any(each.issuperset(form) for each in others)
        ]
        if forms:
            return forms
    return []


def _says_why(form: Sequence[str], names: Iterable[str], said: Mapping[str, str]) -> bool:
    """Whether all that is said of cases names what a form is about: an attribute, an input, or its opset alone."""
    return all(map(_is_opset, form)) or any(all(_is_named(each, said[name]) for name in names) for each in form)


def _is_named(condition: str, said: str) -> bool:
    """Whether an error names the attribute or the input of a condition, by more than a letter."""
    subject = _subject(condition)
    return len(subject) > 1 and re.search(rf"\b{re.escape(subject)}\b", said, re.I) is not None


def _score(candidate: _Candidate, names: set[str], said: Mapping[str, str]) -> tuple[float, float, str]:
    costs = {each: _cost(each) for each in candidate[1]}
    cost = sum(
        _NAMED * each if all(_is_named(condition, said[name]) for name in names) else each
        for condition, each in costs.items()
    )
    return len(names) / (1 + 0.2 * cost), -cost, str(candidate)


def _cost(condition: str) -> float:
    if _is_opset(condition):
        return _COST["opset"]
    if condition in (OUTER, LARGER, CONDITION) or condition in ENDS or condition.endswith(NEGATIVE):
        return _COST["given"]
    if condition.endswith(" inputs"):
        return _COST["count"]
    name, separator, value = condition.partition(" = ")
    if separator:
        is_number = name in _PLACES or value not in ("0", "1")
        is_number = is_number and re.fullmatch(r"\[.*\]|-?[\d.e+-]+", value) is not None
        return _COST["number" if is_number and name not in _ENUMERATIONS else "mode"]
    if condition.endswith(" is not empty"):
        return _COST["elements"]
    if " has rank " in condition or " has length " in condition:
        return _COST["rank"]
    if condition.startswith("no attribute ") or condition.endswith(
        (" is given", " is left out", " is used", " has no name", " is empty", " comes out empty")
    ):
        return _COST["given"]
    return _COST["computed"] if condition.endswith((" is computed", " is a constant")) else _COST["type"]
