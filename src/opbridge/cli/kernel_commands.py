"""The commands for kernels: build, new."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from opbridge.cli.answers import Answer
from opbridge.cli.app import app
from opbridge.cli.operator_view import print_build, print_new
from opbridge.cli.options import JsonOption, items
from opbridge.errors import UsageError

__all__ = ["build", "new"]


@app.command()
def build(
    files: Annotated[list[Path], typer.Argument(metavar="FILE.cpp...", help="The kernels.", show_default=False)],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="The library to write.", show_default="beside the first file"),
    ] = None,
    debug: Annotated[bool, typer.Option("-g", help="For a debugger; every index into a tensor is checked.")] = False,
    sanitize: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Sanitizers: address, undefined, leak, thread.")
    ] = None,
    flag: Annotated[
        list[str] | None, typer.Option(metavar="FLAG", help="A further flag for the compiler; repeat it for more.")
    ] = None,
    for_openvino: Annotated[
        bool, typer.Option("--openvino", help="An extension of the installed OpenVINO, which its add_extension takes.")
    ] = False,
    as_json: JsonOption = False,
) -> Answer:
    """Build kernels from C++ into one library that PyTorch and ONNX Runtime load."""
    from opbridge.kernels import build as builder
    from opbridge.kernels import compiler, library, openvino

    settings = compiler.Settings(debug, items(sanitize or []), tuple(flag or ()))
    system = compiler.find_compiler()
    if for_openvino:
        if settings.sanitize or settings.flags:
            raise UsageError("--openvino takes neither --sanitize nor --flag. Leave them out.")
        path = openvino.build(*files, output=output or files[0].with_suffix(f".openvino{system.suffix}"), debug=debug)
        made = {"ok": True, "library": str(path), "bytes": path.stat().st_size}
        return Answer(made, lambda screen: print_build(screen, path, [], None))
    target = output or files[0].with_suffix(system.suffix)
    path = builder.build_parts(files, builder.ADAPTER, output=target, settings=settings)
    preload = system.preload(settings)
    operators = [] if settings.sanitize else [each.schema for each in library.open_library(path).operators]
    document = {"ok": True, "library": str(path), "bytes": path.stat().st_size, "operators": operators}
    if preload is not None:
        document["preload"] = preload
    return Answer(document, lambda screen: print_build(screen, path, operators, preload))


@app.command()
def new(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The operator's name, as my_add.", show_default=False)],
    folder: Annotated[Path, typer.Option("--folder", help="Where to write.")] = Path("."),
    as_json: JsonOption = False,
) -> Answer:
    """Begin an operator of your own: a C++ file, a test and a model, which work as they are."""
    from opbridge.kernels import scaffold

    files = scaffold.create(name, folder)
    document = {"ok": True, "files": [str(file) for file in files]}
    return Answer(document, lambda screen: print_new(screen, files))
