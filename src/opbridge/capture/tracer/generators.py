"""Operators that draw random numbers from a torch.Generator: a graph has none.

1. `torch.randn(size, generator=None)` is an overload of its own (`aten::randn.generator`), which torch cannot call with
   dynamic sizes, nor ONNX be given: the overload without a generator is recorded.
2. The numbers of a generator of the model's own are drawn in the file like any others.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

__all__ = ["left_out"]


def left_out(function: Any, keywords: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    """An operator without its generator, and its keyword arguments without it."""
    return _overload(function), {name: value for name, value in keywords.items() if name != "generator"}


@functools.cache
def _overload(function: Any) -> Any:
    """The overload with the same arguments but for the generator; the same one where that has a default."""
    wanted = [(each.name, str(each.type)) for each in function._schema.arguments if each.name != "generator"]
    for name in function._overloadpacket.overloads():
        other = getattr(function._overloadpacket, name)
        if [(each.name, str(each.type)) for each in other._schema.arguments] == wanted:
            return other
    return function
