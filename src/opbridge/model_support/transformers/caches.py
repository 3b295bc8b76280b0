"""transformers' caches as containers of tensors: their parts, what each of them is, and a cache made of others.

1. The parts of a cache are its tensors, layer by layer: keys and values, convolution states and recurrent states, the
   length of a static layer. Those of an encoder-decoder cache are its decoder's and its encoder's of the first layer,
   then of the second.
2. A layer with a sliding window becomes one that holds all tokens: how many it has seen is a Python number, which an
   exported graph cannot count on. The model's mask applies the window. In the place of tokens that it has dropped there
   are zeros, which the mask hides.
3. A layer without tensors, which the first call fills, has no parts.

Checked on transformers 4.53, 4.54, 4.55, 4.57, 5.0, 5.2, 5.5, 5.23 and 5.24.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

import torch
from torch.utils import _pytree as pytree

from opbridge.base.locks import process_state
from opbridge.base.torch_private import torch_tracing
from opbridge.model_support.transformers.cache_layers import (
    MODULE,
    copied_cache,
    held_by,
    is_filled,
    is_static,
    kinds_of_any_length,
    layers_of,
    others_of,
)

__all__ = [
    "Part",
    "hides_length",
    "holds_others",
    "is_cache",
    "is_cache_class",
    "layers_without_tokens",
    "of_all_tokens",
    "output_names",
    "part_of",
    "parts",
    "prefix_of",
    "register",
    "sliding_layers",
    "taking_caches",
    "with_tensors",
]

# Attributes of a layer that hold one tensor, their names in an ONNX model, and the dimension that grows by each token.
_TENSORS = (
    ("keys", "key", 2),
    ("values", "value", 2),
    ("key_cache", "key", 2),
    ("value_cache", "value", 2),
    ("indexer_keys", "indexer_key", 1),
    ("indexer_position_ids", "indexer_position", 2),
    ("cumulative_length", "length", None),
    ("indexer_cumulative_length", "indexer_length", None),
)
# Attributes of a layer that hold states: tensors by number, or one tensor before transformers has several in a layer.
_STATES = (("conv_states", "conv"), ("recurrent_states", "recurrent"))
_GROUPS = (("self_attention_cache", "decoder"), ("cross_attention_cache", "encoder"))


@dataclass(frozen=True)
class Part:
    """One tensor of a cache.

    Attributes:
        layer: The number of its layer.
        role: What it is: "key", "value", "conv", "recurrent", "length", ...
        group: "decoder" or "encoder" in an encoder-decoder cache; else "".
        number: The number of a state, where a layer may have several.
        attribute: Its attribute in the layer.
        grows: The dimension that is one longer for each token; None where there is none.
    """

    layer: int
    role: str
    group: str
    number: int | None
    attribute: str
    grows: int | None

    @property
    def place(self) -> str:
        """As the end of a Python expression: `.layers[0].keys`, or `.key_cache[0]` where a cache has no layers."""
        cache = next((f".{attribute}" for attribute, group in _GROUPS if group == self.group), "")
        if self.attribute.endswith("_cache"):
            return f"{cache}.{self.attribute}[{self.layer}]"
        number = "" if self.number is None else f"[{self.number}]"
        return f"{cache}.layers[{self.layer}].{self.attribute}{number}"

    @property
    def batch(self) -> int | None:
        """The dimension that is the batch; None where there is none."""
        if self.role == "indexer_position":
            return 1
        return None if self.role in ("length", "indexer_length") else 0

    def name(self, prefix: str, state_prefix: str) -> str:
        """Its name as an input or output of an ONNX model, as optimum and transformers.js name them.

        Args:
            prefix: "past_key_values" or "present": `past_key_values.0.key`, `present.0.decoder.key`.
            state_prefix: "past" or "present": `past_conv.0`.
        """
        if self.role in (role for _, role in _STATES):
            suffix = f".{self.number}" if self.number else ""
            return f"{state_prefix}_{self.role}.{self.layer}{suffix}"
        group = f".{self.group}" if self.group else ""
        return f"{prefix}.{self.layer}{group}.{self.role}"


class _Key(pytree.GetAttrKey):
    """The step of a path that leads from a cache to one of its parts."""

    part: Part

    def __str__(self) -> str:
        return self.part.place


def _key(part: Part) -> _Key:
    key = _Key(part.name("", "").replace(".", "_").strip("_"))
    object.__setattr__(key, "part", part)
    return key


def is_cache_class(kind: type) -> bool:
    """Whether a class is one of transformers' caches."""
    classes = getattr(kind, "__mro__", ())  # pytree has functions among its containers, for torch.return_types
    return any(each.__name__ == "Cache" and each.__module__ == MODULE for each in classes)


