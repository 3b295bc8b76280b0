"""What the Python modules of a model keep from one call to the next: dicts, and functions with `functools.lru_cache`.

A dict may also be an attribute of an object that such a module has made, as of a decorator that is a class.

A capture would leave tensors without values and symbolic sizes in them, which a later call of the model would find.
"""

from __future__ import annotations

import functools
import sys
import types
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils import _pytree as pytree

from opbridge.base.torch_private import torch_proxies

__all__ = ["PythonCaches"]

_CACHED = functools._lru_cache_wrapper


class PythonCaches:
    """The caches among the names of the Python modules and classes of a model, as they are now.

    Args:
        module: The model.
    """

    def __init__(self, module: torch.nn.Module) -> None:
        values = list(_values(module))
        self._functions = [(each, each.cache_info().misses) for each in values if type(each) is _CACHED]
        tables = [each for value in values for each in (value, *_attributes(value)) if type(each) is dict]
        self._tables = [(each, set(map(id, each.values()))) for each in tables]

    def restore(self) -> None:
        """Empties the caches of functions that were called, and removes what a capture has put into dicts."""
        for function, misses in self._functions:
            if function.cache_info().misses != misses:
                function.cache_clear()
        for table, before in self._tables:
            kept = [
                (key, value)
                for key, value in table.items()
                if id(value) in before or not any(map(_is_of_capture, pytree.tree_leaves((key, value))))
            ]
            if len(kept) < len(table):
                table.clear()  # a symbolic key has no hash after the capture, by which it could be removed
                table.update(kept)


def _is_of_capture(value: Any) -> bool:
    if isinstance(value, torch.nn.Module):
        return any(map(_is_of_capture, (*value.parameters(), *value.buffers())))
    return isinstance(value, (torch_proxies.FakeTensor, torch.SymInt, torch.SymFloat))


def _attributes(value: Any) -> Iterator[Any]:
    """The attributes of an object that a name stands for. Those of a model's modules are kept elsewhere."""
    held = None if isinstance(value, _WITH_OTHER_NAMES) else getattr(value, "__dict__", None)
    if type(held) is dict:
        yield from held.values()


_WITH_OTHER_NAMES = (type, types.ModuleType, torch.nn.Module)
"""What has other names than attributes of its own."""


def _values(module: torch.nn.Module) -> Iterator[Any]:
    """The values of the names of the Python modules that the classes of a model stand in, and of these classes."""
    kinds = {type(each) for each in module.modules()}
    kinds = {kind for kind in kinds if kind.__module__.partition(".")[0] != "torch"}
    for path in {kind.__module__ for kind in kinds}:
        loaded = sys.modules.get(path)
        if loaded is not None:
            yield from (value for name, value in list(vars(loaded).items()) if not name.startswith("__"))
    for kind in kinds:
        yield from (value for name, value in list(vars(kind).items()) if not name.startswith("__"))
