"""The runtimes by their names."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Mapping
from typing import Any, Protocol, cast

from opbridge.errors import UsageError
from opbridge.runtimes import Runtime

__all__ = ["BUILDERS", "NAMES", "ONNXRUNTIME", "built", "find", "installed", "label", "obstacle"]

ONNXRUNTIME = "onnxruntime"

NAMES = (ONNXRUNTIME, "openvino", "web", "browser", "webgpu", "mnn", "ncnn", "tensorrt-rtx", "reference")

BUILDERS = ("tensorrt-rtx",)
"""Those that build an engine for a GPU, which this machine need not have: loading a model shows that it builds, and
`obstacle` says why it cannot run."""


class _Builder(Protocol):
    """What the rooms of `BUILDERS` have in addition."""

    def obstacle(self) -> str:
        """Why an engine cannot run on this machine; "" where it can."""

    def built(self, model: str | bytes, feeds: Mapping[str, Any], /) -> tuple[str, str]:
        """As `built` here."""


def find(name: str) -> Runtime:
    """A runtime.

    Raises:
        UsageError: There is none of this name.
    """
    if name not in NAMES:
        near = difflib.get_close_matches(name, NAMES, n=1)
        guess = f" Did you mean '{near[0]}'?" if near else ""
        raise UsageError(f"Unknown runtime '{name}'. The runtimes are: {', '.join(NAMES)}.{guess}")
    return cast(Runtime, importlib.import_module(f"opbridge.runtimes.{name.replace('-', '_')}"))


def installed(name: str) -> Runtime:
    """A runtime that is installed.

    Raises:
        UsageError: It is not, or there is none of this name.
    """
    found = find(name)
    if not found.version():
        raise UsageError(f"The runtime '{name}' ({found.TITLE}) is not installed. Install it with: {found.INSTALL}")
    return found


def label(name: str) -> str:
    """A runtime with its version: "openvino 2026.4.1"."""
    return f"{name} {find(name).version()}"


def obstacle(name: str) -> str:
    """Why an installed runtime runs no model on this machine, though it may load one; "" where it does."""
    return cast(_Builder, find(name)).obstacle() if name in BUILDERS else ""


def built(name: str, model: str | bytes, feeds: Mapping[str, Any]) -> tuple[str, str]:
    """How far one of `BUILDERS` gets with a model in this process.

    Args:
        name: The runtime.
        model: The path of the file, or its content.
        feeds: Its inputs, for those that shapes are computed from.

    Returns:
        "parse" or "build", where it is refused there, with the reason; "partly" where it builds for some GPUs only;
        else "built".
    """
    return cast(_Builder, find(name)).built(model, feeds)