def is_cache(value: Any) -> bool:
    """Whether a value is one of transformers' caches."""
    return is_cache_class(type(value))


def parts(cache: Any) -> Iterator[tuple[Part, torch.Tensor]]:
    """The tensors of a cache, in order."""
    if hasattr(cache, "self_attention_cache"):
        groups = [(group, layers_of(getattr(cache, attribute))) for attribute, group in _GROUPS]
    else:
        groups = [("", layers_of(cache))]
    for number in range(max((len(layers) for _, layers in groups), default=0)):
        for group, layers in groups:
            if number < len(layers):
                yield from _parts_of_layer(layers[number], number, group)


def _parts_of_layer(layer: Any, number: int, group: str) -> Iterator[tuple[Part, torch.Tensor]]:
    held, fixed = held_by(layer), is_static(layer)
    starts = not fixed or is_filled(layer)
    for attribute, role, grows in _TENSORS:
        value = held.get(attribute)
        if isinstance(value, torch.Tensor) and starts:
            yield Part(number, role, group, None, attribute, None if fixed else grows), value
    for attribute, role in _STATES:
        states = held.get(attribute)
        for index, value in states.items() if isinstance(states, Mapping) else [(None, states)]:
            if isinstance(value, torch.Tensor):
                yield Part(number, role, group, index, attribute, None), value


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


def hides_length(cache: Any) -> str:
    """Why a cache cannot be an input: a layer whose count of tokens is a Python number that its tensors do not tell.

    Or tensors of a cache of a model's own, which are in none of its layers.
    """
    if others := holds_others(cache):
        return f"it has tensors outside of its layers ({', '.join(others)}), which are not supported"
    for each in _halves(cache):
        if hasattr(getattr(each, "cache_processor", None), "_quantized_keys"):
            return "quantized keys and values are not supported. Use a DynamicCache"
    for number, layer in enumerate(_layers(cache)):
        kind = type(layer).__name__
        if hasattr(layer, "_quantized_keys"):
            return f"layer {number} ({kind}) has quantized keys and values, which are not supported. Use a DynamicCache"
        if hasattr(layer, "cumulative_length_int") or (is_static(layer) and _counts(layer)):
            return (
                f"layer {number} ({kind}) counts its tokens in a Python number, which is not supported. Use a "
                "DynamicCache, which derives the count from the shape of its tensors"
            )
        if _dropped(layer) and type(layer) not in kinds_of_any_length():
            return (
                f"layer {number} ({kind}) has seen {layer.cumulative_length} tokens and keeps the last "
                f"{layer.keys.shape[-2]}, but the number of dropped tokens is a Python number, which is not "
                "supported. Use a cache that keeps all tokens, DynamicCache() without a config: the model's mask "
                "applies the sliding window"
            )
    return ""


def holds_others(cache: Any) -> list[str]:
    """The attributes of a cache with tensors that are in none of its layers, as caches of a model's own have them."""
    return [name for each in _halves(cache) for name in others_of(each)]


def _counts(layer: Any) -> bool:
    """Whether a layer counts its tokens in a Python number."""
    return isinstance(getattr(layer, "cumulative_length", None), int)


def _dropped(layer: Any) -> int:
    """How many tokens a layer has seen and does not hold."""
    if not _counts(layer) or not is_filled(layer):
        return 0
    return cast(int, layer.cumulative_length - layer.keys.shape[-2])


def layers_without_tokens(cache: Any) -> int:
    """How many layers of a cache have dropped tokens of a sliding window."""
    return sum(bool(_dropped(layer)) for layer in _layers(cache))


def of_all_tokens(tree: Any) -> Any:
    """Inputs whose caches hold as many tokens as they have seen, with zeros for those that were dropped.

    Args:
        tree: The inputs. They stay as they are; what has no such cache is given back.
    """
    held = pytree.tree_leaves(tree, is_leaf=is_cache)
    if not any(is_cache(each) and layers_without_tokens(each) for each in held):
        return tree
    return pytree.tree_map(lambda each: _of_all_tokens(each) if is_cache(each) else each, tree, is_leaf=is_cache)


