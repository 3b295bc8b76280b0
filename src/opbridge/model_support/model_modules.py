"""The modules of Python that a model's classes come from, and the functions that these define."""

from __future__ import annotations

import inspect
import sys
import types
from collections.abc import Iterator
from typing import Any

import torch

__all__ = ["functions_of", "modules_of"]


def modules_of(model: torch.nn.Module) -> set[types.ModuleType]:
    """The modules of Python that define the classes of a model and of its parts."""
    found = {sys.modules.get(type(each).__module__) for each in model.modules()}
    return {each for each in found if each is not None}


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
