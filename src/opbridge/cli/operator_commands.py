"""The command for operators: ops."""

from __future__ import annotations

import difflib
import fnmatch
from collections.abc import Sequence
from typing import Annotated

import typer

from opbridge.base.requirements import require
from opbridge.cli.answers import Answer
from opbridge.cli.app import app
from opbridge.cli.operator_view import print_catalogue, print_missing, print_not_covered
from opbridge.cli.options import JsonOption

__all__ = ["ops"]


@app.command()
def ops(
    pattern: Annotated[
        str, typer.Argument(help="The name of an operator, or a shell pattern: cummax, '*deform*', 'aten::sym*'.")
    ] = "*",
    missing: Annotated[
        bool,
        typer.Option(
            "--missing",
            help="List the operators of PyTorch and its libraries that have no translation and no decomposition.",
        ),
    ] = False,
    as_json: JsonOption = False,
) -> Answer:
    """List the operators that have a translation, with route, first opset version and origin.

    With --missing, list the operators that have neither a translation nor a decomposition, with counts.
    """
    require("export")
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
