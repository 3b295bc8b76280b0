"""The command for opsets: convert."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from opbridge.cli.answers import Answer
from opbridge.cli.app import app
from opbridge.cli.console import aligned, print_plain
from opbridge.cli.options import JsonOption

if TYPE_CHECKING:
    from opbridge.conversion import Conversion

__all__ = ["convert"]


@app.command()
def convert(
    model: Annotated[Path, typer.Argument(metavar="MODEL.onnx", help="Any ONNX file.", show_default=False)],
    opset: Annotated[
        int,
        typer.Option(
            help="The opset version to convert to, from 7 to the newest one that the installed onnx package supports."
        ),
    ],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The file to write. Without it, no file is written.")
    ] = None,
    ir_version: Annotated[
        int | None,
        typer.Option("--ir-version", help="The IR version of the file. Defaults to the one that belongs to the opset."),
    ] = None,
    verify: Annotated[
        bool,
        typer.Option(
            "--verify/--no-verify",
            help="Run both models on the same random inputs and compare the outputs before writing.",
        ),
    ] = True,
    as_json: JsonOption = False,
) -> Answer:
    """Convert a model to another opset version, older or newer.

    Nodes that cannot be expressed in that version are listed with their source lines. No file is written then, nor if
    the results differ.
    """
    import opbridge

    found = opbridge.convert(model, opset_version=opset, output=output, ir_version=ir_version, verify=verify)
    return Answer(found.document(), lambda screen: _show(screen, found))


def _show(console: Console, found: Conversion) -> None:
    """What was done, how often, and how the two models compare."""
    counted = found.counted()
    if counted:
        rows = [("nodes", "operator", "change")]
        rows += [(str(count), operator, what) for operator, what, count in counted]
        print_plain(console, aligned(rows, right=[0]) + "\n")
    print_plain(console, found.summary())
    print_plain(console, found.comparison.summary())
    if found.files:
        print_plain(console, f"Written: {', '.join(map(str, found.files))}")
