"""The forms in which people write dynamic shapes of containers and of `*args`, as the one that torch.export takes.

1. Shapes by position may name what `*args` gathers one by one: `({0: "batch"}, {0: "batch"})` for `forward(*inputs)`.
2. A dict of dimensions in the place of a container stands for each tensor in it.
3. Tuples and lists are the same.
4. A container of a class of its own has an entry for each of its parts, in their order or in a dict by name; one with
   two lists, of keys and values, also a pair for each layer. Caches: see `cache_shapes`.
5. A tensor may be called what it is called in the ONNX file, `inputs_0` of `*inputs`, or what the user calls it there.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from opbridge.capture.cache_shapes import shapes_of_cache
from opbridge.capture.input_names import input_names
from opbridge.errors import UsageError
from opbridge.model_support import caches

__all__ = ["by_own_names", "by_parameter", "by_tensor", "like"]


def by_parameter(shapes: Sequence[Any], arguments: Mapping[str, Any], parameters: Iterable[Any]) -> Sequence[Any]:
    """Shapes by position with one entry for each parameter, in which those of `*args` stand together.

    Args:
        shapes: Shapes by position.
        arguments: The inputs, by the parameter of `forward`.
        parameters: The parameters, as `inspect.Parameter`.
    """
    gathered = next((each.name for each in parameters if each.kind is inspect.Parameter.VAR_POSITIONAL), None)
    if gathered is None or gathered not in arguments:
        return shapes
    at, count = list(arguments).index(gathered), len(arguments[gathered])
    if len(shapes) == len(arguments) and (count != 1 or _is_for_one_each(shapes[at])):
        return shapes
    if len(shapes) == len(arguments) - 1 + count:
        return [*shapes[:at], tuple(shapes[at : at + count]), *shapes[at + count :]]
    return shapes


def by_tensor(
    shapes: Mapping[str, Any], module: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], known: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Shapes by parameter, where some are given by the name of a tensor in the ONNX file: `inputs_0` of `*inputs`.

    Args:
        shapes: Shapes by name.
        module: The model.
        args: Its positional inputs.
        kwargs: Its keyword inputs.
        known: The inputs, by the names that are parameters.
    """
    arguments = inspect.signature(module.forward).bind(*args, **kwargs).arguments
    gathered = [
        each.name for each in inspect.signature(module.forward).parameters.values() if each.kind is each.VAR_KEYWORD
    ]
    unknown = {
        name for name in shapes if name not in known and not any(name in arguments.get(each, ()) for each in gathered)
    }
    if not unknown:
        return shapes
    in_order = pytree.tree_leaves((args, dict(kwargs)))
    named = {id(leaf): each.name for each, leaf in zip(input_names(module, args, kwargs), in_order, strict=True)}
    if not unknown <= set(named.values()):
        return shapes

    def shape(leaf: Any) -> Any:
        return shapes.get(named[id(leaf)]) if isinstance(leaf, torch.Tensor) and named[id(leaf)] in unknown else None

    others = {name: each for name, each in shapes.items() if name not in unknown}
    for name, argument in arguments.items():
        if name not in others and any(
            isinstance(leaf, torch.Tensor) and named[id(leaf)] in unknown for leaf in pytree.tree_leaves(argument)
        ):
            others[name] = pytree.tree_map(shape, argument)
    return others


def by_own_names(
    shapes: Mapping[Any, Any],
    module: Any,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    own_names: Sequence[str],
) -> Mapping[Any, Any]:
    """Dynamic shapes that go by the names that the user gives the inputs of the graph, by those of the model's.

    Args:
        shapes: Dynamic shapes by name; those by the names of parameters stay as they are.
        module: The model, as a module.
        args: Positional example inputs.
        kwargs: Keyword example inputs.
        own_names: Names for the inputs, which are the flattened tensor inputs in order.
    """
    parameters = set(inspect.signature(module.forward).bind(*args, **kwargs).arguments)
    unknown = [name for name in shapes if name not in parameters and name not in kwargs]
    if not unknown or not set(unknown) <= set(own_names):
        return shapes
    leaves = pytree.tree_leaves((args, dict(kwargs)))
    names = zip(input_names(module, args, kwargs), leaves, strict=True)
    own = dict(zip(own_names, (each.name for each, leaf in names if isinstance(leaf, torch.Tensor)), strict=False))
    return {own.get(name, name) if name in unknown else name: shape for name, shape in shapes.items()}


