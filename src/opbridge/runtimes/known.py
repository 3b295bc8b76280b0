"""The runtimes by their names."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Mapping
from typing import Any, Protocol, cast

from opbridge.errors import UsageError
from opbridge.runtimes import Runtime

__all__ = ["BUILDERS", "NAMES", "ONNXRUNTIME", "ON_DEVICE", "DeviceLost", "built", "find", "installed", "label"]
__all__ += ["obstacle", "split"]

ONNXRUNTIME = "onnxruntime"

NAMES = (ONNXRUNTIME, "cuda", "openvino", "web", "browser", "webgpu", "mnn", "ncnn", "tensorrt-rtx", "reference")

ON_DEVICE = ("cuda",)
"""Those that compute on a GPU, named with its number or without: "cuda", "cuda:1". No limit of memory is set for their
processes, as the driver reserves address space for the memory of all devices."""

BUILDERS = ("tensorrt-rtx",)
"""Those that build an engine for a GPU, which this machine need not have: loading a model shows that it builds, and
`obstacle` says why it cannot run."""


class DeviceLost(Exception):
    """A run after which its process cannot use the device any more."""


class _OnDevice(Protocol):
    """What the rooms of `ON_DEVICE` have in addition."""

    def obstacle(self, device: int = 0) -> str:
        """Why a model cannot run on a device of this machine, as the end of a sentence; "" where it can."""


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
    kind, _ = split(name)
    return cast(Runtime, importlib.import_module(f"opbridge.runtimes.{kind.replace('-', '_')}"))


def split(name: str) -> tuple[str, int]:
    """The name of a runtime without the number of a device, and that number, which is 0 where there is none.

    Raises:
        UsageError: There is no such runtime, or it has no devices, or that is no number.
    """
    kind, colon, number = str(name).partition(":")
    if kind not in NAMES:
        near = difflib.get_close_matches(kind, NAMES, n=1)
        guess = f" Did you mean '{near[0]}'?" if near else ""
        raise UsageError(f"Unknown runtime '{name}'. The runtimes are: {', '.join(NAMES)}.{guess}")
    if not colon:
        return kind, 0
    if kind not in ON_DEVICE:
        raise UsageError(f"The runtime '{kind}' has no devices, and runtime='{name}' names one. Use runtime='{kind}'.")
    if not (number.isascii() and number.isdigit()):
        raise UsageError(f"runtime='{name}' is invalid; expected the number of a device, as in '{kind}:0'.")
    return kind, int(number)


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
    kind, device = split(name)
    if kind in ON_DEVICE:
        return cast(_OnDevice, find(name)).obstacle(device)
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
