"""Private interfaces of torch.func and torch.autograd: when a transform or a backward pass begins and ends.

Checked on torch 2.13.0 and 2.15.0.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._functorch import eager_transforms, vmap

__all__ = ["around_backward", "around_transforms", "restoring_levels"]

_LEVELS = ("vmap", "grad", "jvp", "func")


@contextlib.contextmanager
def around_transforms(begin: Callable[[], None], end: Callable[[], None]) -> Iterator[None]:
    """Within this context, functions are called before the outermost transform of torch.func begins, and after it."""
    depth = 0

    def begins(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal depth
            if depth == 0:
                begin()
            depth += 1
            return original(*args, **kwargs)

        return call

    def ends(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal depth
            try:
                return original(*args, **kwargs)
            finally:
                depth -= 1
                if depth == 0:
                    end()

        return call

    replaced: list[tuple[Any, str, Any]] = []
    for module in (vmap, eager_transforms):
        for level in _LEVELS:
            for name, wrap in ((f"_{level}_increment_nesting", begins), (f"_{level}_decrement_nesting", ends)):
                if hasattr(module, name):
                    original = getattr(module, name)
                    replaced.append((module, name, original))
                    setattr(module, name, wrap(original))
    try:
        yield
    finally:
        for module, name, original in replaced:
            setattr(module, name, original)
        if depth:
            end()


@contextlib.contextmanager
def around_backward(context: Callable[[], contextlib.AbstractContextManager[Any]]) -> Iterator[None]:
    """Within this context, each pass of autograd's engine runs inside of another context."""
    module: Any = torch.autograd
    original = module._engine_run_backward

    @functools.wraps(original)
    def run(*args: Any, **kwargs: Any) -> Any:
        with context():
            return original(*args, **kwargs)

    module._engine_run_backward = run
    try:
        yield
    finally:
        module._engine_run_backward = original


@contextlib.contextmanager
def restoring_levels() -> Iterator[None]:
    """A context after which torch.func is on the level that it was on before, whatever was raised inside."""
    before = _level()
    try:
        yield
    finally:
        while _level() > before:
            torch._C._functorch.pop_dynamic_layer_stack()


def _level() -> int:
    top = torch._C._functorch.peek_interpreter_stack()
    return 0 if top is None else top.level()
