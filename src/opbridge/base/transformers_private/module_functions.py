"""The functions that a module of transformers defines, beneath their decorators."""

from __future__ import annotations

import inspect
import types
from collections.abc import Iterator
from typing import Any

__all__ = ["functions_of"]


def functions_of(module: types.ModuleType) -> Iterator[types.FunctionType]:
    """The functions that a module defines, those of its classes too, without what decorators put around them."""
    for value in list(vars(module).values()):
        if getattr(value, "__module__", None) != module.__name__:
            continue
        held: list[Any] = list(vars(value).values()) if isinstance(value, type) else [value]
        for each in held:
            function = inspect.unwrap(each) if callable(each) else each
            if isinstance(function, types.FunctionType):
                yield function
