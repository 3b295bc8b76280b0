"""ONNX Runtime on a GPU, by its execution provider for CUDA; what that has no kernel for runs on the CPU."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnxruntime

from opbridge.errors import RunError
from opbridge.runtimes import known
from opbridge.runtimes.onnxruntime import cuda_provider
from opbridge.runtimes.onnxruntime.loading import session
from opbridge.runtimes.onnxruntime.onnxruntime_private import ERRORS
from opbridge.runtimes.onnxruntime.ort_values import BFLOAT16, array_of, value_of

__all__ = ["DOMAINS", "INSTALL", "ISOLATED", "KERNELS", "NAME", "TITLE", "load", "obstacle", "version"]

NAME = "cuda"
TITLE = "ONNX Runtime with CUDA"
INSTALL = cuda_provider.INSTALL
ISOLATED = True
KERNELS = True
DOMAINS = ("ai.onnx.ml", "com.microsoft")
"""Domains of which it has operators."""

_RAISED: tuple[type[Exception], ...] = (RunError, *ERRORS)


def version() -> str:
    """The version of the package, where it is a build with CUDA."""
    return str(onnxruntime.__version__) if cuda_provider.has_provider() else ""


def obstacle(device: int = 0) -> str:
    """Why a model cannot run on a device of this machine, as the end of a sentence; "" where it can."""
    return cuda_provider.obstacle(device)


class _Session:
    """A session on a GPU."""

    def __init__(self, loaded: Any) -> None:
        self._loaded = loaded
        ends = (*loaded.get_inputs(), *loaded.get_outputs())
        self._has_bfloat16 = any(each.type == BFLOAT16 for each in ends)  # which NumPy does not have

    def run(self, feeds: Mapping[str, np.ndarray]) -> list[Any]:
        """All outputs, on the CPU.

        Raises:
            DeviceLost: The process cannot use the GPU any more.
        """
        names = [each.name for each in self._loaded.get_outputs()]
        try:
            if not self._has_bfloat16:
                return list(self._loaded.run(names, dict(feeds)))
            values = self._loaded.run_with_ort_values(names, {name: value_of(each) for name, each in feeds.items()})
        except _RAISED as error:
            message = cuda_provider.with_explanation(str(error))
            if cuda_provider.is_fatal(str(error)):
                raise known.DeviceLost(message) from error
            raise RuntimeError(message) from error
        return [array_of(each) for each in values]


def load(model: str | bytes, *kernels: str, device: int = 0) -> _Session:
    """Loads a model; see `opbridge.runtimes.Runtime`.

    Args:
        model: The file, or its content.
        *kernels: Libraries of its kernels.
        device: The number of the GPU.

    Raises:
        UsageError: The GPU is not there, or cannot be used.
    """
    return _Session(session(model, kernels=kernels, providers=cuda_provider.providers(device), threads=1))
