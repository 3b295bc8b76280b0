"""transformers' caches: their tensors, what each of them is, and a cache made of others.

1. The parts of a cache are its tensors, layer by layer: keys and values, convolution states and recurrent states, the
   length of a static layer. Those of an encoder-decoder cache are its decoder's and its encoder's of the first layer,
   then of the second. Tensors that a cache of a model's own holds by the numbers of layers are states of these.
2. A layer with a sliding window becomes one that holds all tokens: how many it has seen is a Python number, which an
   exported graph cannot count on. The model's mask applies the window. In the place of tokens that it has dropped there
   are zeros, which the mask hides.
3. A layer without tensors, which the first call fills, has no parts.

Checked on transformers 4.53, 4.54, 4.55, 4.57, 5.0, 5.2, 5.5, 5.23 and 5.24.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import torch

from opbridge.model_support.cache_adapters import CacheAdapter, Part
from opbridge.model_support.transformers.cache_layers import (
    MODULE,
    copied_cache,
    held_by,
    is_by_layer,
    is_filled,
    is_static,
    kinds_of_any_length,
    layers_of,
    others_of,
    states_of,
)

__all__ = [
    "ADAPTER",
    "hides_length",
    "holds_others",
    "is_cache_class",
    "layers_without_tokens",
    "notes",
    "parts",
    "sliding_layers",
    "whole",
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


def is_cache_class(kind: type) -> bool:
    """Whether a class is one of transformers' caches."""
    return any(each.__name__ == "Cache" and each.__module__ == MODULE for each in kind.__mro__)


def parts(cache: Any) -> Iterator[tuple[Part, torch.Tensor]]:
    """The tensors of a cache, in order."""
    if hasattr(cache, "self_attention_cache"):
        groups = [(group, getattr(cache, attribute)) for attribute, group in _GROUPS]
    else:
        groups = [("", cache)]
    for number in range(max(_number_of_layers(owner) for _, owner in groups)):
        for group, owner in groups:
            layers = layers_of(owner)
            if number < len(layers):
                yield from _parts_of_layer(layers[number], number, group)
            for attribute, value in states_of(owner, number):
                yield _state_beside_layers(number, group, attribute), value


def _number_of_layers(cache: Any) -> int:
    """How many layers a cache has, or holds tensors for beside its layers."""
    beside = [max(held, default=-1) + 1 if isinstance(held, dict) else len(held) for held in _beside_layers(cache)]
    return max(len(layers_of(cache)), *beside, 0)


def _beside_layers(cache: Any) -> list[Any]:
    """What a cache holds by the numbers of layers beside these."""
    return [held for name in others_of(cache) if is_by_layer(held := getattr(cache, name))]


def _parts_of_layer(layer: Any, number: int, group: str) -> Iterator[tuple[Part, torch.Tensor]]:
    held, fixed = held_by(layer), is_static(layer)
    starts = not fixed or is_filled(layer)
    for attribute, role, grows in _TENSORS:
        value = held.get(attribute)
        if isinstance(value, torch.Tensor) and starts:
            yield _part(number, role, group, None, attribute, None if fixed else grows), value
    for attribute, role in _STATES:
        states = held.get(attribute)
        for index, value in states.items() if isinstance(states, Mapping) else [(None, states)]:
            if isinstance(value, torch.Tensor):
                yield _part(number, role, group, index, attribute, None), value


def _part(layer: int, role: str, group: str, number: int | None, attribute: str, grows: int | None) -> Part:
    cache = next((f".{each}" for each, of in _GROUPS if of == group), "")
    if attribute.endswith("_cache"):
        place = f"{cache}.{attribute}[{layer}]"
    else:
        place = f"{cache}.layers[{layer}].{attribute}" + ("" if number is None else f"[{number}]")
    batch = {"indexer_position": 1, "length": None, "indexer_length": None}.get(role, 0)
    is_state = role in (each for _, each in _STATES)
    return Part(layer, role, group, number, attribute, grows, batch, place, is_state)


def _state_beside_layers(layer: int, group: str, attribute: str) -> Part:
    cache = next((f".{each}" for each, of in _GROUPS if of == group), "")
    role = attribute.removesuffix("_cache").removesuffix("_states").strip("_")
    return Part(layer, role, group, None, attribute, None, 0, f"{cache}.{attribute}[{layer}]", is_state=True)


def hides_length(cache: Any) -> str:
    """Why a cache cannot be an input: a layer whose count of tokens is a Python number that its tensors do not tell.

    Or tensors of a cache of a model's own, which belong to none of its layers.
    """
    held = [(name, getattr(each, name)) for each in _halves(cache) for name in others_of(each)]
    if others := [name for name, each in held if not is_by_layer(each)]:
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


def whole(cache: Any) -> Any:
    """A cache that holds as many tokens as it has seen, with zeros for those that were dropped."""
    if not layers_without_tokens(cache):
        return cache
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


def _halves(cache: Any) -> list[Any]:
    """The caches of a decoder and an encoder in one cache; any other cache itself."""
    if hasattr(cache, "self_attention_cache"):
        return [getattr(cache, attribute) for attribute, _ in _GROUPS]
    return [cache]


def _layers(cache: Any) -> list[Any]:
    return [layer for each in _halves(cache) for layer in layers_of(each)]


def with_tensors(cache: Any, tensors: Sequence[tuple[Part, torch.Tensor]]) -> Any:
    """A cache like another one, with other tensors for its parts."""
    made = _copied_cache(cache)
    for part, value in tensors:
        owner = made
        for attribute, group in _GROUPS:
            if part.group == group:
                owner = getattr(made, attribute)
        held: Any = getattr(owner, part.attribute, None)
        if is_by_layer(held):
            held[part.layer] = value
            continue
        layer = layers_of(owner)[part.layer]
        if part.number is None:
            setattr(layer, part.attribute, value)
        else:
            getattr(layer, part.attribute)[part.number] = value
    return made


def _copied_cache(cache: Any) -> Any:
    """A cache like another one, whose layers can change without it; their tensors are to be set."""
    made = copied_cache(cache)
    for attribute, _ in _GROUPS if hasattr(cache, "self_attention_cache") else ():
        setattr(made, attribute, _copied_cache(getattr(cache, attribute)))
    return made


def notes(cache: Any) -> tuple[str, ...]:
    """What becomes of layers with a sliding window."""
    kind, found = type(cache).__name__, []
    if sliding := sliding_layers(cache):
        found.append(
            f"{sliding} layers of the {kind} use a sliding window; in the file they keep all tokens, and the model's "
            "mask applies the window"
        )
    if dropped := layers_without_tokens(cache):
        found.append(
            f"{dropped} layers of the {kind} have dropped tokens; the example contains zeros for them, which the "
            "model's mask hides"
        )
    return tuple(found)


ADAPTER = CacheAdapter(
    is_class=is_cache_class,
    parts=parts,
    with_tensors=with_tensors,
    structure=lambda cache: tuple(type(layer) for layer in _layers(cache)),
    refusal=hides_length,
    notes=notes,
    whole=whole,
    parameter="cache",  # since transformers 5.24
    earlier_parameters=("past_key_values", "cache_params"),
)
