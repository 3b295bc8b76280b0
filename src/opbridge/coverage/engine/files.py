"""The file of a sweep's results: one JSON document, with each row on a line of its own."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.metadata
import json
import os
import platform
import tempfile
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from opbridge.base import files as base_files
from opbridge.base.version import __version__
from opbridge.errors import SaveError, UsageError

__all__ = ["counted_by", "plain", "read", "versions", "write"]

FORMAT = 1

_LARGEST_BYTES = 1 << 30


def versions(*packages: str) -> dict[str, str]:
    """The versions that results depend on: of opbridge, python, torch, and of packages as far as they are installed."""
    found = {"opbridge": __version__, "python": platform.python_version(), "torch": torch.__version__}
    for name in ("onnx", "onnxruntime", "onnxscript", *packages):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found


def plain(settings: Any) -> dict[str, Any]:
    """A dataclass of settings as JSON has it: lists in the place of tuples."""
    data = dataclasses.asdict(settings)
    return {name: list(value) if isinstance(value, tuple) else value for name, value in data.items()}


def counted_by(order: Sequence[str], outcomes: Iterable[str]) -> dict[str, int]:
    """How often each outcome occurs, in an order; those that do not are left out."""
    counts = Counter(outcomes)
    return {name: counts[name] for name in order if counts[name]}


def write(path: Path, content: Mapping[str, Any], rows: Collection[str]) -> None:
    """Writes a file of results, whole or not at all.

    Args:
        path: The file.
        content: The document.
        rows: The keys whose values are lists, each of whose items stands on a line of its own.

    Raises:
        SaveError: It cannot be written.
    """
    last = list(content)[-1]
    try:
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                # One row a line: a person can search it, and two files can be compared line by line.
                file.write("{\n")
                for name, value in content.items():
                    if name in rows:
                        lines = ",\n".join(json.dumps(each) for each in value)
                        text = f"[\n{lines}\n]"
                    else:
                        text = json.dumps(value, indent=1)
                    file.write(f"{json.dumps(name)}: {text}{'' if name == last else ','}\n")
                file.write("}\n")
            os.chmod(temporary, 0o644)
            os.replace(temporary, path)
        except BaseException:  # an interruption too leaves no half of a file
            os.unlink(temporary)
            raise
    except OSError as error:
        raise SaveError(f"{path} is not writable ({error}). Give another file with -o.") from error


def read(path: str | os.PathLike[str], keys: Collection[str], command: str) -> Mapping[str, Any]:
    """The document that a sweep wrote.

    Args:
        path: The file.
        keys: The keys that such a document has.
        command: The command that writes such files, for the error.

    Raises:
        UsageError: There is no such file, or it is something else.
    """
    if why := base_files.problem(path, _LARGEST_BYTES):
        raise UsageError(f"{path} is not a result file: {why}. Give a file written by {command}.")
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
        known = content["format"] == FORMAT and set(keys) <= content.keys()
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UsageError(f"{path} is not a result file ({error}). Give a file written by {command}.") from error
    if not known:
        raise UsageError(f"{path} has a format other than {FORMAT}. Run the command that wrote it again.")
    return content
