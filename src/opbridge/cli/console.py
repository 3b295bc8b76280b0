"""What a person sees: the stages as they run, the plan, the verification and the closing summary.

On a terminal these are drawn with rich; anywhere else they are plain aligned text, neither coloured nor wrapped.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from opbridge.base.wording import listed
from opbridge.kernels import aten, library

if TYPE_CHECKING:
    from pathlib import Path

    from opbridge.capture.listing import Raw
    from opbridge.plan.data import Plan, PlanRow
    from opbridge.program import Program
    from opbridge.translations.registry import Translation
    from opbridge.verification import OutputReport, Verification

__all__ = [
    "Stages",
    "aligned",
    "print_build",
    "print_catalogue",
    "print_error",
    "print_export",
    "print_new",
    "print_plan",
    "print_raw",
    "print_verification",
    "size",
]

_STYLES = {
    "standard": "green",
    "function": "green",
    "kernel": "cyan",
    "aten": "yellow",
    "fallthrough": "yellow",
    "missing": "bold red",
}

# So that the summary fits on a screen of 80 by 24 below the stages.
_MOST_NOTES = 3
_LONGEST_NOTE = 130
_MOST_OUTPUTS = 12
_MOST_KERNELS = 3


def size(count: int) -> str:
    """A number of bytes, for a person.

    >>> size(340_000_000)
    '340.0 MB'
    """
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= factor:
            return f"{count / factor:.1f} {unit}"
    return f"{count} B"


def aligned(rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> str:
    """Rows of text in columns two spaces apart; the columns in `right` end in line instead of starting so."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = zip(row, widths, strict=True)
        lines.append("  ".join(f"{cell:{'>' if i in right else '<'}{width}}" for i, (cell, width) in enumerate(cells)))
    return "\n".join(line.rstrip() for line in lines)


def print_error(console: Console, message: str) -> None:
    """An error's paragraph, in red where there are colours."""
    console.print(Text.assemble(("error: ", "bold red"), (message, "red")), soft_wrap=not console.is_terminal)


def _plain(console: Console, text: str) -> None:
    console.out(text, highlight=False)


# -- the stages of an export ------------------------------------------------------------------------------------------


@dataclass
class Stage:
    """One stage, running or done."""

    name: str
    started: float
    said: str = ""
    seconds: float | None = None
    failed: bool = False
    spinner: Spinner = field(default_factory=lambda: Spinner("dots", style="cyan"), repr=False)

    def detail(self, text: str) -> None:
        """Says what the stage found, or how far it is."""
        self.said = text


