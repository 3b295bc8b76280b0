"""Where the npm package onnxruntime-web is."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from opbridge.kernels.cache import cache_folder

__all__ = ["FOLDER", "find", "install_command", "number", "version"]

FOLDER = "OPBRIDGE_ONNXRUNTIME_WEB"
"""The variable of the environment that names the package's folder."""

_NAME = "onnxruntime-web"
_ENTRY = Path("dist") / "ort.node.min.mjs"


def install_command() -> str:
    """The command that installs it where it is looked for."""
    return f"npm install --prefix {_shortened(_own_folder())} {_NAME}   (Node 18 or newer)"


def find() -> Path | None:
    """The package's folder: the one that `OPBRIDGE_ONNXRUNTIME_WEB` names, one of NODE_PATH, or that of the cache."""
    return next((each for each in _places() if (each / _ENTRY).is_file()), None)


def version() -> str:
    """The version of the package; "" where there is none, or no Node to run it."""
    return number() if shutil.which("node") else ""


def number() -> str:
    """The version of the package, whatever runs it; "" where there is none."""
    folder = find()
    if folder is None:
        return ""
    try:
        return str(json.loads((folder / "package.json").read_text("utf-8"))["version"])
    except (OSError, ValueError, KeyError):
        return ""


def _own_folder() -> Path:
    return cache_folder() / "node"


def _places() -> Iterator[Path]:
    if named := os.environ.get(FOLDER):
        yield Path(named)
        return
    for each in os.environ.get("NODE_PATH", "").split(os.pathsep):
        if each:
            yield Path(each) / _NAME
    yield _own_folder() / "node_modules" / _NAME


def _shortened(path: Path) -> str:
    """The path as a shell takes it, with ~ for the user's folder."""
    try:
        return f"~/{path.relative_to(Path.home())}"
    except ValueError:
        return str(path)
