"""What a person sees of a verification, and at the end of an export."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from opbridge.base.wording import listed
from opbridge.cli.console import aligned, plain_table, print_plain, size
from opbridge.kernels import aten, library

if TYPE_CHECKING:
    from pathlib import Path

    from opbridge.program import Program
    from opbridge.rules import Finding
    from opbridge.verification import OutputReport, Verification

__all__ = ["print_export", "print_verification"]

# So that the summary fits on a screen of 80 by 24 below the stages.
_MOST_NOTES = 3


_LONGEST_NOTE = 130


_MOST_OUTPUTS = 12


_MOST_KERNELS = 3


_COLOURS = {"verified": "green", "mismatch": "red", "nothing compared": "yellow", "built, not run": "yellow"}


def print_verification(console: Console, verification: Verification) -> None:
    """Each output at its worst, with what was allowed; on a mismatch the first operator that differs."""
    if not console.is_terminal:
        print_plain(console, str(verification))
        return
    verdict = (verification.verdict, f"bold {_COLOURS[verification.verdict]}")
    console.print(Text.assemble(verdict, f"  {verification.subject}, {verification.runtime}: {verification.summary()}"))
    outputs = sorted(verification.outputs, key=lambda output: output.ok)  # those that differ first
    if outputs:
        console.print(_outputs_table(outputs[:_MOST_OUTPUTS]))
        if len(outputs) > _MOST_OUTPUTS:
            console.print(Text(f"and {len(outputs) - _MOST_OUTPUTS} more outputs", "dim"))
        for origin in dict.fromkeys(str(output.worst.tolerance) for output in outputs):
            console.print(Text(f"allowed  {origin}", "dim"))
    if not verification.ok:
        console.print(Text(f"\n{verification.describe_mismatch()}\n", "red"))
    for run in verification.left_out:
        console.print(Text(f"left out: {run.label}: {run.left_out}", "yellow"))
    for branch in verification.branches:
        console.print(
            Text(
                f"branch: {branch}: {listed(list(branch.runs), 5) or 'not exercised'}", "" if branch.runs else "yellow"
            )
        )
    if verification.kept:
        console.print(Text(f"same as in the example in all runs: {', '.join(verification.kept)}", "dim"))
    for note in verification.notes if verification.ok else ():
        console.print(Text.assemble(("note: ", "yellow"), note))


def _outputs_table(outputs: Sequence[OutputReport]) -> Table:
    table = plain_table()
    table.add_column("output", overflow="fold")
    table.add_column("type", overflow="fold")
    for name in ("absolute", "relative", "outside"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("worst on", overflow="fold")
    for output in outputs:
        worst = output.worst
        kind = f"{worst.dtype} {'x'.join(map(str, worst.shape)) or 'scalar'}"
        errors = (f"{worst.absolute:.1e}", f"{worst.relative:.1e}", str(worst.outside))
        if worst.random or worst.reason is not None:
            errors = ("-", "-", "-")
        table.add_row(Text(output.name, "" if output.ok else "bold red"), kind, *errors, worst.reason or output.run)
    return table


def print_export(console: Console, program: Program, spec: str, report: Path | None = None) -> None:
    """What was written and how it compares, on one screen together with the stages.

    Args:
        console: Where to.
        program: What `opbridge.export` returned, saved to a file.
        spec: What named the model, for the next step.
        report: The page that was written.
    """
    rows = list(_export_rows(program, spec, whole=not console.is_terminal))
    if report is not None:
        rows.append(("report", str(report), ""))
    if not console.is_terminal:
        print_plain(console, aligned([(label, text) for label, text, _ in rows]))
        return
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    for label, text, style in rows:
        grid.add_row(label, Text(text, style))
    console.print(Padding(grid, (1, 0, 0, 0)))


def _export_rows(program: Program, spec: str, whole: bool) -> Iterator[tuple[str, str, str]]:
    """Label, text and style of each line; `whole`: nothing is shortened, however long."""

    def shortened(text: str, longest: int = _LONGEST_NOTE) -> str:
        return text if whole or len(text) <= longest else f"{text[: longest - 4].rstrip()} ..."

    for path in program.files:
        yield "file", f"{path} ({size(path.stat().st_size)})", "bold"
    yield "operators", program.plan.summary(), ""
    yield from _target_rows(program)
    from opbridge.graph.decisions import summary_of  # imports torch

    if said := summary_of(program.plan.decisions):
        yield "control flow", said, ""
    if program.unverified:
        yield "verified", f"not verified: {program.unverified}", "yellow"
    elif program.verification is None:
        yield "verified", "not verified: --no-verify", "yellow"
    else:
        said = shortened(program.verification.summary())
        yield "verified", said, _COLOURS[program.verification.verdict]
        for worst in _worst_rows(program.verification):
            yield "", shortened(worst, 2 * _LONGEST_NOTE), ""
        if program.verification.untaken:  # which the line above may be too short for
            yield "", program.verification.describe_branches(), "yellow"
    if program.narrowed is not None:
        yield program.narrowed.precision, shortened(program.narrowed.summary(), 2 * _LONGEST_NOTE), ""
    stages = ", ".join(f"{name} {seconds:.2f}" for name, seconds in program.timings.items())
    yield "time", f"{sum(program.timings.values()):.2f} s: {stages}", ""
    tried = program.verification.notes if program.verification is not None else ()
    notes = (*program.plan.notes, *tried)
    shown = notes if whole or len(notes) <= _MOST_NOTES else notes[: _MOST_NOTES - 1]
    for note in shown:
        yield "note", shortened(note), "yellow"
    if len(notes) > len(shown):
        how = " --capture trace" if program.capture.mode == "trace" else ""
        yield "note", f"{len(notes) - len(shown)} more; 'opbridge check {spec}{how}' lists all", "yellow"
    yield from _next_steps(program, spec)


def _target_rows(program: Program) -> Iterator[tuple[str, str, str]]:
    """What was repaired for the target, and what stays, a line for each rule."""
    findings = program.findings
    if findings is None:
        return
    made = Counter(each.finding.rule for each in program.repairs)
    said = ", ".join(f"{rule} {count}" for rule, count in made.items()) or "nothing"
    wanted = ", ".join(map(str, findings.targets))
    yield "target", f"{wanted}: {said} repaired; {findings.counted()}", "yellow" if len(findings) else "green"
    for target in findings.targets:
        if target.remark:
            yield "", target.remark, "yellow"
    by_rule: dict[tuple[str, str], list[Finding]] = {}
    for each in findings:
        by_rule.setdefault((each.severity, each.rule), []).append(each)
    for (severity, rule), found in by_rule.items():
        first = found[0]
        where = f" at {first.place}" if first.place else f" at '{first.node}'" if first.node else ""
        more = f" ({len(found) - 1} more)" if len(found) > 1 else ""
        yield severity, f"{rule}{where}: {first.message} {first.remedy}{more}", "yellow"


def _worst_rows(verification: Verification) -> Iterator[str]:
    compared = [output for output in verification.outputs if not output.worst.random and output.worst.has_numbers]
    if compared:
        worst = max(compared, key=lambda output: output.worst.excess).worst
        errors = f"worst error {worst.absolute:.1e} absolute, {worst.relative:.1e} relative, in '{worst.name}'"
        yield f"{errors}; tolerance: {worst.tolerance}"


def _next_steps(program: Program, spec: str) -> Iterator[tuple[str, str, str]]:
    path = program.path
    if path is not None and any(each.name == "genai_config.json" for each in program.files):
        yield "next", f"onnxruntime_genai.Model('{path.parent}') runs it", ""
        return
    needed = [name for name in program.kernels if name != aten.NAME]
    at_hand = [each for each in map(library.find, needed) if each is not None]
    if len(at_hand) < len(needed):
        names = listed(program.kernels, _MOST_KERNELS)
        yield "next", f"register a library with kernels for {names} in onnxruntime.SessionOptions, then", ""
        yield "", f"opbridge.session('{path}', options=options)", ""
    elif len(needed) < len(program.kernels):
        named = [f"'{name}'" for name in program.aten_operators() if aten.is_refused(name)]
        more = f", aten=[{', '.join(named)}]" if named else ""
        yield "next", f"opbridge.session('{path}'{more}) runs it, with PyTorch installed", ""
    elif program.libraries:
        written = {name for each in program.libraries for name in library.open_library(each).names}
        others = [each.path for each in at_hand if each in library.loaded() and not each.names & written]
        paths = ", ".join(dict.fromkeys(f"'{each}'" for each in (*program.libraries, *others)))
        yield "next", f"opbridge.session('{path}', kernels=[{paths}], providers=['CUDAExecutionProvider']) runs it", ""
    elif any(each in library.loaded() for each in at_hand):
        paths = ", ".join(dict.fromkeys(f"'{each.path}'" for each in at_hand if each in library.loaded()))
        yield "next", f"opbridge.session('{path}', kernels=[{paths}]) runs it; PyTorch is not needed", ""
    elif program.plan.routes().keys() & {"kernel", "aten", "fallthrough"}:
        yield "next", f"opbridge.session('{path}') loads its kernels and runs it", ""
    else:
        yield "next", f"opbridge.session('{path}') runs it, {_elsewhere(program)}", ""
    if program.verification is None and not program.unverified:
        yield "", f"opbridge verify {path} {spec}", ""


def _elsewhere(program: Program) -> str:
    """What other runtimes do with a file of standard operators, or of those of ONNX Runtime."""
    import onnx_ir as ir

    graph = program.model.graph
    if any(node.domain == "com.microsoft" for node in graph.all_nodes()):
        return "as does ONNX Runtime; another runtime needs a file without fused forms (--no-fuse)"
    ends = (*graph.inputs, *graph.outputs)
    values = (*ends, *(each for node in graph.all_nodes() for each in node.outputs))
    if not any(each.dtype == ir.DataType.BFLOAT16 for each in values):
        return "as does any ONNX runtime"
    given = " and takes OrtValues" if any(each.dtype == ir.DataType.BFLOAT16 for each in ends) else ""
    return f"in float32 on a CPU{given}; another runtime needs bfloat16 kernels, as those of CUDA and TensorRT"