def like(place: str, argument: Any, shape: Any) -> Any:
    """The shape of an input in the structure of the input.

    Args:
        place: The input as a Python expression.
        argument: The input.
        shape: Its entry in the dynamic shapes.

    Raises:
        UsageError: The input is a container of a class of its own, and the shape is not for its parts.
    """
    if shape is not None and caches.is_cache(argument):
        return shapes_of_cache(place, argument, shape)
    parts, structure = pytree.tree_flatten_with_path(argument, is_leaf=lambda each: each is not argument)
    is_leaf = len(parts) == 1 and not parts[0][0]
    if shape is None or is_leaf:
        return shape
    if _is_dimensions(shape) and not (isinstance(argument, Mapping) and set(shape) == set(argument)):
        return _rebuilt(structure, [_everywhere(part, shape) for _, part in parts])
    if isinstance(argument, Mapping):
        if not isinstance(shape, Mapping):
            return shape
        return {key: like(f"{place}[{key!r}]", argument.get(key), each) for key, each in shape.items()}
    if isinstance(argument, (tuple, list)):
        if not isinstance(shape, (tuple, list)) or len(shape) != len(parts):
            return shape
        given = [
            like(f"{place}[{at}]", part, each) for at, ((_, part), each) in enumerate(zip(parts, shape, strict=True))
        ]
        return _rebuilt(structure, given)
    return [
        like(f"{place}{pytree.keystr(path)}", part, each)
        for (path, part), each in zip(parts, _of_parts(place, argument, parts, shape), strict=True)
    ]


def _is_for_one_each(shape: Any) -> bool:
    """Whether an entry holds the shapes of several tensors, and is not that of one."""
    if not isinstance(shape, (tuple, list)):
        return False
    return all(each is None or isinstance(each, (Mapping, tuple, list)) for each in shape)


def _is_dimensions(shape: Any) -> bool:
    """Whether a shape is a dict of dimensions."""
    if not isinstance(shape, Mapping) or not shape:
        return False
    return all(type(key) is int for key in shape) and not any(
        isinstance(each, (Mapping, tuple, list)) for each in shape.values()
    )


def _everywhere(part: Any, shape: Any) -> Any:
    """A shape for each tensor in a part of a container."""
    if isinstance(part, torch.Tensor):
        return shape
    if caches.is_cache(part):
        return shapes_of_cache("a cache in a container", part, shape)
    parts, structure = pytree.tree_flatten(part, is_leaf=lambda each: each is not part)
    if len(parts) == 1 and parts[0] is part:
        return None
    return _rebuilt(structure, [_everywhere(each, shape) for each in parts])


def _rebuilt(structure: Any, parts: list[Any]) -> Any:
    """Shapes of the parts of a container: a container of Python's as it is, a list for any other."""
    return pytree.tree_unflatten(parts, structure) if structure.type in pytree.BUILTIN_TYPES else parts


def _of_parts(place: str, argument: Any, parts: list[tuple[Any, Any]], shape: Any) -> list[Any]:
    """The shape of each part of a container of a class of its own."""
    names = [_name(path) for path, _ in parts]
    if isinstance(shape, Mapping) and set(shape) <= set(names):
        return [shape.get(name) for name in names]
    if isinstance(shape, (tuple, list)):
        lengths = [len(part) if isinstance(part, list) else None for _, part in parts]
        layers = lengths[0] if len(lengths) == 2 and lengths[0] == lengths[1] else None
        is_pairs = layers == len(shape) and all(isinstance(each, (tuple, list)) and len(each) == 2 for each in shape)
        if is_pairs and (layers != 2 or any(isinstance(each, tuple) for each in shape)):
            return [list(each) for each in zip(*shape, strict=True)]
        if len(shape) == len(parts):
            return list(shape)
    held = ", ".join(
        f"{name} ({len(part)} tensors)" if isinstance(part, list) else name
        for name, (_, part) in zip(names, parts, strict=True)
    )
    form = "[" + ", ".join("[{...}, ...]" if isinstance(part, list) else "{...}" for _, part in parts) + "]"
    raise UsageError(
        f"dynamic_shapes has {shape!r} for {place}, which is a {type(argument).__name__} with the tensors {held}. "
        f"Expected {{0: 'batch'}} for all of its tensors; one entry for each tensor, {form}; or a dict of these by "
        "name."
    )


def _name(path: Any) -> str:
    key = path[-1]
    return str(next((getattr(key, each) for each in ("key", "name", "idx") if hasattr(key, each)), key))
