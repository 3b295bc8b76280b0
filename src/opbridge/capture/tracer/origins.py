"""Where an operator comes from: the lines of the model's code that were running, and the module."""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any

import torch
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

from opbridge.base.sources import Source, of_code

__all__ = ["Origins", "is_the_models"]


class Origins:
    """The lines and the module that are running now.

    Only the code objects and line numbers are noted for each node; the text of a line is read when it is asked for.

    Args:
        module: The model, whose submodules have the paths that are given.
    """

    def __init__(self, module: torch.nn.Module) -> None:
        self._paths: dict[int, list[str]] = {}
        for path, each in module.named_modules(remove_duplicate=False):
            self._paths.setdefault(id(each), []).append(path)
        self._running: list[str] = []
        self._outermost: FrameType | None = None
        self._thread = threading.get_ident()

    def note(self, node: torch.fx.Node) -> None:
        """Writes to a new node where it comes from."""
        node.meta["sources"] = functools.partial(_sources, self._frames())
        node.meta["module_path"] = self._running[-1] if self._running else ""

    def stack(self) -> tuple[Source, ...]:
        """The lines that are running, the innermost first."""
        return _sources(self._frames())

    def _frames(self) -> tuple[tuple[CodeType, int], ...]:
        found: list[tuple[CodeType, int]] = []
        frame: FrameType | None = sys._getframe(2)
        outermost = self._outermost
        while frame is not None and frame is not outermost:
            code = frame.f_code
            if is_the_models(code):
                found.append((code, frame.f_lineno))
            frame = frame.f_back
        return tuple(found)

    @contextmanager
    def following(self) -> Iterator[None]:
        """Within this context, which is around the model's run, the module that runs is known."""
        self._outermost = sys._getframe(2)
        before = register_module_forward_pre_hook(self._enters)
        after = register_module_forward_hook(self._leaves, always_call=True)
        try:
            yield
        finally:
            before.remove()
            after.remove()
            self._outermost = None

    def _enters(self, module: torch.nn.Module, args: Any) -> None:
        paths = self._paths.get(id(module))
        if paths is not None and threading.get_ident() == self._thread:
            self._running.append(paths[0] if len(paths) == 1 else _nearest(paths, self._running))

    def _leaves(self, module: torch.nn.Module, args: Any, result: Any) -> None:
        if id(module) in self._paths and self._running and threading.get_ident() == self._thread:
            self._running.pop()


def _nearest(paths: list[str], running: list[str]) -> str:
    """The path of a module that has several, below the module that calls it."""
    caller = f"{running[-1]}." if running and running[-1] else ""
    return next((path for path in paths if path.startswith(caller)), paths[0])


_known: dict[CodeType, bool] = {}


def is_the_models(code: CodeType) -> bool:
    """Whether a function is of the model, or a library that it uses: not torch's, triton's or opbridge's."""
    known = _known.get(code)
    if known is None:
        known = _known[code] = of_code(code, 0) is not None
    return known


def _sources(frames: tuple[tuple[CodeType, int], ...]) -> tuple[Source, ...]:
    found: Callable[..., Any] = of_code
    return tuple(source for code, line in frames if (source := found(code, line)) is not None)
