"""The command for half precision: cast."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from opbridge.cli.answers import Answer
from opbridge.cli.app import app
from opbridge.cli.console import Screen, aligned, print_plain
from opbridge.cli.options import JsonOption, items

if TYPE_CHECKING:
    from opbridge.precision import Narrowed

__all__ = ["cast"]

_SHOWN = 20


@app.command()
def cast(
    model: Annotated[Path, typer.Argument(metavar="MODEL.onnx", help="Any ONNX file.", show_default=False)],
    to: Annotated[
        str, typer.Option("--to", metavar="float16|bfloat16", help="The type that replaces float32.")
    ] = "float16",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The file to write. Without it, no file is written.")
    ] = None,
    inputs: Annotated[
        str | None,
        typer.Option(
            "--inputs",
            metavar="FILE.npz|SPEC",
            help="Run the model on the inputs in this .npz file, or on the example inputs of a SPEC (FILE.py:FACTORY), "
            "instead of random inputs.",
            show_default=False,
        ),
    ] = None,
    keep_io: Annotated[
        bool, typer.Option("--keep-io", help="Keep the inputs and outputs of the model in float32, with a Cast each.")
    ] = False,
    keep: Annotated[
        list[str] | None,
        typer.Option(
            "--keep",
            metavar="NAME",
            help="Keep these nodes in float32: the name of a node or value, an operator, or a shell pattern of them "
            "('/head/*'). May be repeated.",
            show_default=False,
        ),
    ] = None,
    tolerance: Annotated[
        float | None,
        typer.Option(
            help="The largest error of an output, as the RMS of the difference relative to the RMS of the output.",
            show_default="0.01 for float16, 0.05 for bfloat16",
        ),
    ] = None,
    verify: Annotated[
        bool,
        typer.Option(
            "--verify/--no-verify",
            help="Run the model, to choose the nodes that stay in float32, and compare the outputs before writing. "
            "Without it, constants and operators decide.",
        ),
    ] = True,
    as_json: JsonOption = False,
) -> Answer:
    """Cast a float32 model to float16 or bfloat16.

    Nodes whose values, constants or errors do not allow it stay in float32, as the model shows when it runs. Nodes that
    cost most are put back to float32 until every output is within the tolerance. No file is written otherwise.
    """
    import opbridge

    screen = Screen(stderr=True)
    with screen.status("reading the model") if screen.is_terminal else _Quiet() as shown:
        found = opbridge.cast(
            model,
            to,
            output,
            inputs=_given(inputs),
            keep_io=keep_io,
            keep=items(keep or []),
            tolerance=tolerance,
            verify=verify,
            progress=shown.update,
        )
    return Answer(found.document(), lambda screen: _show(screen, found))


class _Quiet:
    """Shows nothing, where no terminal does."""

    def __enter__(self) -> _Quiet:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def update(self, text: str) -> None:
        """Drops what is being done."""


def _given(inputs: str | None) -> Any:
    """The inputs of a file, or the example inputs of a SPEC: by name where they are keyword inputs only.

    Raises:
        UsageError: There are none.
    """
    if inputs is None or inputs.endswith(".npz"):
        return inputs
    from opbridge.base.requirements import require

    require("export")
    from opbridge.base.specs import Subject
    from opbridge.capture.model_inputs import leaf_arrays
    from opbridge.cli.options import load_subject
    from opbridge.errors import UsageError

    subject = load_subject(inputs)
    if not isinstance(subject, Subject):
        raise UsageError(f"{inputs} returns several models. Give the SPEC of one of them, or an .npz file.")
    return leaf_arrays(subject.args, subject.keywords.get("kwargs") or {})


def _show(console: Console, found: Narrowed) -> None:
    """Which nodes stay, why, and how the two models compare."""
    if found.kept:
        kinds = found.counted()
        rows = [("nodes", "operator", "in float32 because")]
        first = {(each.operator, each.kind): each.why for each in reversed(found.kept)}
        rows += [(str(count), operator, first[operator, kind]) for operator, kind, count in kinds[:_SHOWN]]
        print_plain(console, aligned(rows, right=[0]))
        if len(kinds) > _SHOWN:
            print_plain(console, f"and {len(kinds) - _SHOWN} more; --json lists all of them.")
        print_plain(console, "")
    print_plain(console, found.summary())
    if found.files:
        print_plain(console, f"Written: {', '.join(map(str, found.files))}")
