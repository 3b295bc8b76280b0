"""Dynamic shapes of caches: the forms in which people write them, as one entry for each tensor.

1. One rule for all layers, `{0: "batch", 2: "past_sequence"}`. It is for keys and values; another tensor of a layer has
   its batch and its length where it has them, and a convolution or recurrent state has no length. In an
   encoder-decoder cache, the names of the encoder's lengths get "encoder_" before them.
2. A rule by what a tensor is, `{"key": ..., "value": ...}`, or by the half of an encoder-decoder cache,
   `{"decoder": ..., "encoder": ...}`.
3. An entry for each layer, in a list or in a dict by number: a rule, a rule by what a tensor is, or the shapes of the
   layer's tensors, `({...}, {...})`.
4. Two lists, of the keys and of the values of all layers; or one list of all tensors in order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from opbridge.errors import UsageError
from opbridge.model_support import caches
from opbridge.model_support.caches import Part

__all__ = ["shapes_of_cache"]

_ROLES = {
    "key": "key",
    "keys": "key",
    "key_cache": "key",
    "value": "value",
    "values": "value",
    "value_cache": "value",
    "conv": "conv",
    "conv_states": "conv",
    "recurrent": "recurrent",
    "recurrent_states": "recurrent",
    "ssm": "recurrent",
    "ssm_states": "recurrent",
    "length": "length",
    "cumulative_length": "length",
}
_GROUPS = {
    "decoder": "decoder",
    "self_attention_cache": "decoder",
    "encoder": "encoder",
    "cross_attention_cache": "encoder",
}

_Parts = list[tuple[Part, torch.Tensor]]


class _Unfit(Exception):
    """A form that does not fit the cache."""


def shapes_of_cache(place: str, cache: Any, shape: Any) -> list[Any]:
    """The shape of each tensor of a cache.

    Args:
        place: The cache as a Python expression.
        cache: The cache.
        shape: Its entry in the dynamic shapes.

    Raises:
        UsageError: The entry has none of the forms.
    """
    parts = caches.parts(cache)
    try:
        found = _of_parts(parts, shape)
    except _Unfit:
        raise UsageError(_explained(place, cache, parts, shape)) from None
    return [found.get(part) for part, _ in parts]


def _of_parts(parts: _Parts, shape: Any) -> dict[Part, Any]:
    """The shapes of parts of a cache, by part."""
    if shape is None:
        return {}
    if _is_rule(shape):
        return {part: _by_rule(part, tensor, shape) for part, tensor in parts}
    if isinstance(shape, Mapping):
        return _of_mapping(parts, shape)
    if isinstance(shape, (tuple, list)):
        return _of_sequence(parts, shape)
    raise _Unfit


def _of_mapping(parts: _Parts, shape: Mapping[Any, Any]) -> dict[Part, Any]:
    found: dict[Part, Any] = {}
    for key, each in shape.items():
        if type(key) is int:
            chosen = [pair for pair in parts if pair[0].layer == key]
        elif key in _GROUPS:
            chosen = [pair for pair in parts if pair[0].group == _GROUPS[key]]
            each = _as_is(each)
        else:
            chosen = [pair for pair in parts if pair[0].role == _ROLES.get(key)]
        if not chosen and each is not None:
            raise _Unfit
        found.update(_of_parts(chosen, each))
    return found


def _of_sequence(parts: _Parts, shape: Sequence[Any]) -> dict[Part, Any]:
    layers = sorted({part.layer for part, _ in parts})
    if _is_keys_and_values(parts, shape, len(layers)):
        chosen = [[pair for pair in parts if pair[0].role == role] for role in ("key", "value")]
        pairs = zip(chosen, shape, strict=True)
        return {part: _exact(each) for of, given in pairs for (part, _), each in zip(of, given, strict=True)}
    if len(layers) == 1 and len(shape) == len(parts) > 1 and all(each is None or _is_rule(each) for each in shape):
        return {part: _exact(each) for (part, _), each in zip(parts, shape, strict=True)}
    if len(shape) == len(layers):
        found: dict[Part, Any] = {}
        for layer, each in zip(layers, shape, strict=True):
            of_layer = [pair for pair in parts if pair[0].layer == layer]
            if isinstance(each, (tuple, list)):
                if len(each) != len(of_layer):
                    raise _Unfit
                found.update({part: _exact(one) for (part, _), one in zip(of_layer, each, strict=True)})
            else:
                found.update(_of_parts(of_layer, each))
        return found
    if len(shape) == len(parts):
        return {part: _exact(each) for (part, _), each in zip(parts, shape, strict=True)}
    raise _Unfit


def _is_keys_and_values(parts: _Parts, shape: Sequence[Any], layers: int) -> bool:
    """Whether a shape is a list for the keys and a list for the values, and not a pair for each of two layers."""
    if len(shape) != 2 or len(parts) != 2 * layers or {part.role for part, _ in parts} != {"key", "value"}:
        return False
    if not all(isinstance(each, (tuple, list)) and len(each) == layers for each in shape):
        return False
    return layers != 2 or not any(isinstance(each, tuple) for each in shape)


def _is_rule(shape: Any) -> bool:
    """Whether a shape is a dict of dimensions."""
    if not isinstance(shape, Mapping):
        return False
    return all(type(key) is int for key in shape) and not any(
        isinstance(each, (Mapping, tuple, list)) for each in shape.values()
    )


class _Exact(dict[int, Any]):
    """A rule whose names are taken as they are."""


def _as_is(shape: Any) -> Any:
    """A shape for one half of an encoder-decoder cache, whose names stay."""
    if _is_rule(shape):
        return _Exact(shape)
    if isinstance(shape, Mapping):
        return {key: _as_is(each) for key, each in shape.items()}
    return [*map(_as_is, shape)] if isinstance(shape, (tuple, list)) else shape


def _exact(shape: Any) -> Any:
    """A shape that is given for one tensor: a dict of dimensions, or a tuple of all of them."""
    if shape is None or _is_rule(shape) or isinstance(shape, (tuple, list)):
        return shape
    raise _Unfit


def _by_rule(part: Part, tensor: torch.Tensor, rule: Mapping[int, Any]) -> dict[int, Any] | None:
    """What a rule for a whole cache says of one of its tensors."""
    found: dict[int, Any] = {}
    for key, dimension in rule.items():
        at = _dimension(part, tensor, key)
        if at is None:
            continue
        if part.group == "encoder" and key != 0 and isinstance(dimension, str) and not isinstance(rule, _Exact):
            dimension = f"encoder_{dimension}"
        found[at] = dimension
    return found or None


def _dimension(part: Part, tensor: torch.Tensor, key: int) -> int | None:
    """The dimension of a tensor that a dimension of keys is; None where it has none.

    Keys are of shape [batch, heads, length, size]. A state has no length, and a static layer has one for all calls.
    """
    if part.role in ("key", "value"):
        return key if part.grows is not None or key % tensor.dim() == 0 else None
    return {0: part.batch, 2: part.grows}.get(key % 4)


def _explained(place: str, cache: Any, parts: _Parts, shape: Any) -> str:
    names = [part.place.lstrip(".") for part, _ in parts]
    held = ", ".join([*names[:4], "..."] if len(names) > 4 else names) or "nothing yet"
    layers = len({part.layer for part, _ in parts})
    halves = any(part.group for part, _ in parts)
    rule = "{0: 'batch', 2: 'past_sequence'}"
    forms = [f"one rule for all layers, {rule}"]
    forms.append(f"{{'decoder': {rule}, 'encoder': {{...}}}}" if halves else "{'key': {...}, 'value': {...}}")
    forms.append(
        f"a list with an entry for each of its {layers} layers, a rule or the shapes of the layer's tensors, "
        "[({...}, {...}), ...]"
    )
    forms.append("a list of all keys' shapes and a list of all values', [[{...}, ...], [{...}, ...]]")
    return (
        f"dynamic_shapes has {shape!r} for {place}, which is a {type(cache).__name__} with {len(parts)} tensors in "
        f"{layers} layers ({held}). Expected {'; '.join(forms[:-1])}; or {forms[-1]}."
    )
