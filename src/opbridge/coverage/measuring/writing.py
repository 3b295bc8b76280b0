"""The file of measured facts: TOML as `opbridge.targets.reading` reads it."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence

from opbridge.coverage.measuring.learning import Learnt

__all__ = ["listed", "written"]

_WIDTH = 118
_LONGEST_NOTE = 160
_MOST_TESTS = 3
_PLACES = re.compile(r"(?:/|\w:\\)[\w./\\+-]+(?::\d+)?|0x[0-9a-f]+")


def written(
    target: tuple[str, str],
    version: str,
    source: str,
    facts: Sequence[Learnt],
    said: Mapping[str, str],
    *,
    taken: Sequence[str],
    newest: int | None,
    contradicted: Mapping[str, Sequence[str]],
    severity: str = "error",
    kinds: Sequence[str] = (),
) -> str:
    """The file's text.

    Args:
        target: The target's name and title.
        version: The version that was measured.
        source: Where the facts are from.
        facts: The facts.
        said: What the runtime said of each failing case.
        taken: The operators that a right case has.
        newest: The newest opset that it takes; None: not known.
        contradicted: By the kind of published facts, the operators of which they say what was seen to be wrong.
        severity: What a fact is that holds of all cases of its form.
        kinds: The kinds of facts of whole models that were seen.
    """
    name, title = target
    short = ".".join(version.split(".")[:2])
    lines = [
        "# Written by `opbridge targets measure`; do not edit it.",
        "",
        f"name = {json.dumps(name)}",
        f"title = {json.dumps(title)}",
        f"versions = [{json.dumps(short)}]",
        f"taken = {listed(taken)}",
        "",
        "[sources]",
        f'"measured" = {json.dumps(source)}',
    ]
    if newest is not None:
        lines += ["", "[[opsets]]", "oldest = 1", f"newest = {newest}", 'source = "measured"']
    for kind, operators in contradicted.items():
        lines += ["", "[[contradicted]]", f"kind = {json.dumps(kind)}", f"operators = {listed(operators)}"]
    for kind in kinds:
        lines += ["", "[[fact]]", *_begun(kind, severity)]
    never = [each for each in facts if not each.form and each.certain and not each.small]
    missing = sorted(each.operator for each in never if _is_refused(each, said))
    if missing:
        lines += ["", "[[fact]]", *_begun("missing", severity), f"operators = {listed(missing)}"]
    for operator, note in sorted((each.operator, _note(each, said)) for each in never if not _is_refused(each, said)):
        lines += ["", "[[fact]]", *_begun("partly", severity), f"operators = {listed([operator])}"]
        lines += [f"note = {json.dumps(note, ensure_ascii=False)}"]
    for operator, note in sorted(
        (each.operator, _note(each, said)) for each in facts if not each.form and (each.small or not each.certain)
    ):
        lines += ["", "[[fact]]", *_begun("partly", "warning")]
        lines += [f"operators = {listed([operator])}", f"note = {json.dumps(note, ensure_ascii=False)}"]
    for doubtful in (False, True):
        chosen = [each for each in facts if each.form and (each.small or not each.certain) == doubtful]
        for form, operators, note in _grouped(chosen, said):
            lines += ["", "[[fact]]", *_begun("form", "warning" if doubtful else severity)]
            lines += [f"operators = {listed(operators)}", f"form = {listed(form)}"]
            lines += [f"note = {json.dumps(note, ensure_ascii=False)}"]
    return "\n".join(lines) + "\n"


def _begun(kind: str, severity: str) -> list[str]:
    said = [] if severity == "error" else [f"severity = {json.dumps(severity)}"]
    return [f"kind = {json.dumps(kind)}", *said, 'source = "measured"']


def _grouped(facts: Sequence[Learnt], said: Mapping[str, str]) -> list[tuple[tuple[str, ...], list[str], str]]:
    """Facts of one form and one note together: form, operators, note."""
    found: dict[tuple[tuple[str, ...], str], list[str]] = defaultdict(list)
    for each in facts:
        found[each.form, _note(each, said)].append(each.operator)
    return sorted(
        ((form, sorted(operators), note) for (form, note), operators in found.items()), key=lambda x: (x[1], x[0])
    )


def _is_refused(fact: Learnt, said: Mapping[str, str]) -> bool:
    """Whether the runtime refuses all cases, as it does with an operator that it does not have."""
    return all(said[each].startswith("refused: ") for each in fact.cases)


def _note(fact: Learnt, said: Mapping[str, str]) -> str:
    """What happens, in how many cases, by the words of the first of them."""
    outcome, _, message = said[fact.cases[0]].partition(": ")
    words = " ".join(_PLACES.sub("...", message).split())
    words = re.sub(r"^.*?cannot (?:convert|load) the model: ", "", words)
    shown = words if len(words) <= _LONGEST_NOTE else words[: _LONGEST_NOTE - 3] + "..."
    how = {
        "refused": "The model is rejected",
        "partly built": "The builder rejects the model for some GPUs",
        "not built": "The builder rejects the model",
        "raises": "An error is raised at run time",
        "wrong": "The result is wrong",
        "nearly": "The result differs slightly",
        "crash": "The process crashes",
        "timeout": "The time limit is exceeded",
        "memory": "The memory limit is exceeded",
    }.get(outcome, outcome)
    often = f" in {len(fact.cases)} of {len(fact.cases) + fact.right} cases" if fact.right else ""
    tests = list(dict.fromkeys(each.partition(" (")[0] for each in fact.cases))
    often = often or (f" in all {len(fact.cases)} cases" if fact.certain and not fact.form else "")
    some = f", as in {', '.join(tests[:_MOST_TESTS])}"
    return f"{how}{often}{some}{f' ({shown})' if shown else ''}."


def listed(values: Sequence[str]) -> str:
    """A list as TOML has it, over several lines where it is long."""
    parts = [json.dumps(each, ensure_ascii=False) for each in values]
    whole = f"[{', '.join(parts)}]"
    if len(whole) < _WIDTH - 14:
        return whole
    lines, line = [], "   "
    for part in parts:
        if len(line) + len(part) + 2 > _WIDTH:
            lines.append(line)
            line = "   "
        line += f" {part},"
    return "\n".join(["[", *lines, line, "]"])
