"""The layers of transformers' caches, and the classes for them that the installed release has.

1. Since 4.54 a cache has a list of layers. Before, it has a list of keys and one of values: what is at one place of
   both is a layer here, `ListedLayer`.
2. Layers with a sliding window that grow came with 4.56, before which all hold all tokens. Layers with recurrent states
   came with 5.5; before, models that have such states bring caches of their own.

What a release has is asked by name, so that a class that it lacks is none of the kinds.

Checked on transformers 4.53, 4.54, 4.55, 4.57, 5.0, 5.2, 5.5 and 5.24.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator, Mapping
from typing import Any

import torch

__all__ = [
    "MODULE",
    "ListedLayer",
    "copied_cache",
    "held_by",
    "is_by_layer",
    "is_filled",
    "is_static",
    "kind",
    "kinds_of_any_length",
    "layers_of",
    "others_of",
    "sliding_kinds",
    "states_of",
]

MODULE = "transformers.cache_utils"
_KEYS, _VALUES = "key_cache", "value_cache"
_FULL, _LINEAR_AND_FULL = "DynamicLayer", "LinearAttentionAndFullAttentionLayer"
_SLIDING = {
    "DynamicSlidingWindowLayer": _FULL,
    "LinearAttentionAndSlidingWindowAttentionLayer": _LINEAR_AND_FULL,
}


def kind(name: str) -> Any:
    """A class of the module of caches by its name; None where the installed release has none."""
    return getattr(sys.modules.get(MODULE), name, None)


def sliding_kinds() -> dict[type, type]:
    """The classes of layers that drop the tokens before a sliding window, with the class that holds all."""
    found = {kind(sliding): kind(full) for sliding, full in _SLIDING.items()}
    return {sliding: full for sliding, full in found.items() if sliding is not None and full is not None}


def kinds_of_any_length() -> dict[type, type]:
    """The classes of layers that can hold all tokens, with the class that does."""
    full = {each: each for each in map(kind, (_FULL, _LINEAR_AND_FULL)) if each is not None}
    return full | sliding_kinds()


class ListedLayer:
    """One layer of a cache that has a list of keys and one of values.

    Args:
        cache: The cache.
        number: The number of the layer.
    """

    def __init__(self, cache: Any, number: int) -> None:
        self._cache, self._number = cache, number

    @property
    def key_cache(self) -> torch.Tensor:
        """The keys."""
        return self._cache.key_cache[self._number]

    @key_cache.setter
    def key_cache(self, value: torch.Tensor) -> None:
        self._cache.key_cache[self._number] = value

    @property
    def value_cache(self) -> torch.Tensor:
        """The values."""
        return self._cache.value_cache[self._number]

    @value_cache.setter
    def value_cache(self, value: torch.Tensor) -> None:
        self._cache.value_cache[self._number] = value

    @property
    def is_static(self) -> bool:
        """Whether it has room for a number of tokens from the start."""
        return hasattr(self._cache, "max_cache_len")

    def held(self) -> dict[str, torch.Tensor]:
        """Its tensors; none for a layer that was left out, which has empty ones without dimensions of its own."""
        found = {_KEYS: self.key_cache, _VALUES: self.value_cache}
        return {name: each for name, each in found.items() if isinstance(each, torch.Tensor) and each.dim() > 1}


def _is_listed(cache: Any) -> bool:
    """Whether a cache has a list of keys and one of values in the place of layers."""
    return "layers" not in vars(cache) and isinstance(vars(cache).get(_KEYS), list)


def layers_of(cache: Any) -> list[Any]:
    """The layers of a cache that is none of an encoder and a decoder."""
    if _is_listed(cache):
        return [ListedLayer(cache, number) for number in range(len(cache.key_cache))]
    return list(getattr(cache, "layers", ()))


def held_by(layer: Any) -> Mapping[str, Any]:
    """The attributes of a layer that hold its tensors, among others."""
    return layer.held() if isinstance(layer, ListedLayer) else vars(layer)


def is_static(layer: Any) -> bool:
    """Whether a layer has room for a number of tokens from the start."""
    return layer.is_static if isinstance(layer, ListedLayer) else hasattr(layer, "max_cache_len")


def is_filled(layer: Any) -> bool:
    """Whether a layer has keys and values."""
    if isinstance(layer, ListedLayer):
        return bool(layer.held())
    return bool(getattr(layer, "is_initialized", getattr(layer, "keys", None) is not None))


def others_of(cache: Any) -> Iterator[str]:
    """The attributes of a cache that hold tensors beside those of its layers, as caches of a model's own have them."""
    for name, value in vars(cache).items():
        values = value.values() if isinstance(value, dict) else value
        held = list(values) if isinstance(values, (list, tuple, type({}.values()))) else [values]
        is_known = name in (_KEYS, _VALUES) and _is_listed(cache)
        if not is_known and any(isinstance(each, torch.Tensor) for each in held):
            yield name


