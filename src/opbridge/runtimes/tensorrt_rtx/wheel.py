"""The wheel of TensorRT-RTX that is installed."""

from __future__ import annotations

import importlib.metadata

__all__ = ["version"]

_NAMES = ("tensorrt-rtx-cu13-bindings", "tensorrt-rtx-cu12-bindings")


def version() -> str:
    """The version of the wheel; "" where there is none."""
    for name in _NAMES:
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return ""
