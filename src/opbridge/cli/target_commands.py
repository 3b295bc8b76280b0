"""The commands for targets: targets, lint, fix."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from opbridge.base.requirements import require
from opbridge.cli.answers import Answer
from opbridge.cli.app import app
from opbridge.cli.console import print_plain
from opbridge.cli.options import JsonOption, ProvidesOption, ReportOption, given_options, items
from opbridge.cli.target_view import (
    print_findings,
    print_fixed,
    print_measured,
    print_rule,
    print_target,
    print_targets,
)
from opbridge.errors import UsageError

__all__ = ["fix", "lint", "targets"]

_TARGETS = typer.Option(
    "--target",
    "-t",
    metavar="NAME[:VERSION]",
    help="The target that the model will run on. May be repeated; 'opbridge targets' lists all of them.",
)


@app.command()
def targets(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME[:VERSION]]",
            help="A target or a file that describes one; or 'measure', followed by the NAME of a runtime.",
        ),
    ] = None,
    measured: Annotated[
        str | None,
        typer.Argument(metavar="[NAME]", help="With measure: openvino, web, mnn, ncnn, tensorrt-rtx or cuda."),
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option(metavar="N", help="With measure: the number of worker processes. Defaults to one per core."),
    ] = None,
    ray: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="With measure: the address of a Ray cluster, instead of local processes."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="With measure: the file to write.", show_default="the file that lint reads"
        ),
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option("--html", metavar="FILE.html", help="Write an HTML table of all operators and all targets."),
    ] = None,
    as_json: JsonOption = False,
) -> Answer:
    """List the supported targets, or the facts of one target with their sources.

    'opbridge targets measure NAME' runs ONNX's node tests, also with other types and opset versions, on the installed
    runtime, and writes the resulting facts. For cuda it reads the kernels that the runtime registers.
    """
    require("files")
    from opbridge import targets as known

    if name == "measure":
        return _measured(measured, given_options(output=output, jobs=jobs, ray=ray))
    if extra := given_options(NAME=measured, jobs=jobs, ray=ray, output=output):
        raise UsageError(f"{next(iter(extra))} is valid only for 'opbridge targets measure NAME'. Leave it out.")
    if html is not None:
        return _page(name, html)
    if name is None:
        found = [known.find_target(each) for each in known.names()]
        document = {
            "ok": True,
            "targets": [
                {"name": each.name, "title": each.title, "versions": list(each.versions), "facts": len(each.facts)}
                for each in found
            ],
        }
        return Answer(document, lambda screen: print_targets(screen, found))
    target = known.find_target(name)
    return Answer({"ok": True, **target.document()}, lambda screen: print_target(screen, target))


def _page(name: str | None, html: Path) -> Answer:
    """All operators against all targets, as a page.

    Raises:
        UsageError: A target is named, or no page can be written there.
    """
    from opbridge.pages import rendering, writing
    from opbridge.targets import page

    if name is not None:
        raise UsageError("--html shows all targets in one table. Leave the name out.")
    target = writing.refuse_unwritable(html)
    shown = page.document()
    writing.write(target, rendering.render("matrix.html", shown))
    document = {"ok": True, "page": str(target), "operators": len(shown["rows"]), "targets": len(shown["columns"])}
    said = f"{len(shown['rows'])} operators, {len(shown['columns'])} targets\nWritten: {target}"
    return Answer(document, lambda screen: print_plain(screen, said))


def _measured(name: str | None, options: Mapping[str, Any]) -> Answer:
    """A runtime measured, with a bar on a terminal.

    Raises:
        UsageError: No target is named, or none that can be measured.
    """
    from opbridge.cli import sweep_bar
    from opbridge.coverage import measuring
    from opbridge.coverage.measuring.work import OUTCOMES

    if name is None:
        raise UsageError(
            "The name of the runtime to measure is missing. Expected openvino, web, mnn, ncnn, tensorrt-rtx or cuda."
        )
    if {"jobs", "ray"} <= options.keys():
        raise UsageError(
            "--jobs (local processes) and --ray (a cluster) are mutually exclusive. Leave one of them out."
        )
    screen = Console(stderr=True)
    with sweep_bar.Bar(screen, name, OUTCOMES) if screen.is_terminal else contextlib.nullcontext() as bar:
        found = measuring.measure(name, **options, progress=bar)
    return Answer({"ok": True, **found.document}, lambda screen: print_measured(screen, found))


@app.command()
def lint(
    model: Annotated[
        Path | None, typer.Argument(metavar="MODEL.onnx", help="Any ONNX file.", show_default=False)
    ] = None,
    target: Annotated[list[str] | None, _TARGETS] = None,
    provides: ProvidesOption = None,
    select: Annotated[
        list[str] | None,
        typer.Option(
            metavar="RULE",
            help="Report only these rules, or rules that match a shell pattern: '*-type'. May be repeated.",
        ),
    ] = None,
    ignore: Annotated[
        list[str] | None, typer.Option(metavar="RULE", help="Do not report these rules. May be repeated.")
    ] = None,
    inputs: Annotated[
        Path | None,
        typer.Option(
            "--inputs",
            metavar="FILE",
            help="Run the model on the inputs in this .npz file and report values that overflow in float16.",
        ),
    ] = None,
    explain: Annotated[
        str | None,
        typer.Option(
            metavar="RULE", help="Explain a rule: what it reports, why, and what to do. 'all' explains every rule."
        ),
    ] = None,
    as_sarif: Annotated[bool, typer.Option("--sarif", help="Print the findings as SARIF 2.1.0.")] = False,
    as_github: Annotated[
        bool, typer.Option("--github", help="Print the findings as GitHub Actions annotations.")
    ] = False,
    report: ReportOption = None,
    as_json: JsonOption = False,
) -> Answer:
    """Report what a target does not support in an ONNX model, with the source line and the remedy.

    Without --target, the model is checked against the ONNX specification only. The exit status is 1 if there are errors
    among the findings.
    """
    require("files")
    from opbridge import rules

    if explain is not None:
        return _explained(explain)
    if model is None:
        raise UsageError("Missing argument 'MODEL.onnx'. Give the ONNX file to check, or a rule with --explain.")
    if as_sarif + as_github + as_json > 1:
        raise UsageError("--json, --sarif and --github are mutually exclusive. Choose one of them.")
    chosen = {"select": items(select or []), "ignore": items(ignore or []), "provides": items(provides or [])}
    found = rules.lint(model, items(target or []), **chosen, inputs=inputs, report=report)
    if as_sarif:
        return Answer({}, lambda screen: print_plain(screen, json.dumps(rules.sarif(found), indent=2)), found.ok)
    if as_github:
        return Answer({}, lambda screen: print_plain(screen, "\n".join(rules.github_annotations(found))), found.ok)
    return Answer(found.document(), lambda screen: print_findings(screen, found), found.ok)


@app.command()
def fix(
    model: Annotated[Path, typer.Argument(metavar="MODEL.onnx", help="Any ONNX file.", show_default=False)],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The file to write.", show_default="none")
    ] = None,
    target: Annotated[list[str] | None, _TARGETS] = None,
    provides: ProvidesOption = None,
    select: Annotated[
        list[str] | None,
        typer.Option(metavar="RULE", help="Repair only the findings of these rules. May be repeated."),
    ] = None,
    ignore: Annotated[
        list[str] | None,
        typer.Option(metavar="RULE", help="Do not repair the findings of these rules. May be repeated."),
    ] = None,
    inputs: Annotated[
        Path | None,
        typer.Option(
            "--inputs",
            metavar="FILE",
            help="Compare both models on the inputs in this .npz file, for a model that does not run on random inputs.",
        ),
    ] = None,
    diff: Annotated[bool, typer.Option("--diff", help="Print the changed nodes as a unified diff.")] = False,
    report: ReportOption = None,
    as_json: JsonOption = False,
) -> Answer:
    """Repair the findings of lint in an ONNX model, and check that its outputs are unchanged.

    The original and the repaired model run on the same inputs in ONNX Runtime, random ones or those of --inputs, before
    the file is written. With --target tensorrt-rtx, where TensorRT-RTX is installed, both are built too. The exit
    status is 1 if errors remain, or TensorRT-RTX rejects the result.
    """
    require("files")
    from opbridge import fixing

    chosen = {"select": items(select or []), "ignore": items(ignore or []), "provides": items(provides or [])}
    fixed = fixing.fix(model, items(target or []), output, **chosen, inputs=inputs, report=report)
    text = fixing.difference(str(model), fixed.model) if diff else ""
    document = fixed.document() | ({"diff": text} if diff else {})
    return Answer(document, lambda screen: print_fixed(screen, fixed, text), fixed.ok)


def _explained(name: str) -> Answer:
    """A rule by its identifier, or all of them.

    Raises:
        UsageError: There is no such rule.
    """
    from opbridge import rules

    known = {each.identifier: each for each in rules.catalogue()}
    if name != "all" and name not in known:
        raise UsageError(f"Unknown rule '{name}'. The rules are: {', '.join(known)}.")
    chosen = list(known.values()) if name == "all" else [known[name]]
    document = {
        "ok": True,
        "rules": [
            {"rule": each.identifier, "title": each.title, "why": each.why, "remedy": each.remedy} for each in chosen
        ],
    }
    return Answer(document, lambda screen: print_rule(screen, chosen))
