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

from opbridge.runtimes.tensorrt_rtx.wheel import version

__all__ = ["DOMAINS", "INSTALL", "ISOLATED", "KERNELS", "NAME", "TITLE", "load", "obstacle", "version"]

NAME = "tensorrt-rtx"
TITLE = "TensorRT-RTX"
INSTALL = "pip install 'opbridge[tensorrt-rtx]'"
ISOLATED = True
KERNELS = False
DOMAINS = ("com.microsoft", "ai.onnx.ml", "TRT")
"""Domains of which it may have operators: its parser goes by their names."""


def load(model: str | bytes, *, profile: Mapping[str, Any] | None = None) -> Any:
    """Parses and builds a model; see `opbridge.runtimes.Runtime`.

    Args:
        model: The file, or its content.
        profile: By the names of dynamic dimensions, the least size, the usual one and the most.
    """
    from opbridge.runtimes.tensorrt_rtx.building import build
    from opbridge.runtimes.tensorrt_rtx.profile import parsed
    from opbridge.runtimes.tensorrt_rtx.running import Engine

    return Engine(build(model, profile=parsed(profile or {})).engine, model)


def obstacle() -> str:
    """Why an engine cannot run on this machine; "" where it can."""
    from opbridge.runtimes.tensorrt_rtx.building import architectures
    from opbridge.runtimes.tensorrt_rtx.driver import architecture

    found, why = architecture()
    if not found:
        return why
    known = architectures()
    if found not in known:
        return f"TensorRT-RTX {version()} does not support this machine's GPU ({found}); it supports {', '.join(known)}"
    return ""
