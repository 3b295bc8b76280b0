"""Containers of tensors that torch's pytree does not know by itself, among inputs and outputs.

These are registered where they are met: dataclasses, classes of attrs and pydantic, outputs and caches of packages,
and classes of the user's own that are dicts, lists or tuples. Any other class is the user's to register.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.utils import _pytree as pytree

from opbridge.base.torch_private import torch_tracing
from opbridge.model_support import caches
from opbridge.model_support.registry import supports

__all__ = ["register_containers"]


def register_containers(tree: Any) -> None:
    """Registers the classes of containers among the leaves of a tree with torch.export."""
    torch_tracing.number_keys()
    seen: set[type] = set()
    while True:
        kinds = {type(leaf) for leaf in pytree.tree_leaves(tree)} - seen
        new = {kind: register for kind in kinds if (register := _registration(kind)) is not None}
        if not new:
            return
        seen |= set(new)
        for kind, register in new.items():
            # What cannot be registered stays a leaf, and torch.export reports it.
            with contextlib.suppress(ValueError, TypeError, AssertionError, ImportError):
                register(kind)


def _registration(kind: type) -> Callable[[type], None] | None:
    """How a class is registered; None for one that is no container."""
    if kind.__module__.startswith("torch."):
        return None
    known = (each for support in supports() for each in support.containers if each.is_class(kind))
    if (container := next(known, None)) is not None:
        return container.register
    if dataclasses.is_dataclass(kind):
        return torch.export.register_dataclass
    if caches.is_cache_class(kind):
        return caches.register
    if issubclass(kind, dict | collections.UserDict):
        return _register_mapping
    if issubclass(kind, list | tuple | collections.UserList):
        return _register_sequence
    if hasattr(kind, "__attrs_attrs__"):
        return _register_attrs
    if hasattr(kind, "model_fields") and hasattr(kind, "model_construct"):
        return _register_pydantic
    return None


def _register_mapping(kind: type) -> None:
    make = _dict_of if issubclass(kind, dict) else _user_dict_of
    torch_tracing.register_container(kind, lambda value: (list(value.values()), list(value)), make)


def _register_sequence(kind: type) -> None:
    make = _list_of if issubclass(kind, list) else _sequence_of
    torch_tracing.register_container(kind, lambda value: (list(value), len(value)), make)


def _register_attrs(kind: Any) -> None:
    names = [each.name for each in kind.__attrs_attrs__]
    torch_tracing.register_container(
        kind, lambda value: ([getattr(value, name) for name in names], names), _with_attributes
    )


def _register_pydantic(kind: Any) -> None:
    names = list(kind.model_fields)
    torch_tracing.register_container(
        kind,
        lambda value: ([getattr(value, name) for name in names], names),
        lambda _, items, keys: kind.model_construct(**dict(zip(keys, items, strict=True))),
    )


def _dict_of(kind: Any, values: Iterable[Any], keys: list[Any]) -> Any:
    made = kind.__new__(kind)
    for key, value in zip(keys, values, strict=True):
        made[key] = value
    return made


def _user_dict_of(kind: Any, values: Iterable[Any], keys: list[Any]) -> Any:
    return kind(dict(zip(keys, values, strict=True)))


def _list_of(kind: Any, values: Iterable[Any], length: int) -> Any:
    made = kind.__new__(kind)
    made.extend(values)
    return made


def _sequence_of(kind: Any, values: Iterable[Any], length: int) -> Any:
    return kind(list(values))


def _with_attributes(kind: Any, values: Iterable[Any], names: list[Any]) -> Any:
    made = kind.__new__(kind)
    for name, value in zip(names, values, strict=True):
        object.__setattr__(made, name, value)
    return made
