"""The example inputs of a model: their forms, whether they fit the model, frozen numbers."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy
import torch
from torch.utils import _pytree as pytree

from opbridge.capture.containers import register_containers
from opbridge.errors import UsageError
from opbridge.graph.captured_graph import CapturedGraph

__all__ = [
    "described",
    "distinct",
    "example_inputs",
    "fit_signature",
    "frozen_inputs",
    "leaf_arrays",
    "names_of_tensors",
]


def example_inputs(args: Any, kwargs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The example inputs as a tuple and a dict.

    Raises:
        UsageError: Inputs of a wrong kind.
    """
    if isinstance(args, torch.Tensor):
        args = (args,)
    if isinstance(args, Mapping):
        raise UsageError(
            "args is a mapping. Pass keyword inputs as kwargs=, and a single input that is a dict as a tuple of one: "
            "(inputs,)."
        )
    if not isinstance(args, tuple | list):
        _refuse_array(args, "args")
        raise UsageError(f"args is of type {type(args).__name__}. Give a tensor, or a tuple of example inputs.")
    if kwargs is not None and not isinstance(kwargs, Mapping):
        raise UsageError(f"kwargs is of type {type(kwargs).__name__}. Give a dict of keyword inputs.")
    args, kwargs = tuple(args), dict(kwargs or {})
    register_containers((args, kwargs))
    for leaf in pytree.tree_leaves((args, kwargs)):
        _refuse_array(leaf, "One of the inputs")
    return args, kwargs


def names_of_tensors(names: Sequence[str] | None, args: Any, kwargs: Any) -> Sequence[str] | None:
    """Names for the tensors among the inputs, of names for all inputs.

    Code for the old exporter names every parameter that it passes, also one that is None: that input is none of the
    file's, and neither is its name.

    Args:
        names: What the user gives as `input_names`: as many names as there are tensors, fewer, or one for each leaf of
            the inputs.
        args: Positional example inputs.
        kwargs: Keyword example inputs.
    """
    leaves = pytree.tree_leaves(((args,) if isinstance(args, torch.Tensor) else args, kwargs or {}))
    if names is None or isinstance(names, str) or len(names) != len(leaves):
        return names
    return [name for name, leaf in zip(names, leaves, strict=True) if isinstance(leaf, torch.Tensor)]


def leaf_arrays(args: Any, kwargs: Any) -> list[numpy.ndarray]:
    """The flattened tensor inputs as arrays; none where NumPy lacks the type of one."""
    tensors = [each for each in pytree.tree_leaves((args, kwargs)) if isinstance(each, torch.Tensor)]
    try:
        return [each.detach().cpu().numpy() for each in tensors]
    except (RuntimeError, TypeError):  # bfloat16, a sparse tensor
        return []


def distinct(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The inputs, in which tensors that occur twice are copied: torch.export would make one input of them."""
    seen: set[int] = set()

    def once(tensor: torch.Tensor) -> torch.Tensor:
        if id(tensor) in seen:
            return tensor.detach().clone()
        seen.add(id(tensor))
        return tensor

    copied: tuple[tuple[Any, ...], dict[str, Any]] = pytree.tree_map_only(torch.Tensor, once, (args, kwargs))
    return copied


def _refuse_array(value: Any, what: str) -> None:
    if isinstance(value, numpy.ndarray | numpy.generic):
        raise UsageError(f"{what} is a NumPy {type(value).__name__}. Convert it with torch.as_tensor.")


def fit_signature(module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Checks that the model can be called with the inputs.

    Raises:
        UsageError: There are too many or too few, or one has an unknown name.
    """
    signature = inspect.signature(module.forward)
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        raise UsageError(
            f"The example inputs do not match forward{signature}: {error}. Pass positional inputs in args and "
            "keyword inputs in kwargs."
        ) from None


def described(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """A description of the inputs, for messages: `float32[2, 3], int64[2]`."""
    leaves = [leaf for leaf in pytree.tree_leaves((args, kwargs)) if leaf is not None]
    shown = [_summary(leaf) for leaf in leaves[:6]]
    return ", ".join([*shown, "..."] if len(leaves) > len(shown) else shown) or "none"


def _summary(leaf: Any) -> str:
    if isinstance(leaf, torch.Tensor):
        return f"{str(leaf.dtype).removeprefix('torch.')}{list(leaf.shape)}"
    return repr(leaf)[:40]


def frozen_inputs(graph: CapturedGraph, leaves: list[Any]) -> Iterator[str]:
    """A note about the numbers among the inputs that are constants of the graph."""
    frozen = [
        f"{given.name} = {leaf!r}"
        for given, leaf in zip(graph.inputs, leaves, strict=True)
        if given.is_frozen and type(leaf) in (int, float, complex)
    ]
    if frozen:
        yield (
            f"inputs that are Python numbers become constants in the graph ({', '.join(frozen)}); pass tensors to "
            "keep them as inputs"
        )
