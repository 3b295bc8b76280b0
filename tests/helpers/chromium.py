"""Opens pages in headless Chromium: the system's own, driven by playwright, which brings none."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["Opened", "browser", "opened", "why_not"]

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def _program() -> str | None:
    return next(filter(None, map(shutil.which, _NAMES)), None)


def why_not() -> str:
    """Why no page can be opened here; "" where one can."""
    try:
        import playwright.sync_api  # noqa: F401
    except ImportError:
        return "playwright is not installed"
    return "" if _program() else "there is no chromium: apt-get install chromium"


@contextlib.contextmanager
def browser() -> Iterator[Any]:
    """A browser, until the context ends."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        flags = ["--no-sandbox"] if os.geteuid() == 0 else []
        running = playwright.chromium.launch(executable_path=_program(), args=flags)
        try:
            yield running
        finally:
            running.close()


@dataclass
class Opened:
    """A page that is open.

    Attributes:
        page: playwright's page.
        errors: What it wrote to the console, and the exceptions of its scripts.
        requests: What it asked a network for.
        seconds: How long it took until it could be used.
    """

    page: Any
    errors: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    seconds: float = 0.0


@contextlib.contextmanager
def opened(running: Any, path: Path, width: int = 1280, height: int = 900, scheme: str = "light") -> Iterator[Opened]:
    """A page in a window of its own, once its scripts have put everything into its place."""
    import time

    context = running.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
    try:
        found = Opened(context.new_page())
        found.page.on("console", lambda message: found.errors.append(f"{message.type}: {message.text}"))
        found.page.on("pageerror", lambda error: found.errors.append(str(error)))
        found.page.on("request", lambda request: _noted(request.url, found.requests))
        start = time.perf_counter()
        found.page.goto(path.absolute().as_uri())
        found.page.wait_for_function("document.documentElement.dataset.ready !== undefined", timeout=60_000)
        found.seconds = time.perf_counter() - start
        yield found
    finally:
        context.close()


def _noted(url: str, into: list[str]) -> None:
    if not url.startswith(("file:", "data:", "blob:", "about:")):
        into.append(url)
