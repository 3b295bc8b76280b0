"""Caches of single models of transformers, which are none of its `Cache` classes: their tensors, and caches made of
others.

1. `xLSTMCache` has three states for each layer, and a tensor that counts tokens.
2. `ReformerDynamicCache` has for each layer the hidden states of all tokens, and the buckets of a layer that hashes. A
   layer that does not has an empty tensor in the place of buckets, which is no part.

Checked on transformers 5.24.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from opbridge.model_support.cache_adapters import CacheAdapter, Part

__all__ = ["ADAPTERS"]


def _is_class(module: str, name: str) -> Callable[[type], bool]:
    path = f"transformers.models.{module}.modeling_{module}"
    return lambda kind: any(each.__name__ == name and each.__module__ == path for each in kind.__mro__)


def _copied(cache: Any, **held: Any) -> Any:
    """A cache like another one that holds other values."""
    made = object.__new__(type(cache))
    vars(made).update(vars(cache) | held)
    return made


def _states(cache: Any) -> Iterator[tuple[Part, torch.Tensor]]:
    for layer, states in cache.rnn_state.items():
        for number, state in enumerate(states):
            place = f".rnn_state[{layer}][{number}]"
            yield Part(layer, "recurrent", "", number, "rnn_state", None, 0, place, True), state
    yield Part(0, "length", "", None, "seqlen_offset", None, None, ".seqlen_offset", False), cache.seqlen_offset


def _with_states(cache: Any, tensors: Sequence[tuple[Part, torch.Tensor]]) -> Any:
    states: dict[int, list[torch.Tensor]] = {layer: [] for layer in cache.rnn_state}
    held: dict[str, Any] = {}
    for part, value in tensors:
        if part.is_state:
            states[part.layer].append(value)
        else:
            held[part.attribute] = value
    return _copied(cache, rnn_state={layer: tuple(each) for layer, each in states.items()}, **held)


_LISTS = (("states_cache", "state", 1), ("buckets_cache", "bucket", -1))


def _buckets_and_states(cache: Any) -> Iterator[tuple[Part, torch.Tensor]]:
    for attribute, role, grows in _LISTS:
        for layer, value in enumerate(getattr(cache, attribute)):
            if value.dim() > 1:
                place = f".{attribute}[{layer}]"
                yield Part(layer, role, "", None, attribute, grows % value.dim(), 0, place, False), value


def _with_buckets_and_states(cache: Any, tensors: Sequence[tuple[Part, torch.Tensor]]) -> Any:
    held = {attribute: list(getattr(cache, attribute)) for attribute, _, _ in _LISTS}
    for part, value in tensors:
        layers = held[part.attribute]
        layers.extend([value.new_empty(0)] * (part.layer + 1 - len(layers)))
        layers[part.layer] = value
    return _copied(cache, **held)


ADAPTERS = (
    CacheAdapter(
        is_class=_is_class("xlstm", "xLSTMCache"),
        parts=_states,
        with_tensors=_with_states,
        parameter="cache",
        earlier_parameters=("cache_params",),
    ),
    CacheAdapter(
        is_class=_is_class("reformer", "ReformerDynamicCache"),
        parts=_buckets_and_states,
        with_tensors=_with_buckets_and_states,
        parameter="past_buckets_states",
    ),
)
