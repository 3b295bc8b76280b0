"""The commands for the sweeps: coverage, over operators, and models, over whole models."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from opbridge.base.requirements import require
from opbridge.cli.answers import Answer, Interrupted
from opbridge.cli.app import app
from opbridge.cli.console import print_plain
from opbridge.cli.options import JsonOption, OpsetOption, given_options, items
from opbridge.errors import UsageError

__all__ = ["coverage", "models"]


_JobsOption = Annotated[
    int | None, typer.Option("--jobs", metavar="N", help="The number of worker processes.", show_default="one per core")
]


_RayOption = Annotated[
    str | None,
    typer.Option("--ray", metavar="ADDRESS", help="The address of a Ray cluster, instead of local processes."),
]


_ResultsOption = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        help="The file for the results. An interrupted run continues when the same command is run again.",
    ),
]


_HtmlOption = Annotated[
    Path | None,
    typer.Option("--html", metavar="FILE.html", help="Write the results as an HTML page.", show_default=False),
]


_FilesArgument = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="[RESULTS.json]...",
        help="With --html: result files to show side by side, instead of a new run.",
        show_default=False,
    ),
]


@app.command()
def coverage(
    files: _FilesArgument = None,
    ops: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATTERN",
            help="A shell pattern for the names of operators: 'linalg.*', 'torchvision::*'. May be repeated.",
        ),
    ] = None,
    samples: Annotated[
        int | None, typer.Option(metavar="N", help="The number of samples per operator and dtype.", show_default="3")
    ] = None,
    dtypes: Annotated[
        list[str] | None,
        typer.Option(
            metavar="DTYPE",
            help="The dtypes, separated by commas (float16,int64), or 'all'.",
            show_default="float32, or the operator's first dtype",
        ),
    ] = None,
    opset: OpsetOption = None,
    exporter: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The exporter: opbridge, torch or torchscript.", show_default="opbridge"),
    ] = None,
    allow: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ROUTE",
            help="Allow only these routes. The routes aten and fallthrough are off by default in opbridge.export.",
            show_default="all but fallthrough",
        ),
    ] = None,
    timeout: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="The time limit per sample.", show_default="60")
    ] = None,
    db: Annotated[
        str | None, typer.Option(metavar="FILE.py:NAME", help="Your own samples, as a list of opbridge.coverage.Entry.")
    ] = None,
    runtime: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="The runtime: onnxruntime, openvino, web, browser, webgpu, mnn, ncnn, tensorrt-rtx or reference.",
            show_default="onnxruntime",
        ),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The target to export for, as with opbridge export.", show_default=False),
    ] = None,
    jobs: _JobsOption = None,
    ray: _RayOption = None,
    output: _ResultsOption = None,
    html: _HtmlOption = None,
    as_json: JsonOption = False,
) -> Answer:
    """Measure on PyTorch's operator test database which operators are exported correctly, and by which route."""
    require("export")
    from opbridge import coverage
    from opbridge.cli import coverage_report
    from opbridge.coverage.tasks import OUTCOMES

    page = _page(files, html)
    lists = {name: items(value) for name, value in (("dtypes", dtypes), ("allow", allow)) if value}
    given = given_options(
        samples=samples,
        opset=opset,
        exporter=exporter,
        timeout=timeout,
        db=db,
        runtime=runtime,
        target=target,
        jobs=jobs,
        ray=ray,
        **lists,
    )
    if files:
        _refuse_settings({**given, "ops": ops, "output": output})
        return _side_by_side([coverage.results.read(each) for each in files], page)
    given["ops"] = tuple(ops or ("*",))
    return _answer("coverage", coverage.sweep, given, output, OUTCOMES, coverage_report.print_results, page)


