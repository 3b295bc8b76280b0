"""What a person sees of targets, rules and findings."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from opbridge.cli.console import aligned, plain_table, print_plain

if TYPE_CHECKING:
    from opbridge.coverage.measuring import Measured
    from opbridge.fixing import Fixed
    from opbridge.rules import Finding, Findings, Rule
    from opbridge.targets import Target

__all__ = ["print_findings", "print_fixed", "print_measured", "print_rule", "print_target", "print_targets"]

_MOST_VERSIONS = 7
_STYLES = {"error": "bold red", "warning": "yellow"}


def print_targets(console: Console, targets: Sequence[Target]) -> None:
    """The targets that there are facts for."""
    rows = [("target", "versions", "facts", "what it is")]
    rows += [(each.name, _versions(each.versions), str(len(each.facts)), each.title) for each in targets]
    _print_rows(console, rows, right=[2])


def _versions(versions: Sequence[str]) -> str:
    """All versions, or the first and the last of many."""
    return ", ".join(versions) if len(versions) <= _MOST_VERSIONS else f"{versions[0]} to {versions[-1]}"


def print_target(console: Console, target: Target) -> None:
    """The facts of a target."""
    opsets = target.opsets
    lines = [f"{target}: {target.title}"]
    if target.remark:
        lines.append(target.remark)
    if opsets is not None:
        ir_version = f", IR version up to {opsets.ir_version}" if opsets.ir_version is not None else ""
        lines.append(f"opset {opsets.oldest} to {opsets.newest}{ir_version} ({opsets.source})")
    rows = [("fact", "operators", "limits", "source")]
    for fact in target.facts:
        kind = type(fact).__name__.lower() + (f" ({fact.severity})" if fact.severity == "warning" else "")
        rows.append((kind, _few(fact.operators), _settings(fact), fact.source))
    print_plain(console, "\n".join(lines) + "\n")
    if target.facts:
        _print_rows(console, rows)
    else:
        print_plain(console, "No facts are known about this target.")


def print_measured(console: Console, measured: Measured) -> None:
    """What was measured, what follows, and what does not."""
    counts = ", ".join(f"{name} {count}" for name, count in sorted(measured.counts.items(), key=lambda each: -each[1]))
    if "kernels" in measured.counts:
        lines = [
            f"{measured.runtime} {measured.version}: {counts}; {measured.facts} facts",
            f"Written: {measured.path}",
        ]
        return print_plain(console, "\n".join(lines))
    lines = [
        f"{measured.runtime} {measured.version}: {sum(measured.counts.values())} cases in {measured.seconds:.0f} s: "
        f"{counts}",
        f"{measured.facts} facts; {len(measured.unexplained)} failing cases are not explained by any fact:",
        *(f"  {case}: {said}" for case, said in measured.unexplained.items()),
        f"Written: {measured.path}",
    ]
    print_plain(console, "\n".join(lines))


def _settings(fact: object) -> str:
    shared = ("operators", "source", "severity", "note", "since", "until")
    said = []
    for field in dataclasses.fields(fact):  # type: ignore[arg-type]
        value = getattr(fact, field.name)
        if callable(value):  # asked of the runtime, node by node
            continue
        if field.name in shared or (value == field.default and field.name != "bound"):
            continue
        if isinstance(value, Mapping):
            value = tuple(f"{old} to {new}" for old, new in value.items())
        said.append(f"{field.name}: {', '.join(map(str, value)) if isinstance(value, tuple) else value}")
    return "; ".join(said)


def _few(names: Sequence[str]) -> str:
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")


def print_rule(console: Console, rules: Sequence[type[Rule]]) -> None:
    """Rules, with why and what to do."""
    blocks = [f"{each.identifier}: {each.title}.\n  {each.why}\n  {each.remedy}" for each in rules]
    print_plain(console, "\n\n".join(blocks))


def print_findings(console: Console, findings: Findings, repaired: bool = False) -> None:
    """The findings, then what to do for each rule, then how many there are.

    Args:
        console: Where to.
        findings: The findings.
        repaired: Whether they are what a repair left.
    """
    for target in findings.targets:
        if target.remark:
            console.print(Text(target.remark, "yellow"), soft_wrap=not console.is_terminal)
    if len(findings):
        several = len(findings.targets) > 1
        rows = [("", *["target"] * several, "rule", "operator", "line", "finding")]
        for each in findings:
            of = [each.target] * several
            rows.append((each.severity, *of, each.rule, each.operator, _where(each), each.message))
        _print_rows(console, rows)
        counts = Counter(each.rule for each in findings)
        remedies = {each.rule: each.remedy for each in reversed(findings.found)}
        todo = [(rule, str(count), remedies[rule]) for rule, count in counts.most_common()]
        print_plain(console, "")
        _print_rows(console, [("rule", "places", "what to do"), *todo], right=[1])
        print_plain(console, "")
    from opbridge.fixing import has_repair

    if not repaired and (repairable := sum(map(has_repair, findings))):
        print_plain(console, f"opbridge fix can repair {repairable} of these findings.")
    style = "" if findings.ok else "bold"
    console.print(Text(findings.summary(), style), soft_wrap=not console.is_terminal)


def print_fixed(console: Console, fixed: Fixed, diff: str) -> None:
    """What was repaired, node by node, the models' difference where it was asked for, and what is left."""
    if fixed.changes:
        rows = [("rule", "operator", "line", "done")]
        rows += [(each.finding.rule, each.finding.operator, _where(each.finding), each.done) for each in fixed.changes]
        _print_rows(console, rows)
        print_plain(console, "")
    if fixed.undone:
        rows = [("undone", "operator", "line", "why")]
        rows += [(each.finding.rule, each.finding.operator, _where(each.finding), why) for each, why in fixed.undone]
        _print_rows(console, rows)
        print_plain(console, "")
    if diff:
        print_plain(console, diff + "\n")
    if len(fixed.left):
        print_plain(console, "Left:")
        print_findings(console, fixed.left, repaired=True)
        print_plain(console, "")
    console.print(Text(fixed.summary(), "bold"), soft_wrap=not console.is_terminal)
    if fixed.engines is not None:
        print_plain(console, fixed.engines.summary())
    if fixed.path:
        written = "Written" if fixed.changes else "Copied without changes"
        console.print(Text(f"{written}: {fixed.path}"), soft_wrap=not console.is_terminal)
    elif fixed.changes:
        print_plain(console, "No file was written. Add -o FILE.onnx to write one.")


def _where(finding: Finding) -> str:
    return finding.place or finding.node


def _print_rows(console: Console, rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> None:
    """Rows in columns: the first one is the header."""
    if not console.is_terminal:
        print_plain(console, aligned(rows, right))
        return
    table: Table = plain_table()
    for at, name in enumerate(rows[0]):
        table.add_column(name, justify="right" if at in right else "left", overflow="fold")
    for row in rows[1:]:
        table.add_row(*(Text(cell, _STYLES.get(cell, "") if at == 0 else "") for at, cell in enumerate(row)))
    console.print(table)