class Stages:
    """The `progress=` of `opbridge.export` that draws the stages on a terminal while they run.

    A context manager; nothing is drawn before the first stage, and the lines stay when it ends.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._stages: list[Stage] = []
        self._live = Live(console=console, get_renderable=self._render, refresh_per_second=10)

    def __enter__(self) -> Stages:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    @contextmanager
    def stage(self, name: str) -> Iterator[Stage]:
        """Marks the stage as running inside the `with`, then as done or failed."""
        stage = Stage(name, time.perf_counter())
        self._stages.append(stage)
        self._live.start()
        try:
            yield stage
        except BaseException:
            stage.failed = True
            raise
        finally:
            stage.seconds = time.perf_counter() - stage.started

    def _render(self) -> RenderableType:
        grid = Table.grid(padding=(0, 1))
        grid.add_column(width=1)
        grid.add_column(min_width=9)
        grid.add_column(ratio=1, no_wrap=True, overflow="ellipsis")
        grid.add_column(justify="right", no_wrap=True)
        grid.expand = True
        for stage in self._stages:
            seconds = stage.seconds if stage.seconds is not None else time.perf_counter() - stage.started
            grid.add_row(self._mark(stage), stage.name, Text(stage.said, "dim"), f"{seconds:.2f} s")
        return grid

    def _mark(self, stage: Stage) -> RenderableType:
        ascii_only = self._console.options.ascii_only
        if stage.failed:
            return Text("x" if ascii_only else "✗", "bold red")
        if stage.seconds is not None:
            return Text("+" if ascii_only else "✓", "bold green")
        return Text("-") if ascii_only else stage.spinner


# -- the plan ---------------------------------------------------------------------------------------------------------


def print_plan(console: Console, plan: Plan) -> None:
    """Every operator with its route; then what is missing, why and what to do; the summary last."""
    if not console.is_terminal:
        _plain(console, str(plan))
        return
    console.print(_plan_table(plan, wide=console.width >= 120))
    for row in plan.missing:
        console.print(_missing(row))
    for row in plan.rows:
        if row.route and row.remedy:
            console.print(Text.assemble((row.operator, "bold"), f": {row.how} For a better route: {row.remedy}"))
    console.print(Text(plan.summary(), "bold" if plan.ok else "bold red"))
    if plan.ok and plan.unverified:
        console.print(Text(f"not verified: {plan.unverified}", "yellow"))
    for note in plan.notes:
        console.print(Text.assemble(("note: ", "yellow"), note))


def _plan_table(plan: Plan, *, wide: bool) -> Table:
    table = _table()
    table.add_column("operator", overflow="fold")
    table.add_column("count", justify="right", no_wrap=True)
    table.add_column("route", no_wrap=True)
    table.add_column("source", overflow="fold")
    if wide:
        table.add_column("how", overflow="fold", style="dim")
    for row in sorted(plan.rows, key=lambda row: row.route is None):  # the missing ones last, where they are seen
        route = row.route or "missing"
        cells: list[RenderableType] = [
            Text(row.operator, "" if row.route else "bold"),
            str(row.count),
            Text(route, _STYLES.get(route, "")),
            _sources(row),
        ]
        table.add_row(*cells, *([Text(row.how or "see below")] if wide else []))
    return table


def _table() -> Table:
    return Table(box=None, header_style="bold underline", padding=(0, 2, 0, 0), pad_edge=False)


def _sources(row: PlanRow) -> Text:
    if not row.sources:
        return Text("")
    more = len(row.sources) - 1
    return Text.assemble(str(row.sources[0]), (f" +{more}" if more else "", "dim"))


def _missing(row: PlanRow) -> RenderableType:
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column()
    where = [Text.assemble(f"{source}  ", (source.code, "dim")) for source in row.sources[:3]]
    if len(row.sources) > len(where):
        where.append(Text(f"and {len(row.sources) - len(where)} more lines", "dim"))
    if where:
        grid.add_row("where", Text("\n").join(where))
    grid.add_row("why", Text(row.reason))
    grid.add_row("do", Text(row.remedy, "green"))
    if row.schema:
        grid.add_row("schema", Text(row.schema, "dim"))
    return Group(Text(f"\n{row.operator}", "bold red"), Padding(grid, (0, 0, 1, 2)))


def print_raw(console: Console, raw: Raw) -> None:
    """The captured graph: each node, what it gives, and the model's line."""
    if not console.is_terminal:
        _plain(console, str(raw))
        return
    table = _table()
    for name in ("node", "gives", "source"):
        table.add_column(name, overflow="fold")
    for line in raw.lines:
        table.add_row(Text(line.text(), "" if line.kind == "operator" else "dim"), Text(line.result), line.source)
    console.print(table)
    console.print(Text(raw.summary(), "bold"))
    for note in raw.notes:
        console.print(Text.assemble(("note: ", "yellow"), note))


# -- the verification -------------------------------------------------------------------------------------------------


def print_verification(console: Console, verification: Verification) -> None:
    """Each output at its worst, with what was allowed; on a mismatch the first operator that differs."""
    if not console.is_terminal:
        _plain(console, str(verification))
        return
    verdict = ("verified", "bold green") if verification.ok else ("mismatch", "bold red")
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
    if verification.kept:
        console.print(Text(f"as in the example throughout: {', '.join(verification.kept)}", "dim"))
    for note in verification.notes if verification.ok else ():
        console.print(Text.assemble(("note: ", "yellow"), note))


def _outputs_table(outputs: Sequence[OutputReport]) -> Table:
    table = _table()
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


# -- the closing summary of an export ---------------------------------------------------------------------------------


def print_export(console: Console, program: Program, spec: str) -> None:
    """What was written and how it compares, on one screen together with the stages.

    Args:
        console: Where to.
        program: What `opbridge.export` returned, saved to a file.
        spec: What named the model, for the next step.
    """
    rows = list(_export_rows(program, spec))
    if not console.is_terminal:
        _plain(console, aligned([(label, text) for label, text, _ in rows]))
        return
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    for label, text, style in rows:
        grid.add_row(label, Text(text, style))
    console.print(Padding(grid, (1, 0, 0, 0)))


def _export_rows(program: Program, spec: str) -> Iterator[tuple[str, str, str]]:
    """Label, text and style of each line."""
    for path in program.files:
        yield "file", f"{path} ({size(path.stat().st_size)})", "bold"
    yield "operators", program.plan.summary(), ""
    if program.unverified:
        yield "verified", f"not verified: {program.unverified}", "yellow"
    elif program.verification is None:
        yield "verified", "no, as asked", "yellow"
    else:
        said = _shortened(program.verification.summary(), _LONGEST_NOTE)
        yield "verified", said, "green" if program.verification.ok else "red"
        yield from _worst_rows(program.verification)
    stages = ", ".join(f"{name} {seconds:.2f}" for name, seconds in program.timings.items())
    yield "time", f"{sum(program.timings.values()):.2f} s: {stages}", ""
    notes = program.plan.notes
    shown = notes if len(notes) <= _MOST_NOTES else notes[: _MOST_NOTES - 1]
    for note in shown:
        yield "note", _shortened(note, _LONGEST_NOTE), "yellow"
    if len(notes) > len(shown):
        how = " --capture trace" if program.capture.strategy == "trace" else ""
        yield "note", f"{len(notes) - len(shown)} more; 'opbridge check {spec}{how}' lists them", "yellow"
    yield from _next_steps(program, spec)