@app.command()
def models(
    files: _FilesArgument = None,
    family: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="The package of the models: timm, torchvision, transformers, ..., or FILE.py:NAME for your own "
            "models. May be repeated.",
            show_default="all installed ones",
        ),
    ] = None,
    name: Annotated[
        list[str] | None,
        typer.Option(metavar="PATTERN", help="A shell pattern for the names of models: 'resnet*'. May be repeated."),
    ] = None,
    dynamic: Annotated[
        str | None,
        typer.Option(metavar="none|batch|all", help="The dynamic dimensions.", show_default="batch"),
    ] = None,
    exporter: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The exporter: opbridge or torch (dynamo).", show_default="opbridge"),
    ] = None,
    timeout: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="The time limit per model.", show_default="300")
    ] = None,
    memory: Annotated[
        float | None,
        typer.Option(
            metavar="GB",
            help="The memory limit per worker process.",
            show_default="the machine's memory divided by the number of workers",
        ),
    ] = None,
    shard: Annotated[
        str | None,
        typer.Option(
            metavar="K/N", help="Run only part K of N of the models, selected by their names.", show_default="all"
        ),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="The target to export for. With tensorrt-rtx, each file is parsed and built, which takes no GPU.",
            show_default=False,
        ),
    ] = None,
    dtype: Annotated[
        str | None,
        typer.Option(
            metavar="float16|bfloat16",
            help="The dtype of the models and their inputs.",
            show_default="that of each model",
        ),
    ] = None,
    jobs: _JobsOption = None,
    ray: _RayOption = None,
    output: _ResultsOption = None,
    html: _HtmlOption = None,
    as_json: JsonOption = False,
) -> Answer:
    """Measure which models of installed packages are exported correctly, with dynamic shapes."""
    require("export")
    from opbridge.cli import models_report
    from opbridge.coverage import models
    from opbridge.coverage.models.tasks import OUTCOMES

    page = _page(files, html)
    given = given_options(
        families=items(family) if family else None,
        names=tuple(name) if name else None,  # names have commas in them
        dynamic=dynamic,
        exporter=exporter,
        timeout=timeout,
        memory=memory,
        shard=shard,
        target=target,
        dtype=dtype,
        jobs=jobs,
        ray=ray,
    )
    if files:
        _refuse_settings({**given, "output": output})
        return _side_by_side([models.results.read(each) for each in files], page)
    return _answer("models", models.sweep, given, output, OUTCOMES, models_report.print_results, page)


def _page(files: Sequence[Path] | None, html: Path | None) -> Path | None:
    """The page to write, looked at before the work.

    Raises:
        UsageError: Files without a page, or no page can be written there.
    """
    from opbridge.pages import writing

    if files and html is None:
        raise UsageError(
            "Result files are valid only with --html. Add --html FILE.html, or leave the files out to start a new run."
        )
    return None if html is None else writing.refuse_unwritable(html)


def _refuse_settings(given: Mapping[str, Any]) -> None:
    for name, value in given.items():
        if value is not None:
            option = f"--{name.replace('families', 'family').replace('names', 'name')}"
            raise UsageError(
                f"{option} is valid only for a new run, not together with result files. Leave one of them out."
            )


def _side_by_side(found: Sequence[Any], html: Path | None) -> Answer:
    """Results that were measured before, as a page."""
    assert html is not None
    _write_page(found, html)
    document = {
        "ok": True,
        "page": str(html),
        "files": [{"path": str(each.path), "summary": each.summary()} for each in found],
    }
    lines = [*(f"{each.path}: {each.summary()}" for each in found), f"written: {html}"]
    return Answer(document, lambda screen: print_plain(screen, "\n".join(lines)))


def _write_page(found: Sequence[Any], html: Path) -> None:
    from opbridge.coverage import models, page
    from opbridge.pages import rendering, writing

    shown = page.of_models(found) if isinstance(found[0], models.Results) else page.of_operators(found)
    writing.write(html, rendering.render("matrix.html", shown))


def _answer(
    name: str,
    sweep: Callable[..., Any],
    given: Mapping[str, Any],
    output: Path | None,
    outcomes: Sequence[str],
    print_results: Callable[[Console, Any], None],
    html: Path | None,
) -> Answer:
    """Runs a sweep, with a bar on a terminal.

    Args:
        name: What the sweep is called.
        sweep: Runs it.
        given: The options that were given.
        output: The file of the results.
        outcomes: The outcomes of what it measures, the worst first.
        print_results: Prints what it found.
        html: The page to write of it; None: none.
    """
    from opbridge.cli import sweep_bar

    if {"jobs", "ray"} <= given.keys():
        raise UsageError(
            "--jobs (local processes) and --ray (a cluster) are mutually exclusive. Leave one of them out."
        )
    screen = Console(stderr=True)
    try:
        with sweep_bar.Bar(screen, name, outcomes) if screen.is_terminal else contextlib.nullcontext() as bar:
            found = sweep(**given, output=output, progress=bar)
    except KeyboardInterrupt:
        raise Interrupted(sweep_bar.kept_results(output)) from None
    if html is not None:
        _write_page([found], html)
    return Answer({"ok": found.ok, **found.document}, lambda screen: print_results(screen, found), found.ok)
