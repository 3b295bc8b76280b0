"""Where functions are held, under whatever name: in the modules of Python, and in classes and objects.

A module may have imported a function under another name (`from torchvision.ops import batched_nms as suppress`), and
need not be one that a class of the model comes from. So the function itself is looked for in all modules. An installed
module is searched again only when it holds another number of values, since a model is executed many times.

For a time, others are held in their place.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import types
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from opbridge.base.requirements import REQUIREMENTS

__all__ = ["Held", "Place", "holding", "in_modules", "in_objects"]

Held = tuple[Any, str, types.FunctionType]
"""What holds a function, the name that stands for the function there, and the function."""

Place = tuple[Any, str, Any]
"""A class, module or object, the name of an attribute, and the value that it gets."""

_WITHOUT = frozenset({*sys.stdlib_module_names, *REQUIREMENTS, "mpmath", "numpy", "opbridge", "sympy"})
"""Packages that use no package that there is a support for. They have more than half of all modules."""

_FOLDERS = ("site-packages", "dist-packages")


def in_modules(functions: Collection[types.FunctionType]) -> Iterator[Held]:
    """The modules that hold any of some functions."""
    if not functions:
        return
    by_id = {id(each): each for each in functions}
    searched = _searched(frozenset(functions))
    for path, module in tuple(sys.modules.items()):
        if path.partition(".")[0] in _WITHOUT or not _is_module(module):
            continue
        values = vars(module)
        size, names = searched.get(path, (-1, ()))
        if size != len(values):
            names = _names(values, by_id)
            searched[path] = len(values) if _is_installed(values) else -1, names
        for name in names:
            if (function := by_id.get(id(values.get(name)))) is not None:
                yield module, name, function


def in_objects(functions: Collection[types.FunctionType], objects: Iterable[Any]) -> Iterator[Held]:
    """The classes and objects, of those that are given, that hold any of some functions, also as a static method."""
    by_id = {id(each): each for each in functions}
    for each in objects:
        values = vars(each)
        if isinstance(each, type):
            values = {name: _plain(value) for name, value in values.items()}
        for name in _names(values, by_id):
            yield each, name, by_id[id(values[name])]


@contextlib.contextmanager
def holding(places: Collection[Place]) -> Iterator[None]:
    """Within this context, attributes have other values. An inherited one is the class's own meanwhile.

    A module that is imported meanwhile, and takes a function from such a place, has the former one afterwards.
    """
    absent = object()
    kept = [(owner, name, vars(owner).get(name, absent)) for owner, name, _ in places]
    imported = set(sys.modules)
    try:
        for each in places:
            _put(*each)
        yield
    finally:
        for owner, name, value in kept:
            if value is absent:
                delattr(owner, name)
            else:
                _put(owner, name, value)
        former = {
            new: value for (_, _, new), (_, _, value) in zip(places, kept, strict=True) if _is_function(new, value)
        }
        modules = [sys.modules[path] for path in sys.modules.keys() - imported]
        for module, name, new in in_objects(former, filter(_is_module, modules)):
            _put(module, name, former[new])


def _put(owner: Any, name: str, value: Any) -> None:
    """Sets an attribute, whatever an object's own `__setattr__` does."""
    if isinstance(owner, type):
        setattr(owner, name, value)
    else:
        vars(owner)[name] = value


def _is_function(*values: Any) -> bool:
    return all(isinstance(each, types.FunctionType) for each in values)


def _is_module(value: Any) -> bool:
    return isinstance(value, types.ModuleType)


@functools.lru_cache(maxsize=4)
def _searched(functions: frozenset[types.FunctionType]) -> dict[str, tuple[int, tuple[str, ...]]]:
    """By the path of a module, how many values it had when it was searched for functions, and which names had one."""
    return {}


def _plain(value: Any) -> Any:
    return value.__func__ if isinstance(value, staticmethod) else value


def _names(values: Mapping[str, Any], by_id: Mapping[int, types.FunctionType]) -> tuple[str, ...]:
    if by_id.keys().isdisjoint(map(id, values.values())):
        return ()
    return tuple(name for name, value in list(values.items()) if id(value) in by_id)


def _is_installed(values: Mapping[str, Any]) -> bool:
    """Whether a module is one of an installed package, and none that is written now, or a script."""
    file = values.get("__file__")
    return isinstance(file, str) and any(each in file for each in _FOLDERS)
