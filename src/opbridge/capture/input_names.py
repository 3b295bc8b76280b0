"""The names of a model's inputs in its graph, and their places as Python expressions."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch.utils import _pytree as pytree

__all__ = ["InputName", "input_names"]


class InputName(NamedTuple):
    """What an input is called.

    Attributes:
        name: As a node of the graph: "batch_ids_0".
        place: As a Python expression: `batch['ids'][0]`.
    """

    name: str
    place: str


def input_names(module: torch.nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[InputName]:
    """The names of the leaves of `(args, kwargs)`, in order, after the parameters of `forward`."""
    positional = inspect.signature(module.forward).bind_partial(*args).arguments
    leaves, _ = pytree.tree_flatten_with_path({**positional, **kwargs})
    used: set[str] = set()
    found = []
    for path, _ in leaves:
        name = "_".join(_word(key).lower() for key in path)
        if not name or name[0].isdigit():
            name = f"_{name}"
        unique, count = name, 0
        while unique in used:
            count += 1
            unique = f"{name}_{count}"
        used.add(unique)
        found.append(InputName(unique, f"{path[0].key}{pytree.keystr(path[1:])}"))
    return found


def _word(key: Any) -> str:
    """One step of a path, as a part of a name."""
    for attribute in ("key", "idx", "name"):
        if hasattr(key, attribute):
            return re.sub(r"[^a-zA-Z0-9]", "_", str(getattr(key, attribute)))
    return re.sub(r"[^a-zA-Z0-9]", "_", str(key))
