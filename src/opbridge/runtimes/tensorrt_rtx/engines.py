"""An engine built in a process of its own, which a damaged model may end."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from opbridge.errors import ModelFileError, RunError
from opbridge.runtimes.child import Child
from opbridge.runtimes.limits import Limits
from opbridge.runtimes.messages import Read
from opbridge.runtimes.onnxruntime.model_file import checked_model
from opbridge.runtimes.serving import Answer, serve, silence
from opbridge.runtimes.tensorrt_rtx.profile import InputSizes, Range
from opbridge.runtimes.tensorrt_rtx.refusals import explained
from opbridge.runtimes.tensorrt_rtx.wheel import version

__all__ = ["Built", "build_engine", "main"]


@dataclass(frozen=True)
class Built:
    """An engine.

    Attributes:
        content: The engine's content, as TensorRT-RTX loads it.
        architectures: What it was built for: "sm_89".
        shapes: The shapes of inputs with dynamic dimensions, at the least, the usual and the most.
        values: The values of inputs that shapes are computed from, likewise.
        version: The version of TensorRT-RTX.
        refusing: By architectures that it could not be built for, why not.
    """

    content: bytes
    architectures: list[str]
    shapes: Mapping[str, InputSizes]
    values: Mapping[str, InputSizes]
    version: str
    refusing: Mapping[str, str] = field(default_factory=dict)


def build_engine(
    model: str | os.PathLike[str],
    *,
    architectures: Sequence[str] = (),
    profile: Mapping[str, Range] | None = None,
    limits: Limits | None = None,
) -> Built:
    """Builds the engine of a file.

    Args:
        model: The file.
        architectures: The architectures of GPUs, "sm_89"; none: all that the model can be built for.
        profile: The ranges of dynamic dimensions, by their names; others have `profile.DEFAULT`.
        limits: What the process may use; None: the limits by default.

    Raises:
        ModelFileError: The file is missing or damaged, or TensorRT-RTX refuses it.
        UsageError: There is no such architecture, or the profile names no dimension of the model.
    """
    path, label = checked_model(model)
    child = Child("opbridge.runtimes.tensorrt_rtx.engines", limits or Limits())
    header = {
        "model": os.path.abspath(path),
        "architectures": list(architectures),
        "profile": {name: list(each) for name, each in (profile or {}).items()},
    }
    try:
        with child.exclusive():
            child.start(header, [])
            answer, read = child.ask({}, [])
            content = bytes(read(answer["size"]))
    except RunError as error:
        raise ModelFileError(f"TensorRT-RTX {version()} cannot build {label}: {error}") from error
    finally:
        child.close()
    return Built(content, answer["architectures"], answer["shapes"], answer["values"], version(), answer["refusing"])


def main() -> None:
    """Builds the model of the first request, and answers the next with the engine."""
    serve(_load, _run)


def _load(asked: Mapping[str, Any], model: str | bytes) -> tuple[Any, dict[str, Any]]:
    from opbridge.runtimes.tensorrt_rtx import building

    silence()
    profile = {name: Range(*each) for name, each in asked["profile"].items()}
    built = building.build(model, profile=profile, asked=asked["architectures"])
    said = {
        "size": len(built.engine),
        "architectures": built.architectures,
        "shapes": built.shapes,
        "values": built.values,
        "refusing": {each: explained(complaints, model) for each, complaints in built.refusing.items()},
    }
    return (built.engine, said), {"loaded": True}


def _run(loaded: Any, asked: Mapping[str, Any], read: Read) -> Answer:
    engine, said = loaded
    return said, [engine]
