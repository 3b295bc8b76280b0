"""onnxruntime-web as WebAssembly in a page of headless Chromium, with one thread.

page            the Chromium process that has the page open, and what the page is served
page.html       the page, whose fragment names what runs the operators
page.mjs        what runs in it
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from opbridge.errors import ModelFileError, RunError
from opbridge.runtimes.browser import page
from opbridge.runtimes.web import DOMAINS, package

__all__ = ["DOMAINS", "INSTALL", "ISOLATED", "KERNELS", "NAME", "TITLE", "load", "load_for", "version"]

NAME = "browser"
TITLE = "onnxruntime-web in headless Chromium"
INSTALL = f"apt install chromium, and {package.install_command()}"
ISOLATED = True
KERNELS = False


def version() -> str:
    """The version of onnxruntime-web; "" where there is none, or no Chromium."""
    return package.number() if page.chromium() else ""


class _Session:
    """The model that the page has loaded."""

    def __init__(self, opened: page.Page, number: int) -> None:
        self._page, self._number = opened, number

    def run(self, feeds: Mapping[str, np.ndarray]) -> list[Any]:
        return self._page.run(self._number, feeds)


def load(model: str | bytes) -> _Session:
    """Loads a model; see `opbridge.runtimes.Runtime`. The page has the model that was loaded last."""
    return load_for("wasm", model)


def load_for(provider: str, model: str | bytes) -> _Session:
    """Loads a model for what runs its operators: "wasm" or "webgpu".

    Raises:
        ModelFileError: onnxruntime-web refuses it.
    """
    opened = page.shared(provider)
    try:
        return _Session(opened, opened.load(model))
    except RunError as error:
        raise ModelFileError(f"onnxruntime-web {version()} cannot load the model in the browser: {error}") from error
