"""The command for times: profile."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from opbridge.base import specs
from opbridge.base.requirements import require
from opbridge.cli.answers import Answer
from opbridge.cli.app import app
from opbridge.cli.console import Screen
from opbridge.cli.options import GigabytesOption, JsonOption, SecondsOption, TaskOption, given_options
from opbridge.errors import UsageError

__all__ = ["profile"]


@app.command()
def profile(
    model: Annotated[Path, typer.Argument(metavar="MODEL.onnx", help="Any ONNX file.", show_default=False)],
    spec: Annotated[
        str | None,
        typer.Argument(
            metavar="[SPEC]",
            help="The model that the file was exported from, as for 'opbridge verify': eager PyTorch is timed on its "
            "example inputs, beside the file.",
            show_default=False,
        ),
    ] = None,
    by: Annotated[
        list[str] | None,
        typer.Option(
            "--by",
            metavar="operator|module|line|node",
            help="What the times are added up by. May be repeated, or given as a list separated by commas.",
            show_default="operator and line; module where the file does not name the lines",
        ),
    ] = None,
    depth: Annotated[
        int | None,
        typer.Option("--depth", metavar="N", help="With --by module: keep N parts of a module's path.", min=1),
    ] = None,
    top: Annotated[int, typer.Option("--top", metavar="N", help="The number of rows of each table.", min=1)] = 15,
    runtime: Annotated[
        str, typer.Option("--runtime", metavar="NAME", help="The runtime: onnxruntime, or cuda (cuda:1).")
    ] = "onnxruntime",
    size: Annotated[
        list[str] | None,
        typer.Option(
            "--size",
            metavar="NAME=SIZE",
            help="Without SPEC: the size of a dynamic dimension, 'n=8'. A dimension without a name is written as "
            "INPUT:AXIS. May be repeated, or given as a list separated by commas.",
            show_default="1 for the first dimension of an input, else 64",
        ),
    ] = None,
    inputs: Annotated[
        Path | None,
        typer.Option(
            "--inputs",
            metavar="FILE.npz",
            help="Without SPEC: run the model on the inputs in this file instead of random inputs.",
            show_default=False,
        ),
    ] = None,
    runs: Annotated[
        int, typer.Option("--runs", metavar="N", help="The number of runs, of which each time is the median.", min=1)
    ] = 20,
    threads: Annotated[
        int | None,
        typer.Option(
            "--threads",
            metavar="N",
            help="The number of threads of an operator, in the runtime and in PyTorch.",
            show_default="one per core",
            min=1,
        ),
    ] = None,
    kernels: Annotated[
        list[Path] | None,
        typer.Option(
            "--kernels",
            metavar="LIBRARY",
            help="A library with kernels that the file requires. May be repeated.",
            show_default=False,
        ),
    ] = None,
    limit_seconds: SecondsOption = None,
    limit_gigabytes: GigabytesOption = None,
    task: TaskOption = None,
    html: Annotated[
        Path | None,
        typer.Option("--html", metavar="FILE.html", help="Write an HTML page with the tables and a flame graph."),
    ] = None,
    as_json: JsonOption = False,
) -> Answer:
    """Show where the time of an ONNX file goes, by operator, module and source line, beside eager PyTorch.

    ONNX Runtime runs the file in a separate process, with its profiler and without. With SPEC, the rows that lose most
    time against PyTorch are first.
    """
    require("files")
    import opbridge
    from opbridge.cli.options import items
    from opbridge.cli.profile_view import print_profile
    from opbridge.profiling.grouping import BY
    from opbridge.profiling.inputs import sizes_given

    chosen = items(by or [])
    for each in chosen:
        if each not in BY:
            raise UsageError(f"Invalid value for --by: '{each}'. Expected {', '.join(BY[:-1])} or {BY[-1]}.")
    if depth is not None and "module" not in chosen:
        raise UsageError("--depth is valid only with --by module. Add it, or leave --depth out.")
    if spec is not None and (size or inputs):
        given = "--size" if size else "--inputs"
        raise UsageError(f"{given} is valid only without SPEC, whose example inputs are taken. Leave it out.")
    if task is not None and spec is None:
        raise UsageError("--task is valid only with SPEC. Give the SPEC of the model.")
    options: dict[str, Any] = given_options(
        runtime=runtime, sizes=sizes_given(size) or None, inputs=inputs, runs=runs, threads=threads, kernels=kernels
    )
    limits = given_options(seconds=limit_seconds, gigabytes=limit_gigabytes)
    if limits:
        options["limits"] = opbridge.Limits(**limits)
    if spec is not None:
        options |= _subject(spec, task, model)
    screen = Screen(stderr=True)
    with screen.status(f"profiling {model}"):
        found = opbridge.profile(model, **options, html=html)
    document = {"ok": True, **found.document(), "page": None if html is None else str(html)}
    return Answer(document, lambda screen: print_profile(screen, found, chosen, depth, top, html))


def _subject(spec: str, task: str | None, file: Path) -> dict[str, Any]:
    """The model of a SPEC and its inputs, as `opbridge.profile` takes them with a file.

    Raises:
        UsageError: The factory returns several models.
    """
    from opbridge.cli.options import load_subject

    require("export")
    subject = load_subject(spec, task)
    if not isinstance(subject, specs.Subject):
        raise UsageError(f"{spec} returns several models. Give the SPEC of the one that the file was exported from.")
    if task is None:
        return {"model": subject.model, "args": subject.args, "kwargs": subject.keywords.get("kwargs")}
    from opbridge.fit.fused.fusing import is_contiguous
    from opbridge.tasks import prepare

    given = subject.keywords.get("kwargs")
    prepared = prepare(task, subject.model, subject.args, given, None, contiguous=is_contiguous(file))
    return {"model": subject.model, "args": (), "kwargs": prepared.kwargs}
