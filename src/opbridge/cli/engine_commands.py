"""The command for engines of TensorRT-RTX."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from opbridge.base.requirements import require
from opbridge.cli.answers import Answer
from opbridge.cli.app import app
from opbridge.cli.console import print_plain
from opbridge.cli.options import JsonOption, ProfileOption, items

__all__ = ["engine"]


@app.command()
def engine(
    model: Annotated[Path, typer.Argument(metavar="MODEL.onnx", help="Any ONNX file.", show_default=False)],
    output: Annotated[Path, typer.Option("--output", "-o", help="The engine to write.", show_default=False)],
    arch: Annotated[
        list[str] | None,
        typer.Option(
            "--arch",
            metavar="sm_NN",
            help="An architecture of GPUs: sm_75, sm_80, sm_86, sm_89, sm_120 or sm_121. May be repeated, or given as "
            "a list separated by commas.",
            show_default="all that the model can be built for",
        ),
    ] = None,
    profile: ProfileOption = None,
    as_json: JsonOption = False,
) -> Answer:
    """Build a TensorRT-RTX engine of an ONNX file; no GPU is needed.

    OUTPUT.json, beside the engine, states the version, the architectures, the profile and the SHA-256 of the model.
    """
    require("files")
    from opbridge.runtimes import known
    from opbridge.runtimes.tensorrt_rtx.engines import build_engine
    from opbridge.runtimes.tensorrt_rtx.profile import parsed
    from opbridge.save.engines import save_engine

    known.installed("tensorrt-rtx")
    built = build_engine(model, architectures=items(arch or []), profile=parsed(profile or []))
    files = save_engine(built, model, output)
    size = len(built.content)
    document = {"ok": True, "files": [str(files.engine), str(files.description)], "bytes": size, **files.content}
    document["refusing"] = dict(built.refusing)
    lines = [f"engine   {files.engine} ({size:,} B), TensorRT-RTX {built.version}"]
    lines.append(f"for      {', '.join(built.architectures)}")
    lines += [f"not for  {name}: {why}" for name, why in built.refusing.items()]
    for name, ranges in files.content["profile"].items():
        shown = ", ".join(f"{key} {'x'.join(map(str, shape))}" for key, shape in ranges.items())
        lines.append(f"profile  {name}: {shown}")
    lines.append(f"beside   {files.description}")
    return Answer(document, lambda screen: print_plain(screen, "\n".join(lines)))
