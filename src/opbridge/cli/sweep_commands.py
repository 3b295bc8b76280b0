"""The command for the sweep over whole models: models."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from opbridge.cli.answers import Answer, Interrupted
from opbridge.cli.app import app
from opbridge.cli.options import JsonOption, given_options, items
from opbridge.errors import UsageError

__all__ = ["models"]


@app.command()
def models(
    family: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="timm, torchvision, transformers, ..., or FILE.py:NAME for models of your own. Repeat it.",
            show_default="all that are installed",
        ),
    ] = None,
    name: Annotated[
        list[str] | None,
        typer.Option(metavar="PATTERN", help="Models of them, by shell patterns: 'resnet*'. Repeat it."),
    ] = None,
    dynamic: Annotated[
        str | None,
        typer.Option(metavar="none|batch|all", help="Which dimensions are dynamic.", show_default="batch"),
    ] = None,
    exporter: Annotated[
        str | None, typer.Option(metavar="NAME", help="opbridge, or torch (dynamo).", show_default="opbridge")
    ] = None,
    timeout: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="The time limit of a model.", show_default="300")
    ] = None,
    memory: Annotated[
        float | None,
        typer.Option(metavar="GB", help="The memory limit of a worker.", show_default="its share of the machine's"),
    ] = None,
    jobs: Annotated[int | None, typer.Option(metavar="N", help="Worker processes.", show_default="one a core")] = None,
    ray: Annotated[str | None, typer.Option(metavar="ADDRESS", help="A Ray cluster in their place.")] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The results; interrupted, the same command goes on.")
    ] = None,
    as_json: JsonOption = False,
) -> Answer:
    """Measure which whole models of other packages cross, with dynamic sizes, and whether they are right."""
    from opbridge.cli import models_report, sweep_bar
    from opbridge.coverage import models
    from opbridge.coverage.models.tasks import OUTCOMES

    if jobs is not None and ray is not None:
        raise UsageError("--jobs is for processes here and --ray for a cluster. Leave one of them out.")
    given = given_options(
        families=items(family) if family else None,
        names=items(name) if name else None,
        dynamic=dynamic,
        exporter=exporter,
        timeout=timeout,
        memory=memory,
        jobs=jobs,
        ray=ray,
    )
    screen = Console(stderr=True)
    try:
        with sweep_bar.Bar(screen, "models", OUTCOMES) if screen.is_terminal else contextlib.nullcontext() as bar:
            found = models.sweep(**given, output=output, progress=bar)
    except KeyboardInterrupt:
        raise Interrupted(sweep_bar.kept_results(output)) from None
    return Answer(
        {"ok": found.ok, **found.document}, lambda screen: models_report.print_results(screen, found), found.ok
    )
