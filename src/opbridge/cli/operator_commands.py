"""The commands for operators: ops, coverage."""

from __future__ import annotations

import contextlib
import difflib
import fnmatch
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from opbridge.cli.answers import Answer, Interrupted
from opbridge.cli.app import app
from opbridge.cli.operator_view import print_catalogue, print_missing, print_not_covered
from opbridge.cli.options import JsonOption, OpsetOption, given_options, items
from opbridge.errors import UsageError

__all__ = ["coverage", "ops"]


@app.command()
def ops(
    pattern: Annotated[str, typer.Argument(help="A name or a shell pattern: cummax, '*deform*', 'aten::sym*'.")] = "*",
    missing: Annotated[
        bool, typer.Option("--missing", help="The operators of PyTorch and its libraries that have no route.")
    ] = False,
    as_json: JsonOption = False,
) -> Answer:
    """List the operators that have a translation: the route, since which opset, and whose it is.

    With --missing, those that have none and that no decomposition carries, and how many there are of each kind.
    """
    if missing:
        return _missing(pattern)
    from opbridge.translations import catalogue

    _load_kernels(pattern)
    rows = catalogue.catalogue(pattern)
    document = {
        "ok": bool(rows),
        "pattern": pattern,
        "operators": [
            {
                "operator": row.operator,
                "route": row.route,
                "opset": row.opset,
                "origin": row.origin,
                "complex": row.complex,
            }
            for row in rows
        ],
    }
    if rows:
        return Answer(document, lambda screen: print_catalogue(screen, rows))
    near = _near_names(pattern, [row.operator for row in catalogue.catalogue("*")])
    return Answer({**document, "near": near}, lambda screen: print_not_covered(screen, pattern, near), ok=False)


def _missing(pattern: str) -> Answer:
    """The operators without a route, counted."""
    from opbridge.plan.inventory import inventory

    found = inventory(pattern)
    ok = bool(found.rows or found.excluded)
    document = {
        "ok": ok,
        "pattern": pattern,
        "missing": [{"operator": row.operator, "route": row.route, "schema": row.schema} for row in found.missing],
        "routes": found.counts(),
        "excluded": found.excluded,
        "absent": list(found.absent),
    }
    return Answer(document, lambda screen: print_missing(screen, found), ok)


@app.command()
def coverage(
    ops: Annotated[
        list[str] | None,
        typer.Option(metavar="PATTERN", help="Operators, by shell patterns: 'linalg.*', 'torchvision::*'. Repeat it."),
    ] = None,
    samples: Annotated[
        int | None, typer.Option(metavar="N", help="Samples of each operator and dtype.", show_default="3")
    ] = None,
    dtypes: Annotated[
        list[str] | None,
        typer.Option(metavar="DTYPE", help="all, or some: float16,int64.", show_default="float32, or the first one"),
    ] = None,
    opset: OpsetOption = None,
    exporter: Annotated[
        str | None, typer.Option(metavar="NAME", help="opbridge, torch or torchscript.", show_default="opbridge")
    ] = None,
    allow: Annotated[
        list[str] | None,
        typer.Option(metavar="ROUTE", help="Permit these routes and no others.", show_default="all but fallthrough"),
    ] = None,
    timeout: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="The time limit of a sample.", show_default="60")
    ] = None,
    db: Annotated[
        str | None, typer.Option(metavar="FILE.py:NAME", help="Samples of your own, a list of Entry.")
    ] = None,
    jobs: Annotated[int | None, typer.Option(metavar="N", help="Worker processes.", show_default="one a core")] = None,
    ray: Annotated[str | None, typer.Option(metavar="ADDRESS", help="A Ray cluster in their place.")] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The results; interrupted, the same command goes on.")
    ] = None,
    as_json: JsonOption = False,
) -> Answer:
    """Measure, over PyTorch's own test database, which operators cross, by which route, and whether they are right."""
    from opbridge import coverage
    from opbridge.cli import coverage_report, sweep_bar
    from opbridge.coverage.tasks import OUTCOMES

    if jobs is not None and ray is not None:
        raise UsageError("--jobs is for processes here and --ray for a cluster. Leave one of them out.")
    lists = {name: items(value) for name, value in (("dtypes", dtypes), ("allow", allow)) if value}
    given = given_options(
        samples=samples, opset=opset, exporter=exporter, timeout=timeout, db=db, jobs=jobs, ray=ray, **lists
    )
    screen = Console(stderr=True)
    try:
        with sweep_bar.Bar(screen, "coverage", OUTCOMES) if screen.is_terminal else contextlib.nullcontext() as bar:
            found = coverage.sweep(tuple(ops or ("*",)), **given, output=output, progress=bar)
    except KeyboardInterrupt:
        raise Interrupted(sweep_bar.kept_results(output)) from None
    return Answer(
        {"ok": found.ok, **found.document}, lambda screen: coverage_report.print_results(screen, found), found.ok
    )


def _load_kernels(pattern: str) -> None:
    """Registers the built-in kernels, which are operators of their own, where a pattern may be for them."""
    from opbridge.kernels.builtin import load_builtin
    from opbridge.kernels.shipped import at_hand

    namespace, separator, _ = pattern.rpartition("::")
    if (not separator or fnmatch.fnmatchcase("opbridge_ops", namespace)) and at_hand("_builtin"):
        load_builtin()


def _near_names(pattern: str, operators: Sequence[str]) -> list[str]:
    """The operators whose names look most like a pattern that fits none."""
    wanted = pattern.rpartition("::")[2].strip("*?")
    by_name: dict[str, list[str]] = {}
    for operator in dict.fromkeys(operators):
        by_name.setdefault(operator.rpartition("::")[2].partition(".")[0], []).append(operator)
    return [operator for name in difflib.get_close_matches(wanted, by_name, n=3) for operator in by_name[name]]
