"""Caches of packages' models as containers of tensors: their parts, what each of them is, and caches made of others.

Which classes are caches, and what they hold, is what the adapters of the packages say; see `cache_adapters`.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

import torch
from torch.utils import _pytree as pytree

from opbridge.base.locks import process_state
from opbridge.base.torch_private import torch_tracing
from opbridge.model_support.cache_adapters import CacheAdapter, Part
from opbridge.model_support.registry import supports

__all__ = [
    "Part",
    "is_cache",
    "is_cache_class",
    "notes",
    "of_all_tokens",
    "output_names",
    "part_of",
    "parts",
    "prefix_of",
    "refusal",
    "register",
    "taking_caches",
    "with_tensors",
]


def _adapters() -> Iterator[CacheAdapter]:
    return (each for support in supports() for each in support.caches)


def _adapter(kind: type) -> CacheAdapter | None:
    """The adapter of a class; None for a class that is no cache."""
    if not isinstance(kind, type):  # pytree has functions among its containers, for torch.return_types
        return None
    return next((each for each in _adapters() if each.is_class(kind)), None)


def _adapter_of(cache: Any) -> CacheAdapter:
    found = _adapter(type(cache))
    if found is None:
        raise TypeError(f"{type(cache).__name__} is no cache of a package that is supported")
    return found


def is_cache_class(kind: type) -> bool:
    """Whether a class is one of the caches of packages."""
    return _adapter(kind) is not None


def is_cache(value: Any) -> bool:
    """Whether a value is a cache of a package."""
    return is_cache_class(type(value))


def parts(cache: Any) -> list[tuple[Part, torch.Tensor]]:
    """The tensors of a cache, in order."""
    return list(_adapter_of(cache).parts(cache))


def refusal(cache: Any) -> str:
    """Why a cache cannot be an input; "" for one that can."""
    return _adapter_of(cache).refusal(cache)


def notes(cache: Any) -> tuple[str, ...]:
    """What to say of a cache among the inputs."""
    return _adapter_of(cache).notes(cache)


def with_tensors(cache: Any, values: Sequence[torch.Tensor]) -> Any:
    """A cache like another one, with other tensors in the place of its own, in order."""
    return _unflatten(values, _flatten(cache)[1])


def of_all_tokens(tree: Any) -> Any:
    """Inputs whose caches are as a file takes them, with zeros in the place of tokens that they have dropped.

    Args:
        tree: The inputs. They stay as they are; what has no such cache is given back.
    """
    held = [each for each in pytree.tree_leaves(tree, is_leaf=is_cache) if is_cache(each)]
    whole = {id(each): _adapter_of(each).whole(each) for each in held}
    if all(whole[id(each)] is each for each in held):
        return tree
    return pytree.tree_map(lambda each: whole.get(id(each), each) if is_cache(each) else each, tree, is_leaf=is_cache)


class _Key(pytree.GetAttrKey):
    """The step of a path that leads from a cache to one of its parts."""

    part: Part
    adapter: CacheAdapter

    def __str__(self) -> str:
        return self.part.place


def _key(part: Part, adapter: CacheAdapter) -> _Key:
    key = _Key(part.name("", "").replace(".", "_").strip("_"))
    object.__setattr__(key, "part", part)
    object.__setattr__(key, "adapter", adapter)
    return key


def part_of(path: Sequence[Any]) -> Part | None:
    """The part of a cache that the path of a leaf leads to; None where it leads to no cache."""
    return path[-1].part if path and isinstance(path[-1], _Key) else None


def output_names(structure: Any) -> dict[int, str]:
    """The names of the leaves of a pytree structure that are parts of a cache, by their number."""
    if structure.is_leaf():
        return {}
    if isinstance(structure.context, _Layout):
        return {number: part.name("present", "present") for number, part in enumerate(structure.context.parts)}
    children = structure.children() if callable(getattr(structure, "children", None)) else structure.children_specs
    found: dict[int, str] = {}
    first = 0
    for child in children:
        found.update({first + number: name for number, name in output_names(child).items()})
        first += child.num_leaves
    return found


@dataclass(frozen=True)
class _Layout:
    """What a cache is beside its tensors.

    Attributes:
        kind: Its class.
        parts: What its tensors are.
        structure: What else tells it from others.
        cache: The cache that it was taken from, for what else there is.
    """

    kind: type
    parts: tuple[Part, ...]
    structure: Any
    cache: Any = field(compare=False, repr=False)

    def __deepcopy__(self, memo: Any) -> _Layout:
        return self


def register(kind: type) -> None:
    """Registers a class of caches as a container of pytree's.

    Raises:
        ValueError: It is registered already.
    """
    pytree.register_pytree_node(
        kind,
        _flatten,
        _unflatten,
        serialized_type_name=f"{kind.__module__}.{kind.__qualname__}",
        flatten_with_keys_fn=_flatten_with_keys,
    )


def prefix_of(path: Sequence[Any], parameter: str) -> str:
    """What the names of a cache's tensors begin with in a file: runtimes look for `past_key_values.0.key`.

    Args:
        path: The path of a leaf that is a part of the cache.
        parameter: The name under which the model takes the cache.
    """
    adapter = path[-1].adapter
    is_usual = parameter == adapter.parameter and adapter.earlier_parameters
    return adapter.earlier_parameters[0] if is_usual else parameter


def _with_names_of_now(signature: inspect.Signature, args: Any, kwargs: Any) -> tuple[Any, Any]:
    """The arguments of a function, with a cache that is given under an earlier name as the parameter that it is.

    The models take it among further keyword arguments.
    """
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError:  # which the function itself raises
        return args, kwargs
    found = bound.arguments
    model = found.get("model")
    if model is None:
        model = getattr(getattr(found.get("program"), "capture", None), "model", None)
    given, shapes = found.get("kwargs"), found.get("dynamic_shapes")
    if not isinstance(given, Mapping) or not isinstance(model, torch.nn.Module):
        return args, kwargs
    for adapter in _adapters():
        now = adapter.parameter
        held = {name: given.get(name) for name in adapter.earlier_parameters}
        before = next((name for name, each in held.items() if adapter.is_class(type(each))), None)
        if before is None or now in given:
            continue
        parameters = inspect.signature(model.forward).parameters
        if before in parameters or now not in parameters:
            continue
        for name, value in (("kwargs", given), ("dynamic_shapes", shapes)):
            if isinstance(value, Mapping):
                found[name] = {now if key == before else key: each for key, each in value.items()}
        return bound.args, bound.kwargs
    return args, kwargs


_Function = TypeVar("_Function", bound=Callable[..., Any])

_replaced = contextlib.ExitStack()
_users = 0


def taking_caches(function: _Function) -> _Function:
    """Makes a function see caches in the form of this module also where they were registered in another one.

    transformers registers some of them itself, for torch.export. Its form stays where an ExportedProgram is among the
    arguments, which was made with it.
    """
    signature = inspect.signature(function)

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        if not any(_adapters()):
            return function(*args, **kwargs)
        args, kwargs = _with_names_of_now(signature, args, kwargs)
        given = (*args, *kwargs.values())
        models = (*given, *(each.capture.model for each in given if hasattr(each, "capture")))
        if any(isinstance(each, torch.export.ExportedProgram) for each in models):
            return function(*args, **kwargs)
        with _in_this_form():
            return function(*args, **kwargs)

    return cast(_Function, called)


@contextlib.contextmanager
def _in_this_form() -> Iterator[None]:
    global _users
    with process_state:
        if _users == 0:
            _replaced.enter_context(
                torch_tracing.replaced_containers(is_cache_class, _flatten, _unflatten, _flatten_with_keys)
            )
        _users += 1
    try:
        yield
    finally:
        with process_state:
            _users -= 1
            if _users == 0:
                _replaced.close()


def _flatten(cache: Any) -> tuple[list[torch.Tensor], _Layout]:
    found = parts(cache)
    layout = _Layout(type(cache), tuple(part for part, _ in found), _adapter_of(cache).structure(cache), cache)
    return [tensor for _, tensor in found], layout


def _flatten_with_keys(cache: Any) -> tuple[list[tuple[Any, torch.Tensor]], _Layout]:
    tensors, layout = _flatten(cache)
    adapter = _adapter_of(cache)
    return [(_key(part, adapter), tensor) for part, tensor in zip(layout.parts, tensors, strict=True)], layout


def _unflatten(values: Any, layout: _Layout) -> Any:
    tensors = list(zip(layout.parts, values, strict=True))
    return _adapter_of(layout.cache).with_tensors(layout.cache, tensors)
