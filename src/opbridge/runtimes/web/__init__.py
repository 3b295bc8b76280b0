"""onnxruntime-web: ONNX Runtime as WebAssembly, in Node, with one thread.

package         where the npm package is
node            the Node process that has it loaded
models          what a process with onnxruntime-web has in common with a page of a browser
runner.mjs      what runs in that process
tensors.mjs     tensors and messages, there and in a page
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from opbridge.errors import ModelFileError, RunError
from opbridge.runtimes.web import node, package

__all__ = ["DOMAINS", "INSTALL", "ISOLATED", "KERNELS", "NAME", "TITLE", "load", "version"]

NAME = "web"
TITLE = "onnxruntime-web in Node"
INSTALL = package.install_command()
ISOLATED = True
KERNELS = False
DOMAINS = ("ai.onnx.ml", "com.microsoft")
"""Domains of which it has operators."""

version = package.version


class _Session:
    """The model that the Node process has loaded."""

    def __init__(self, process: node.Node, number: int) -> None:
        self._process, self._number = process, number

    def run(self, feeds: Mapping[str, np.ndarray]) -> list[Any]:
        return self._process.run(self._number, feeds)


def load(model: str | bytes) -> _Session:
    """Loads a model; see `opbridge.runtimes.Runtime`. The process has the model that was loaded last."""
    process = node.shared()
    try:
        return _Session(process, process.load(model))
    except RunError as error:
        raise ModelFileError(f"onnxruntime-web {version()} cannot load the model: {error}") from error
