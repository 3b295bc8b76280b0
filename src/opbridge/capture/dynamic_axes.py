"""Dynamic shapes by the names of the graph's inputs, as `dynamic_axes` of torch.onnx.export has them."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from opbridge.errors import UsageError
from opbridge.model_support import caches

__all__ = ["shapes_of_axes"]


def shapes_of_axes(
    dynamic_axes: Mapping[str, Any],
    module: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    input_names: Sequence[str] | None,
) -> dict[str, Any]:
    """`dynamic_shapes` from the `dynamic_axes` of torch.onnx.export.

    Args:
        dynamic_axes: By the name of an input: a dict of dimensions and their names, or a list of dimensions. Entries
            for outputs are ignored, since the sizes of outputs follow from those of the inputs.
        module: The model, as a module.
        args: Positional example inputs.
        kwargs: Keyword example inputs.
        input_names: Names for the inputs; None: the names of the model's parameters.

    Raises:
        UsageError: Axes of another form.
    """
    given = inspect.signature(module.forward).bind(*args, **kwargs).arguments
    paths, _ = pytree.tree_flatten_with_path(dict(given))
    tensors = [path for path, leaf in paths if isinstance(leaf, torch.Tensor)]
    names = list(input_names or [])
    chosen = {
        path: names[position] if position < len(names) else _default_name(path) for position, path in enumerate(tensors)
    }

    def shape(path: Any, leaf: Any) -> Any:
        axes = dynamic_axes.get(chosen.get(path, ""))
        return None if axes is None else _by_dimension(chosen[path], axes)

    return {
        name: [shape(path, leaf) for path, leaf in paths if path[0].key == name]
        if caches.is_cache(value)
        else pytree.tree_map_with_path(shape, {name: value})[name]
        for name, value in given.items()
    }


def _default_name(path: Any) -> str:
    """The name of an input that the user gives none: the parameter, or that of a tensor of a cache."""
    part = caches.part_of(path)
    return str(path[0].key) if part is None else part.name(caches.prefix_of(path, str(path[0].key)), "past")


def _by_dimension(name: str, axes: Any) -> dict[int, str]:
    if isinstance(axes, Mapping) and all(isinstance(key, int) for key in axes):
        return {key: str(value) for key, value in axes.items()}
    if isinstance(axes, (list, tuple)) and all(isinstance(each, int) for each in axes):
        return {each: f"{name}_dim_{each}" for each in axes}
    raise UsageError(
        f"dynamic_axes has {axes!r} for {name}; expected a dict of dimensions and their names, {{0: 'batch'}}, or "
        "a list of dimensions."
    )
