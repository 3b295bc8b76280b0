"""The attributes of a model's modules in Python, which forward() may set, and what is in their containers."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import torch

__all__ = ["OWN_ATTRIBUTES", "PythonAttributes"]

OWN_ATTRIBUTES = frozenset(vars(torch.nn.Module()))
"""The attributes that every module has: its mode, its hooks and the tables of its parameters, buffers and modules."""


class PythonAttributes:
    """The attributes of a module and of the modules in it, as they are now, with the elements of their containers.

    Args:
        module: The module.
    """

    def __init__(self, module: torch.nn.Module) -> None:
        modules = list(module.modules())
        self._tables = [
            (table, set(table))
            for each in modules
            if not isinstance(each, torch.jit.ScriptModule)  # which Python cannot add attributes to
            for table in (vars(each), each._parameters, each._buffers, each._modules)
        ]
        self._values = [
            (each, {name: value for name, value in vars(each).items() if name not in OWN_ATTRIBUTES})
            for each in modules
        ]
        self._elements = [
            (container, copy.copy(container))
            for _, values in self._values
            for value in values.values()
            for container in _containers(value, set())
        ]

    def restore(self) -> None:
        """Gives the attributes the values, and containers the elements, that they had; removes new attributes."""
        for table, names in self._tables:
            for name in set(table) - names:
                del table[name]
        for module, values in self._values:
            vars(module).update(values)
        for container, elements in self._elements:
            if not _has_same_elements(container, elements):
                container.clear()
                container.extend(elements) if isinstance(container, list) else container.update(elements)


def _containers(value: Any, seen: set[int]) -> Iterator[Any]:
    """A container and those inside of it, each once."""
    if isinstance(value, list | dict | set) and id(value) not in seen:
        seen.add(id(value))
        yield value
        for each in value.values() if isinstance(value, dict) else value:
            yield from _containers(each, seen)


def _has_same_elements(container: Any, elements: Any) -> bool:
    """Whether a container holds the very objects that it held before."""
    if len(container) != len(elements):
        return False
    if isinstance(container, dict):
        return all(key in container and container[key] is value for key, value in elements.items())
    if isinstance(container, set):
        return container == elements
    return all(one is other for one, other in zip(container, elements, strict=True))
