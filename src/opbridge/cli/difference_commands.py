"""The commands that find and cut out what differs: bisect, compare and extract."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from opbridge.base.specs import Subject
from opbridge.cli.answers import Answer
from opbridge.cli.app import app
from opbridge.cli.console import print_plain
from opbridge.cli.options import (
    AtolOption,
    GigabytesOption,
    JsonOption,
    RtolOption,
    SecondsOption,
    given_options,
    isolation,
    load_subject,
)
from opbridge.errors import UsageError

if TYPE_CHECKING:
    from opbridge.extraction import Extracted

__all__ = ["bisect", "compare", "extract"]

_InputsOption = Annotated[
    Path | None,
    typer.Option(
        "--inputs",
        metavar="FILE.npz",
        help="Compare two files on the inputs in this .npz file instead of random inputs.",
        show_default=False,
    ),
]

_RuntimeOption = Annotated[
    str,
    typer.Option(
        "--runtime",
        metavar="NAME",
        help="The runtime: onnxruntime, cuda (or cuda:1), openvino, web, browser, webgpu, mnn, ncnn, tensorrt-rtx or "
        "reference.",
    ),
]

_AgainstOption = Annotated[
    str | None,
    typer.Option(
        "--against",
        metavar="NAME",
        help="The runtime of the first file, whose values are expected, where it is another than --runtime.",
        show_default=False,
    ),
]

_LevelOption = Annotated[
    str,
    typer.Option(
        "--optimization",
        metavar="LEVEL",
        help="ONNX Runtime's level of graph optimizations: disabled, basic, extended or all.",
    ),
]


@app.command()
def bisect(
    model: Annotated[Path, typer.Argument(metavar="MODEL.onnx", help="Any ONNX file.", show_default=False)],
    other: Annotated[
        str | None,
        typer.Argument(
            metavar="[SPEC|OTHER.onnx]",
            help="The PyTorch model, as FILE.py:FACTORY or package.module:FACTORY, or another ONNX file. Without it, "
            "the file is compared with itself in another runtime (--against) or without optimizations "
            "(--optimization).",
            show_default=False,
        ),
    ] = None,
    inputs: _InputsOption = None,
    runtime: _RuntimeOption = "onnxruntime",
    against: _AgainstOption = None,
    optimization: _LevelOption = "disabled",
    reproduce: Annotated[
        Path | None,
        typer.Option(
            "--reproduce",
            metavar="FOLDER",
            help="Write the operator, its inputs and a script that shows the difference without opbridge.",
            show_default=False,
        ),
    ] = None,
    rtol: RtolOption = None,
    atol: AtolOption = None,
    limit_seconds: SecondsOption = None,
    limit_gigabytes: GigabytesOption = None,
    as_json: JsonOption = False,
) -> Answer:
    """Find the first operator that differs: from PyTorch, between files, runtimes or optimization levels.

    Each run fetches few intermediate values and rules out half of the operators. The operator that is found runs alone
    on the same inputs, which shows whether it is the cause. Files run in separate processes.
    """
    import opbridge

    limits = isolation(True, limit_seconds, limit_gigabytes)
    options = given_options(rtol=rtol, atol=atol, isolated=limits, reproduce=reproduce, inputs=inputs, against=against)
    options |= {"runtime": runtime, "optimization": optimization}
    if other is None or other.endswith(".onnx"):
        found = opbridge.bisect(model, other, **options)
    else:
        subject = load_subject(other)
        if not isinstance(subject, Subject):
            raise UsageError(f"{other} returns several models. Give the SPEC of the one that the file was made from.")
        found = opbridge.bisect(model, subject.model, subject.args, subject.keywords.get("kwargs"), **options)
    return Answer(found.to_json(), lambda screen: print_plain(screen, str(found)), found.ok)


@app.command()
def compare(
    first: Annotated[
        Path, typer.Argument(metavar="A.onnx", help="The file whose outputs are expected.", show_default=False)
    ],
    second: Annotated[Path, typer.Argument(metavar="B.onnx", help="The other file.", show_default=False)],
    inputs: _InputsOption = None,
    runtime: _RuntimeOption = "onnxruntime",
    against: _AgainstOption = None,
    optimization: _LevelOption = "all",
    rtol: RtolOption = None,
    atol: AtolOption = None,
    limit_seconds: SecondsOption = None,
    limit_gigabytes: GigabytesOption = None,
    as_json: JsonOption = False,
) -> Answer:
    """Compare two ONNX files on the same inputs, output by output, with the tolerances of verify.

    Without --inputs, the inputs are random, of the types that the first file declares, and of several sizes where its
    dimensions are dynamic.
    """
    import opbridge

    limits = isolation(True, limit_seconds, limit_gigabytes)
    options = given_options(rtol=rtol, atol=atol, isolated=limits, inputs=inputs, against=against)
    found = opbridge.compare(first, second, runtime=runtime, optimization=optimization, **options)
    return Answer(found.to_json(), lambda screen: print_plain(screen, str(found)), found.ok)


@app.command()
def extract(
    model: Annotated[Path, typer.Argument(metavar="MODEL.onnx", help="Any ONNX file.", show_default=False)],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The file to write. Without it, no file is written.")
    ] = None,
    node: Annotated[
        list[str] | None,
        typer.Option(
            "--node",
            metavar="NAME",
            help="A node, by its name or by one of its outputs. May be repeated.",
            show_default=False,
        ),
    ] = None,
    from_: Annotated[
        list[str] | None,
        typer.Option(
            "--from",
            metavar="NAME",
            help="A value that the part begins with, or a node, whose inputs it begins with. May be repeated.",
            show_default=False,
        ),
    ] = None,
    to: Annotated[
        list[str] | None,
        typer.Option(
            "--to",
            metavar="NAME",
            help="A value that the part ends with, or a node, whose outputs it ends with. May be repeated.",
            show_default=False,
        ),
    ] = None,
    as_json: JsonOption = False,
) -> Answer:
    """Extract a part of a model as a file of its own: some nodes, or all between values.

    Weights, functions, opsets and metadata come with the nodes. Inputs have the types of the file or of shape
    inference.
    """
    import opbridge

    found = opbridge.extract(model, output, node=node or (), from_=from_ or (), to=to or ())
    return Answer(found.document(), lambda screen: _show_part(screen, found))


def _show_part(console: Console, found: Extracted) -> None:
    print_plain(console, found.summary())
    if found.files:
        print_plain(console, f"Written: {', '.join(map(str, found.files))}")
