"""The commands for kernels: build, new."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from opbridge.cli.answers import Answer
from opbridge.cli.app import app
from opbridge.cli.operator_view import print_build, print_new, print_plugins
from opbridge.cli.options import JsonOption, items
from opbridge.errors import UsageError

__all__ = ["build", "new"]

_BUILTIN_PLUGINS = "opbridge_ops.cpp"
"""What the library of the built-in kernels is named after."""


@app.command()
def build(
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="FILE.cpp...",
            help="The C++ files with the kernels; with --tensorrt, none for the built-in kernels.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="The library to write.", show_default="beside the first file"),
    ] = None,
    debug: Annotated[
        bool, typer.Option("-g", help="Build with debug information and check every index into a tensor.")
    ] = False,
    sanitize: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Build with a sanitizer: address, undefined, leak or thread."),
    ] = None,
    flag: Annotated[
        list[str] | None, typer.Option(metavar="FLAG", help="An additional compiler flag. May be repeated.")
    ] = None,
    arch: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SM,...",
            help="CUDA architectures whose compiled code the library holds, such as sm_80,sm_90; requires NVRTC.",
        ),
    ] = None,
    for_openvino: Annotated[
        bool,
        typer.Option(
            "--openvino", help="Build an extension for the installed OpenVINO, to be loaded with Core.add_extension."
        ),
    ] = False,
    for_tensorrt: Annotated[
        bool,
        typer.Option(
            "--tensorrt",
            help="Build TensorRT plug-ins too, for trtexec --dynamicPlugins or IPluginRegistry::loadLibrary.",
        ),
    ] = False,
    as_json: JsonOption = False,
) -> Answer:
    """Compile C++ kernels into one shared library for PyTorch and ONNX Runtime."""
    from opbridge.kernels import build as builder
    from opbridge.kernels import compiler, copying, library, openvino, tensorrt

    settings = compiler.Settings(debug, items(sanitize or []), tuple(flag or ()), items(arch or []))
    system = compiler.find_compiler()
    files = files or []
    if not files and not for_tensorrt:
        raise UsageError("opbridge build requires a C++ file, such as opbridge build my_add.cpp.")
    if for_openvino and for_tensorrt:
        raise UsageError("--openvino and --tensorrt build different libraries. Leave one of them out.")
    if for_tensorrt:
        name = files[0] if files else Path(_BUILTIN_PLUGINS)
        path = tensorrt.build(*files, output=output or name.with_suffix(f".tensorrt{system.suffix}"), settings=settings)
        operators = () if settings.sanitize else library.open_library(path).operators
        names = {is_plugin: [each.name for each in operators if each.cuda == is_plugin] for is_plugin in (True, False)}
        made = {"ok": True, "library": str(path), "bytes": path.stat().st_size}
        made |= {"plugins": names[True], "without_cuda": names[False]}
        return Answer(made, lambda screen: print_plugins(screen, path, names[True], names[False]))
    if for_openvino:
        if settings.sanitize or settings.flags or settings.architectures:
            raise UsageError("--sanitize, --flag and --arch are not supported with --openvino. Leave them out.")
        path = openvino.build(*files, output=output or files[0].with_suffix(f".openvino{system.suffix}"), debug=debug)
        made = {"ok": True, "library": str(path), "bytes": path.stat().st_size}
        return Answer(made, lambda screen: print_build(screen, path, [], None))
    target = output or files[0].with_suffix(system.suffix)
    made_in_cache = builder.build_parts(files, builder.ADAPTER, settings=settings)
    if not settings.sanitize:
        library.refuse_empty(library.open_library(made_in_cache), files)
    path = copying.copied(made_in_cache, Path(target))
    preload = system.preload(settings)
    schemas = [] if settings.sanitize else [each.schema for each in library.open_library(path).operators]
    document = {"ok": True, "library": str(path), "bytes": path.stat().st_size, "operators": schemas}
    if preload is not None:
        document["preload"] = preload
    return Answer(document, lambda screen: print_build(screen, path, schemas, preload))


@app.command()
def new(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="The name of the operator, for example my_add.", show_default=False)
    ],
    folder: Annotated[Path, typer.Option("--folder", help="The folder to write to.")] = Path("."),
    as_json: JsonOption = False,
) -> Answer:
    """Create a C++ kernel, a test and a model as the starting point of a new operator."""
    from opbridge.kernels import scaffold

    files = scaffold.create(name, folder)
    document = {"ok": True, "files": [str(file) for file in files]}
    return Answer(document, lambda screen: print_new(screen, files))
