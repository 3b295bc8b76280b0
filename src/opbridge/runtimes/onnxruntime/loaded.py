"""ONNX Runtime behind the protocol of all runtimes: `opbridge.session` has its own, with more options."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnxruntime

from opbridge.runtimes.onnxruntime.loading import session

__all__ = ["DOMAINS", "INSTALL", "ISOLATED", "KERNELS", "NAME", "TITLE", "load", "version"]

NAME = "onnxruntime"
TITLE = "ONNX Runtime"
INSTALL = "pip install onnxruntime"
ISOLATED = False
KERNELS = False
DOMAINS = ("ai.onnx.ml", "com.microsoft")
"""Domains of which it has operators."""


def version() -> str:
    """The version of the package."""
    return str(onnxruntime.__version__)


class _Session:
    """A session on the CPU."""

    def __init__(self, loaded: Any) -> None:
        self._loaded = loaded

    def run(self, feeds: Mapping[str, np.ndarray]) -> list[Any]:
        return list(self._loaded.run(None, dict(feeds)))


def load(model: str | bytes) -> _Session:
    """Loads a model; see `opbridge.runtimes.Runtime`."""
    return _Session(session(model, threads=1))