def states_of(cache: Any, number: int) -> Iterator[tuple[str, torch.Tensor]]:
    """The attributes of a cache that hold a tensor for a layer, beside the layers, and the tensor."""
    for name in others_of(cache):
        held = getattr(cache, name)
        if is_by_layer(held):
            value = held.get(number) if isinstance(held, dict) else held[number] if number < len(held) else None
            if isinstance(value, torch.Tensor):
                yield name, value


def is_by_layer(held: Any) -> bool:
    """Whether an attribute of a cache holds tensors by the numbers of layers; a layer without one has none, or `[]`."""
    if isinstance(held, dict) and not all(type(each) is int for each in held):
        return False
    values = held.values() if isinstance(held, dict) else held
    return isinstance(held, list | dict) and all(isinstance(each, torch.Tensor) or not each for each in values)


def copied_cache(cache: Any) -> Any:
    """A cache like another one, whose layers can change without it and take their length from their tensors."""
    made = _copied(cache)
    if _is_listed(cache):
        original = kind("DynamicCache")
        for replacement in (update, get_seq_length):
            name = replacement.__name__
            if getattr(type(cache), name) is getattr(original, name, None):
                setattr(made, name, types.MethodType(replacement, made))
    else:
        made.layers = [_copied_layer(layer) for layer in layers_of(cache)]
    return made


def _copied(value: Any) -> Any:
    made = object.__new__(type(value))
    vars(made).update({name: _apart(each) for name, each in vars(value).items()})
    return made


def _apart(value: Any) -> Any:
    return type(value)(value) if type(value) in (dict, list) else value


def _copied_layer(layer: Any) -> Any:
    made = _copied(layer)
    growing = kinds_of_any_length().get(type(layer)) if is_filled(layer) else None
    if growing is None:
        return made
    made.__class__ = _of_any_length(growing)
    for attribute in ("sliding_window", "cumulative_length", "_sliding_window_tensor"):
        vars(made).pop(attribute, None)
    return made


_made: dict[type, type] = {}


def _of_any_length(growing: type) -> type:
    """A class of layers that takes its length from its tensors, without asking whether they are empty."""
    if growing not in _made:

        def get_seq_length(self: Any, *_: Any, **__: Any) -> Any:
            return self.keys.shape[-2] if is_filled(self) else 0

        _made[growing] = type(
            growing.__name__, (growing,), {"get_seq_length": get_seq_length, "__module__": growing.__module__}
        )
    return _made[growing]


def update(
    self: Any, key_states: torch.Tensor, value_states: torch.Tensor, layer_idx: int, cache_kwargs: Any = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """`DynamicCache.update` of a cache of lists, without asking whether the tensors of a layer are empty."""
    if layer_idx >= len(self.key_cache) or not ListedLayer(self, layer_idx).held():
        return type(self).update(self, key_states, value_states, layer_idx, cache_kwargs)
    for held, new in ((self.key_cache, key_states), (self.value_cache, value_states)):
        held[layer_idx] = torch.cat([held[layer_idx], new], dim=-2)
    return self.key_cache[layer_idx], self.value_cache[layer_idx]


def get_seq_length(self: Any, layer_idx: int = 0) -> Any:
    """`DynamicCache.get_seq_length` of a cache of lists, from the sizes of its tensors alone."""
    is_there = layer_idx < len(self.key_cache) and ListedLayer(self, layer_idx).held()
    return self.key_cache[layer_idx].shape[-2] if is_there else 0
