"""The leaves of a model's inputs, each with its place among the parameters of `forward`."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

from torch.utils import _pytree as pytree

__all__ = ["named_leaves", "parameters_of", "placed"]


def placed(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[tuple[tuple[int, Any], Any]]:
    """Each input in the order of pytrees, with its place: `(0, position)` or `(1, key)`."""
    yield from (((0, position), value) for position, value in enumerate(args))
    yield from (((1, key), value) for key, value in kwargs.items())


def parameters_of(
    signature: inspect.Signature, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> dict[tuple[int, Any], tuple[str, int | None]]:
    """The parameter that takes each input.

    Args:
        signature: The signature of `forward`.
        args: The positional inputs.
        kwargs: The keyword inputs.

    Returns:
        For `(0, position)` of a positional and `(1, key)` of a keyword input, the name of its parameter, and its number
        among those that `*args` gathers. What `**kwargs` gathers has its own name.

    Raises:
        TypeError: The inputs do not fit the signature.
    """
    found: dict[tuple[int, Any], tuple[str, int | None]] = {}
    bound = signature.bind(*[(0, at) for at in range(len(args))], **{key: (1, key) for key in kwargs})
    for name, value in bound.arguments.items():
        kind = signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_POSITIONAL:
            found |= {place: (name, at) for at, place in enumerate(value)}
        elif kind is inspect.Parameter.VAR_KEYWORD:
            found |= {place: (key, None) for key, place in value.items()}
        else:
            found[value] = (name, None)
    return found


def named_leaves(signature: inspect.Signature, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[tuple[str, Any]]:
    """The leaves of `(args, kwargs)` in their order, each with its place: "ids", "masks[0]", "batch['mask']".

    Raises:
        TypeError: The inputs do not fit the signature.
    """
    parameters = parameters_of(signature, args, kwargs)
    named = []
    for place, value in placed(args, kwargs):
        name, number = parameters[place]
        top = name if number is None else f"{name}[{number}]"
        parts, _ = pytree.tree_flatten_with_path(value)
        named += [(f"{top}{pytree.keystr(path)}", leaf) for path, leaf in parts]
    return named
