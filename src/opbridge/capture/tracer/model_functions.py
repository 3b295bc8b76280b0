"""The Python functions of a model, which are rewritten while it is captured: see `number_calls`."""

from __future__ import annotations

import contextlib
import functools
import sys
import types
from collections.abc import Iterator
from typing import Any

import torch

__all__ = ["OTHER_PACKAGES", "functions_of"]

OTHER_PACKAGES = frozenset(
    {"torch", "opbridge", "builtins", "numpy", "sympy", "onnx", "onnx_ir", "onnxscript", "onnxruntime"}
    | {"pytest", "_pytest", "pluggy", "IPython", "matplotlib", "pandas", "scipy", "sklearn", "PIL", "tqdm", "rich"}
    | {"huggingface_hub", "datasets", "tokenizers", "safetensors", "requests", "yaml", "wandb"}
)
"""These packages are no part of a model: torch and what exports, and what scripts that have a model often import."""

_OF_TORCH: tuple[Any, ...] = (torch.nn.utils.rnn.pack_sequence,)
"""Functions of torch that have comprehensions over the lists that they are given, and count as the model's."""

_CACHED = functools._lru_cache_wrapper


def functions_of(module: torch.nn.Module, everywhere: bool) -> Iterator[types.FunctionType]:
    """The functions of a model, each once.

    Args:
        module: The model.
        everywhere: Whether they are those of all loaded Python modules of the model's packages, and of the packages
            that functions beside its classes name and that its attributes are objects of, and not those of the classes
            of its submodules alone.
    """
    seen: set[int] = set()
    kinds = {kind for each in module.modules() for kind in type(each).__mro__}
    own = [kind for kind in kinds if kind.__module__.partition(".")[0] not in OTHER_PACKAGES | {"opbridge"}]
    wrapped = [kind for kind in kinds if kind.__module__.startswith("opbridge.")]  # around a model that is a function
    found = [each for kind in (*own, *wrapped) for value in list(vars(kind).values()) for each in _within(value, seen)]
    yield from found
    if not everywhere:
        return
    yield from _OF_TORCH
    attributes = [value for each in module.modules() for value in vars(each).values()]
    held = [inner for value in attributes for inner in _within(value, seen)]
    yield from held
    captured = [value for function in (*found, *held) for value in _captured(function)]
    paths = {each.__module__ for each in (*own, *wrapped, *found, *held) if each.__module__ is not None}
    paths |= {_path(value) for value in (*attributes, *captured)}
    packages = _of_models({path.partition(".")[0] for path in paths})
    of_packages = [each for path in _loaded(packages) for each in _defined(path, seen)]
    yield from of_packages
    naming = [each for each in (*found, *held, *of_packages) if each.__module__ in paths]
    for path in _loaded(_of_models(_named_packages(naming)) - packages):
        yield from _defined(path, seen)


def _loaded(packages: set[str]) -> list[str]:
    """The Python modules of some packages."""
    return [path for path in list(sys.modules) if path.partition(".")[0] in packages]


def _defined(path: str, seen: set[int]) -> Iterator[types.FunctionType]:
    """The functions that a Python module defines, and its classes."""
    loaded = sys.modules.get(path)
    for value in list(vars(loaded).values()) if isinstance(loaded, types.ModuleType) else ():
        if isinstance(value, type) and value.__module__ == path:
            for inner in list(vars(value).values()):
                yield from _within(inner, seen)
        elif getattr(value, "__module__", None) == path and not isinstance(value, type):
            yield from _within(value, seen)


def _named_packages(functions: list[types.FunctionType]) -> set[str]:
    """The packages of what these functions name of their globals."""
    named = ((function.__globals__, name) for function in functions for name in _names(function.__code__))
    return {_path(names[name]).partition(".")[0] for names, name in named if name in names}


def _path(value: Any) -> str:
    """The name of a Python module, or of that of a function, a class, an object's class, or a method's object."""
    if isinstance(value, types.ModuleType):
        return str(vars(value).get("__name__"))
    if type(value) is functools.partial:
        value = value.func
    if type(value) is types.MethodType:
        value = value.__self__
    return str((value if isinstance(value, type | types.FunctionType) else type(value)).__module__)


def _names(code: types.CodeType) -> Iterator[str]:
    """The names of globals and attributes in a function, and in those within it."""
    yield from code.co_names
    for each in code.co_consts:
        if isinstance(each, types.CodeType):
            yield from _names(each)


def _of_models(packages: set[str]) -> set[str]:
    """Packages without Python's own and those of no model."""
    return packages - OTHER_PACKAGES - sys.stdlib_module_names | {"__main__"} & packages


def _within(value: Any, seen: set[int]) -> Iterator[types.FunctionType]:
    """A function, and those that it is wrapped around, of the model."""
    # By type alone: a package that is to be imported at its first use has attributes of every name.
    if type(value) in (staticmethod, classmethod, types.MethodType):
        value = value.__func__
    elif type(value) in (functools.partial, property):
        value = value.func if type(value) is functools.partial else value.fget
    if type(value) not in (types.FunctionType, _CACHED) or id(value) in seen:
        return
    seen.add(id(value))
    yield from _within(vars(value).get("__wrapped__"), seen)
    if type(value) is _CACHED:
        return
    if str(value.__globals__.get("__name__", "")).partition(".")[0] not in OTHER_PACKAGES:
        yield value
    for captured in _captured(value):
        yield from _within(captured, seen)


def _captured(function: types.FunctionType) -> Iterator[Any]:
    """The variables of functions around it that a function uses."""
    for cell in function.__closure__ or ():
        with contextlib.suppress(ValueError):  # a cell that is empty
            yield cell.cell_contents
