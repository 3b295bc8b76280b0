"""What an export writes, and where: `f`, `external_data=`, `precision=` and `genai=`."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from opbridge.errors import SaveError
from opbridge.precision.formats import find_format
from opbridge.tasks import GenaiFolder

__all__ = ["OutputConfig", "output_config"]


@dataclass(frozen=True)
class OutputConfig:
    """What an export writes.

    Attributes:
        path: The file to write; None: the model stays in memory, or goes to `file`.
        file: The file to write that is open already.
        external_data: Whether weights go to a file beside the model; None: only where one file cannot hold them.
        precision: "float16" or "bfloat16", where the model is cast before it is written.
        genai: What goes beside the file in a folder for onnxruntime-genai; None: it is no such folder.

    Raises:
        UsageError: There is no such precision.
    """

    path: Path | None = None
    file: BinaryIO | None = None
    external_data: bool | None = None
    precision: str | None = None
    genai: GenaiFolder | None = None

    def __post_init__(self) -> None:
        if self.precision is not None:
            find_format(self.precision)

    @property
    def label(self) -> str:
        """What the file is called in messages."""
        return "the model" if self.path is None else str(self.path)


def output_config(
    f: Any, external_data: bool | None, precision: str | None, genai: GenaiFolder | None = None
) -> OutputConfig:
    """What is written, where `f` is a path, a file that is open, or None; or the path of a folder of `genai`.

    Raises:
        SaveError: The path cannot be written, which is said before the work.
        UsageError: There is no such precision.
    """
    if genai is not None:
        _check_writable(genai.path if genai.path.exists() else genai.path.absolute().parent)
        return OutputConfig(genai.path / "model.onnx", None, external_data, precision, genai)
    if f is None or hasattr(f, "write"):
        return OutputConfig(None, f, external_data, precision)
    path = Path(f)
    if path.is_dir():
        raise SaveError(f"{path} is a folder. Give the path of a file, such as {path / 'model.onnx'}.")
    if not path.parent.exists():
        raise SaveError(f"The folder {path.parent} does not exist. Create it, or give another path.")
    _check_writable(path.parent)
    return OutputConfig(path, None, external_data, precision)


def _check_writable(folder: Path) -> None:
    if not os.access(folder, os.W_OK):
        raise SaveError(f"The folder {folder} is not writable. Give another path.")
