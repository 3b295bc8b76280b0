"""onnxruntime-web with WebGPU in a page of headless Chromium, on its graphics card in software (SwiftShader).

Operators that the WebGPU provider does not have run in WebAssembly, as in any page.
"""

from __future__ import annotations

from opbridge.runtimes import Loaded, browser

__all__ = ["DOMAINS", "INSTALL", "ISOLATED", "KERNELS", "NAME", "TITLE", "load", "version"]

NAME = "webgpu"
TITLE = "onnxruntime-web with WebGPU in headless Chromium"
INSTALL = browser.INSTALL
ISOLATED = True
KERNELS = False
DOMAINS = browser.DOMAINS

version = browser.version


def load(model: str | bytes) -> Loaded:
    """Loads a model; see `opbridge.runtimes.Runtime`. The page has the model that was loaded last."""
    return browser.load_for("webgpu", model)
