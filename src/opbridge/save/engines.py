"""An engine of TensorRT-RTX beside a JSON file that says what it was built from and for."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import onnx

from opbridge.errors import SaveError
from opbridge.onnx.sink import write_failure
from opbridge.save import staging
from opbridge.save.replacing import Replacement

if TYPE_CHECKING:
    from opbridge.runtimes.tensorrt_rtx.engines import Built

__all__ = ["EngineFiles", "save_engine"]

_CHUNK = 1 << 20


@dataclass(frozen=True)
class EngineFiles:
    """An engine that was saved.

    Attributes:
        engine: The engine's file.
        description: The JSON file beside it.
        content: What that file says.
    """

    engine: Path
    description: Path
    content: dict[str, Any]


def save_engine(built: Built, source: str | os.PathLike[str], path: str | os.PathLike[str]) -> EngineFiles:
    """Writes an engine, and `<path>.json` with what it was built from and for: both, or neither.

    The JSON file has the version of TensorRT-RTX, the architectures, the profile (for each input with dynamic
    dimensions its shapes at the least, the usual and the most), and the SHA-256 of the source, of the files of its
    external data and of the engine.

    Args:
        built: The engine.
        source: The ONNX file that it was built from.
        path: The engine's path. A file there is replaced.

    Raises:
        SaveError: They cannot be written; what stood there before is unchanged.
    """
    target = Path(path)
    beside = target.with_name(f"{target.name}.json")
    for each in (target, beside):
        if each.is_dir():
            raise SaveError(f"Nothing was written: {each} is a folder. Give the path of a file.")
    content = _described(built, Path(source), target)
    try:
        if not target.parent.is_dir():
            raise FileNotFoundError(2, "the folder does not exist", str(target.parent))
        staging.clear_abandoned(target.parent)
        with Replacement(staging.make(target.parent)) as files:
            files.open(target, len(built.content)).write(memoryview(built.content))
            text = json.dumps(content, indent=2).encode() + b"\n"
            files.open(beside, len(text)).write(memoryview(text))
            files.commit()
    except OSError as error:
        raise write_failure(target, error) from error
    return EngineFiles(target, beside, content)


def _described(built: Built, source: Path, target: Path) -> dict[str, Any]:
    data = [source.parent / each for each in _external_data(source)]
    return {
        "format": 1,
        "engine": {"file": target.name, "sha256": hashlib.sha256(built.content).hexdigest()},
        "source": {"file": source.name, "sha256": _sha256(source)},
        "external_data": [{"file": each.name, "sha256": _sha256(each)} for each in data if each.is_file()],
        "tensorrt_rtx": built.version,
        "architectures": list(built.architectures),
        "profile": {name: _range(each) for name, each in built.shapes.items()},
        "values": {name: _range(each) for name, each in built.values.items()},
    }


def _range(each: Sequence[Sequence[int]]) -> dict[str, list[int]]:
    return {name: list(one) for name, one in zip(("min", "opt", "max"), each, strict=True)}


def _external_data(source: Path) -> list[str]:
    """The files that hold weights of a model, as it names them."""
    graph = onnx.load(source, load_external_data=False).graph
    named = (entry.value for each in graph.initializer for entry in each.external_data if entry.key == "location")
    return sorted(set(named))


def _sha256(path: Path) -> str:
    found = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_CHUNK):
            found.update(block)
    return found.hexdigest()
