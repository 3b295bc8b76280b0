"""TensorRT-RTX: it parses a model and builds an engine without a GPU, and runs the engine on one that it supports.

wheel        what is installed
profile      the sizes that an engine is built for
building     a model parsed and built
refusals     why it is refused, with the node and the line of the model
engines      an engine built in a process of its own
driver       memory of the GPU, by the driver's library
running      an engine on the GPU
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from opbridge.runtimes.tensorrt_rtx.wheel import version

__all__ = ["DOMAINS", "INSTALL", "ISOLATED", "KERNELS", "NAME", "TITLE", "built", "load", "obstacle", "version"]

NAME = "tensorrt-rtx"
TITLE = "TensorRT-RTX"
INSTALL = "pip install 'opbridge[tensorrt-rtx]'"
ISOLATED = True
KERNELS = False
DOMAINS = ("com.microsoft", "ai.onnx.ml", "TRT")
"""Domains of which it may have operators: its parser goes by their names."""


_MOST_SIZES = 4096
"""An input of more numbers is none that shapes are computed from."""


def load(model: str | bytes, *, profile: Mapping[str, Any] | None = None) -> Any:
    """Parses and builds a model; see `opbridge.runtimes.Runtime`.

    Args:
        model: The file, or its content.
        profile: By the names of dynamic dimensions, the least size, the usual one and the most, as a list.
    """
    from opbridge.runtimes.tensorrt_rtx.building import build
    from opbridge.runtimes.tensorrt_rtx.profile import parsed
    from opbridge.runtimes.tensorrt_rtx.running import Engine

    return Engine(build(model, profile=parsed(profile or {})), model)


def obstacle() -> str:
    """Why an engine cannot run on this machine; "" where it can."""
    from opbridge.runtimes.tensorrt_rtx import running

    return running.obstacle()


def built(model: str | bytes, feeds: Mapping[str, Any]) -> tuple[str, str]:
    """How far a model gets, for all architectures; see `opbridge.runtimes.known.built`."""
    from opbridge.runtimes.tensorrt_rtx.building import attempt
    from opbridge.runtimes.tensorrt_rtx.refusals import explained

    values = {
        name: [int(each) for each in value.ravel()]
        for name, value in feeds.items()
        if isinstance(value, np.ndarray) and value.dtype.kind in "iu" and value.size <= _MOST_SIZES
    }
    found = attempt(model, values=values)
    if found.refusing:
        complaints = next(iter(found.refusing.values()))
        return "partly", f"for {' and '.join(found.refusing)}: {explained(complaints, model)}"
    return found.stage, "" if found.stage == "built" else explained(found.complaints, model)
