"""What a person sees of a plan, and of a captured graph."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from opbridge.cli.console import ROUTE_STYLES, plain_table, print_plain

if TYPE_CHECKING:
    from opbridge.capture.listing import Raw
    from opbridge.plan.data import Plan
    from opbridge.plan.rows import PlanRow

__all__ = ["print_plan", "print_raw"]


def print_plan(console: Console, plan: Plan) -> None:
    """Every operator with its route; then what is missing, why and what to do; the summary last."""
    if not console.is_terminal:
        print_plain(console, str(plan))
        return
    console.print(_plan_table(plan, wide=console.width >= 120))
    for row in plan.missing:
        console.print(_missing(row))
    for row in plan.rows:
        if row.route and row.remedy:
            console.print(Text.assemble((row.operator, "bold"), f": {row.how} For a better route: {row.remedy}"))
    for line in plan.decision_lines():
        console.print(Text(line))
    console.print(Text(plan.summary(), "bold" if plan.ok else "bold red"))
    if line := plan.capture_line():
        console.print(Text(line, "dim"))
    if plan.ok and plan.unverified:
        console.print(Text(f"not verified: {plan.unverified}", "yellow"))
    for note in plan.notes:
        console.print(Text.assemble(("note: ", "yellow"), note))


def _plan_table(plan: Plan, *, wide: bool) -> Table:
    table = plain_table()
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
            Text(route, ROUTE_STYLES.get(route, "")),
            _sources(row),
        ]
        table.add_row(*cells, *([Text(row.how or "see below")] if wide else []))
    return table


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
        print_plain(console, str(raw))
        return
    table = plain_table()
    for name in ("node", "gives", "source"):
        table.add_column(name, overflow="fold")
    for line in raw.lines:
        table.add_row(Text(line.text(), "" if line.kind == "operator" else "dim"), Text(line.result), line.source)
    console.print(table)
    console.print(Text(raw.summary(), "bold"))
    for note in raw.notes:
        console.print(Text.assemble(("note: ", "yellow"), note))