def _worst_rows(verification: Verification) -> Iterator[tuple[str, str, str]]:
    compared = [output for output in verification.outputs if not output.worst.random]
    if compared:
        worst = max(compared, key=lambda output: output.worst.excess).worst
        errors = f"worst error {worst.absolute:.1e} absolute, {worst.relative:.1e} relative, in '{worst.name}'"
        yield "", _shortened(f"{errors}; allowed for {worst.tolerance}", 2 * _LONGEST_NOTE), ""


def _next_steps(program: Program, spec: str) -> Iterator[tuple[str, str, str]]:
    path = program.path
    needed = [name for name in program.kernels if name != aten.NAME]
    at_hand = [each for each in map(library.find, needed) if each is not None]
    if len(at_hand) < len(needed):
        names = listed(program.kernels, _MOST_KERNELS)
        yield "next", f"register a library with kernels for {names} in onnxruntime.SessionOptions, then", ""
        yield "", f"opbridge.session('{path}', options=options)", ""
    elif len(needed) < len(program.kernels):
        named = [f"'{name}'" for name in program.aten_operators() if aten.is_refused(name)]
        more = f", aten=[{', '.join(named)}]" if named else ""
        yield "next", f"opbridge.session('{path}'{more}) runs it where torch is", ""
    elif any(each in library.loaded() for each in at_hand):
        paths = ", ".join(dict.fromkeys(f"'{each.path}'" for each in at_hand if each in library.loaded()))
        yield "next", f"opbridge.session('{path}', kernels=[{paths}]) runs it, also without torch", ""
    elif program.plan.routes().keys() & {"kernel", "aten", "fallthrough"}:
        yield "next", f"opbridge.session('{path}') runs it with its kernels loaded", ""
    else:
        yield "next", f"opbridge.session('{path}') runs it; so does any ONNX runtime", ""
    if program.verification is None and not program.unverified:
        yield "", f"opbridge verify {path} {spec}", ""


def _shortened(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest - 4].rstrip()} ..."


# -- the catalogue ----------------------------------------------------------------------------------------------------


def print_catalogue(console: Console, rows: Sequence[Translation]) -> None:
    """The translations that `opbridge ops` found."""
    header = ("operator", "route", "opset", "origin", "inputs")
    cells = [
        (row.operator, row.route, str(row.opset), row.origin, "complex" if row.complex else "real") for row in rows
    ]
    operators = len({row.operator for row in rows})
    summary = f"{operators} operator{'s' * (operators != 1)}, {len(rows)} translation{'s' * (len(rows) != 1)}"
    if not console.is_terminal:
        _plain(console, aligned([header, *cells], right=[2]) + f"\n{summary}")
        return
    table = _table()
    for name in header:
        table.add_column(name, justify="right" if name == "opset" else "left", overflow="fold")
    for operator, route, *rest in cells:
        table.add_row(operator, Text(route, _STYLES.get(route, "")), *rest)
    console.print(table)
    console.print(Text(summary, "bold"))


def print_build(console: Console, path: Path, operators: Sequence[str], preload: str | None) -> None:
    """The library that `opbridge build` wrote, and what it has."""
    rows = [("library", f"{path} ({size(path.stat().st_size)})"), *(("operator", schema) for schema in operators)]
    rows.append(("next", f"opbridge.load('{path}'), or opbridge.session(model, kernels=['{path}'])"))
    if preload is not None:
        rows.append(("", f"with LD_PRELOAD='{preload}' ASAN_OPTIONS=detect_leaks=0 in the environment"))
    _plain(console, aligned(rows))


def print_new(console: Console, files: Sequence[Path]) -> None:
    """What `opbridge new` wrote, and what to do with it."""
    kernel, test, model = files
    rows = [("kernel", str(kernel)), ("test", str(test)), ("model", str(model)), ("next", f"pytest {test}")]
    rows.append(("", f"opbridge export {model}:build -o {model.with_suffix('.onnx').name}"))
    _plain(console, aligned(rows))


def print_not_covered(console: Console, pattern: str, near: Sequence[str]) -> None:
    """That nothing fits a pattern, and what looks like it."""
    hint = f" Near: {', '.join(near)}." if near else ""
    advice = "What torch can decompose into other operators needs none: 'opbridge check SPEC' tells for a model."
    _plain(console, f"No translation is registered for '{pattern}'.{hint} {advice}")
