"""A file that a runtime parses and builds without a GPU, and whether lint says so before."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opbridge import pipeline
from opbridge.errors import OpbridgeError, TargetError, UsageError
from opbridge.rules import lint
from opbridge.runtimes import known
from opbridge.targets import find_target

if TYPE_CHECKING:
    from opbridge.program import Program

__all__ = ["BUILT", "REFUSALS", "Build", "build", "builder_of", "checked_target", "exported_to_build", "version_of"]

BUILT = "built"
"""The outcome of what is built, and not run."""

REFUSALS = ("parse error", "build error")
"""The outcomes of what is refused while it is parsed, or while it is built."""

_FALSE_FINDING = "refused"


@dataclass(frozen=True)
class Build:
    """What a runtime makes of a file.

    Attributes:
        outcome: `BUILT` or one of `REFUSALS`; "refused" where it is built, and lint finds an error in it nevertheless.
        message: Why it is refused, or which GPUs it is not built for.
        cause: "predicted" or "not predicted" where it is refused, "false finding" where lint alone refuses it.
        predicted: The errors that lint finds in the file, each with the line of the model.
    """

    outcome: str
    message: str = ""
    cause: str = ""
    predicted: tuple[str, ...] = ()


def checked_target(target: str | None) -> str | None:
    """The target, as it was given.

    Raises:
        UsageError: There is no such target, or its runtime builds files and is not installed.
    """
    if target is not None:
        find_target(target)
        if (name := target.partition(":")[0]) in known.BUILDERS:
            known.installed(name)
    return target


def builder_of(target: str | None) -> str | None:
    """The installed runtime of a target that builds files without a GPU; None where there is none."""
    name = (target or "").partition(":")[0]
    return name if name in known.BUILDERS and known.find(name).version() else None


def version_of(target: str | None) -> dict[str, str]:
    """The installed version of the runtime of a target that builds files, which the results depend on."""
    name = (target or "").partition(":")[0]
    return {name: known.find(name).version()} if name in known.BUILDERS else {}


def exported_to_build(model: Any, args: tuple[Any, ...], path: Path, **options: Any) -> tuple[Program | None, Path]:
    """Exports a model for a target that builds files, with the file that lint finds errors in where it does.

    Whether lint is right, the builder says.

    Args:
        model: As for `opbridge.export`.
        args: As for `opbridge.export`.
        path: The file to write.
        **options: As for `opbridge.export`, `target` among them.

    Returns:
        The program, None where lint finds errors; and its file.

    Raises:
        OpbridgeError: As `opbridge.export`, but for a TargetError that has a file.
    """
    try:
        return pipeline.export(model, args, path, **options), path
    except TargetError as error:
        if error.file is None:
            raise
        return None, Path(error.file)


def build(runtime: str, model: str | os.PathLike[str] | bytes, feeds: Mapping[str, Any]) -> Build:
    """Builds a file in this process, and asks lint about it.

    Args:
        runtime: One of `known.BUILDERS`, which is the name of its target too.
        model: The path of the file, or its content.
        feeds: Its inputs, for those that shapes are computed from.
    """
    predicted = _predicted(model, runtime)
    content = model if isinstance(model, bytes) else os.fspath(model)
    stage, said = known.built(runtime, content, feeds)
    title = known.find(runtime).TITLE
    if stage in ("parse", "build"):
        cause = "predicted" if predicted else "not predicted"
        return Build(f"{stage} error", f"{title} cannot {stage} the model: {said}", cause, predicted)
    if predicted:
        return Build(_FALSE_FINDING, f"{title} builds the file, but lint: {predicted[0]}", "false finding", predicted)
    return Build(BUILT, f"not built {said}" if said else "")


def _predicted(model: str | os.PathLike[str] | bytes, target: str) -> tuple[str, ...]:
    try:
        found = lint(model, target)
    except UsageError:
        raise
    except OpbridgeError as error:  # the file cannot be read
        return (str(error),)
    errors = [each for each in found if each.severity == "error"]
    places = [f" at {each.place}" if each.place else f" at '{each.node}'" if each.node else "" for each in errors]
    return tuple(dict.fromkeys(f"{each.rule}{at}: {each.message}" for each, at in zip(errors, places, strict=True)))