def _of_all_tokens(cache: Any) -> Any:
    made = _copied_cache(cache)
    for layer, changed in zip(_layers(cache), _layers(made), strict=True):
        dropped = _dropped(layer)
        if dropped and type(layer) in kinds_of_any_length():
            changed.keys = torch.nn.functional.pad(layer.keys, (0, 0, dropped, 0))
            changed.values = torch.nn.functional.pad(layer.values, (0, 0, dropped, 0))
    return made


def sliding_layers(cache: Any) -> int:
    """How many layers of a cache have tensors of a sliding window."""
    layers = [layer for layer in _layers(cache) if is_filled(layer)]
    return sum(getattr(layer, "sliding_window", None) is not None for layer in layers)


@dataclass(frozen=True)
class _Layout:
    """What a cache is beside its tensors.

    Attributes:
        kind: Its class.
        parts: What its tensors are.
        layers: The classes of its layers.
        cache: The cache that it was taken from, for what else there is.
    """

    kind: type
    parts: tuple[Part, ...]
    layers: tuple[type, ...]
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


_PARAMETER, _NAMES_BEFORE = "cache", ("past_key_values", "cache_params")
"""The parameter of models that takes a cache since transformers 5.24, and what it was called before."""


def prefix_of(parameter: str) -> str:
    """What the names of a cache's tensors begin with in a file: runtimes look for `past_key_values.0.key`."""
    return _NAMES_BEFORE[0] if parameter == _PARAMETER else parameter


def _with_names_of_now(signature: inspect.Signature, args: Any, kwargs: Any) -> tuple[Any, Any]:
    """The arguments of a function, with a cache that is given under its name before 5.24 as the parameter that it is.

    transformers takes it among further keyword arguments.
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
    if not isinstance(given, Mapping) or not isinstance(model, torch.nn.Module) or _PARAMETER in given:
        return args, kwargs
    before = next((name for name in _NAMES_BEFORE if is_cache(given.get(name))), None)
    if before is None:
        return args, kwargs
    parameters = inspect.signature(model.forward).parameters
    if before in parameters or _PARAMETER not in parameters:
        return args, kwargs
    for name, value in (("kwargs", given), ("dynamic_shapes", shapes)):
        if isinstance(value, Mapping):
            found[name] = {_PARAMETER if key == before else key: each for key, each in value.items()}
    return bound.args, bound.kwargs


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
        if MODULE in sys.modules:
            args, kwargs = _with_names_of_now(signature, args, kwargs)
        given = (*args, *kwargs.values())
        models = (*given, *(each.capture.model for each in given if hasattr(each, "capture")))
        if MODULE not in sys.modules or any(isinstance(each, torch.export.ExportedProgram) for each in models):
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
    found = list(parts(cache))
    return [tensor for _, tensor in found], _Layout(
        type(cache), tuple(part for part, _ in found), tuple(type(layer) for layer in _layers(cache)), cache
    )


def _flatten_with_keys(cache: Any) -> tuple[list[tuple[Any, torch.Tensor]], _Layout]:
    tensors, layout = _flatten(cache)
    return [(_key(part), tensor) for part, tensor in zip(layout.parts, tensors, strict=True)], layout


def _halves(cache: Any) -> list[Any]:
    """The caches of a decoder and an encoder in one cache; any other cache itself."""
    if hasattr(cache, "self_attention_cache"):
        return [getattr(cache, attribute) for attribute, _ in _GROUPS]
    return [cache]


def _layers(cache: Any) -> list[Any]:
    return [layer for each in _halves(cache) for layer in layers_of(each)]


def _unflatten(values: Any, layout: _Layout) -> Any:
    made = _copied_cache(layout.cache)
    for part, value in zip(layout.parts, values, strict=True):
        owner = made
        for attribute, group in _GROUPS:
            if part.group == group:
                owner = getattr(made, attribute)
        layer = layers_of(owner)[part.layer]
        if part.number is None:
            setattr(layer, part.attribute, value)
        else:
            getattr(layer, part.attribute)[part.number] = value
    return made


def with_tensors(cache: Any, values: Sequence[torch.Tensor]) -> Any:
    """A cache like another one, with other tensors in the place of its own, in order."""
    return _unflatten(values, _flatten(cache)[1])


def _copied_cache(cache: Any) -> Any:
    """A cache like another one, whose layers can change without it; their tensors are to be set."""
    made = copied_cache(cache)
    for attribute, _ in _GROUPS if hasattr(cache, "self_attention_cache") else ():
        setattr(made, attribute, _copied_cache(getattr(cache, attribute)))
    return made
