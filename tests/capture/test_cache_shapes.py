"""Dynamic shapes of transformers' caches, in the forms in which people write them."""

from __future__ import annotations

import pytest
import torch
from helpers import causal_models
from torch.export import Dim
from transformers import DynamicCache, EncoderDecoderCache

from opbridge.capture.cache_shapes import shapes_of_cache
from opbridge.errors import UsageError

RULE = {0: "batch", 2: "past"}


def _cache(layers):
    cache = DynamicCache()
    for layer in range(layers):
        cache.update(torch.randn(2, 3, 4, 5), torch.randn(2, 3, 4, 5), layer)
    return cache


@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize(
    "form",
    [
        lambda n: RULE,
        lambda n: {"key": RULE, "value": RULE},
        lambda n: {"key_cache": [RULE] * n, "value_cache": [RULE] * n},
        lambda n: [RULE] * n,
        lambda n: [(RULE, RULE)] * n,
        lambda n: tuple((RULE, RULE) for _ in range(n)),
        lambda n: [{"key": RULE, "value": RULE}] * n,
        lambda n: dict.fromkeys(range(n), (RULE, RULE)),
        lambda n: [[RULE] * n, [RULE] * n],
        lambda n: [RULE] * 2 * n,
    ],
)
def test_forms(form, layers):
    assert shapes_of_cache("x", _cache(layers), form(layers)) == [RULE] * 2 * layers


def test_a_rule_is_for_other_tensors_by_what_their_dimensions_are():
    cache = _cache(1)
    if not hasattr(cache, "layers"):
        pytest.skip("the DynamicCache of this transformers has no layers")
    cache.layers[0].indexer_keys = torch.randn(2, 4, 8)
    cache.layers[0].indexer_position_ids = torch.zeros(3, 2, 4)
    cache.layers[0].recurrent_states = {0: torch.randn(2, 6)}
    state = {0: "batch"}
    assert shapes_of_cache("x", cache, RULE) == [RULE, RULE, {0: "batch", 1: "past"}, {1: "batch", 2: "past"}, state]
    assert shapes_of_cache("x", cache, {-2: "past"}) == [{-2: "past"}] * 2 + [{1: "past"}, {2: "past"}, None]


def test_keys_and_values_are_told_apart():
    key, value = {0: "a"}, {0: "b"}
    for shape in ({"key": key, "value": value}, [(key, value)] * 2, [[key, key], [value, value]]):
        assert shapes_of_cache("x", _cache(2), shape) == [key, value] * 2
    assert shapes_of_cache("x", _cache(2), {1: RULE}) == [None, None, RULE, RULE]
    auto = {0: Dim.AUTO, 2: Dim("past", min=0)}
    assert shapes_of_cache("x", _cache(2), auto) == [auto] * 4


def test_an_encoder_decoder_cache():
    cache = EncoderDecoderCache(_cache(1), _cache(1))
    encoder = {0: "batch", 2: "encoder_past"}
    assert shapes_of_cache("x", cache, RULE) == [RULE, RULE, encoder, encoder]
    given = {"decoder": RULE, "encoder": {0: "batch", 2: "source"}}
    assert shapes_of_cache("x", cache, given) == [RULE, RULE, *[{0: "batch", 2: "source"}] * 2]


def test_states_and_static_layers_have_no_length():
    model = causal_models.make_with_layers("mamba")
    cache = causal_models.filled(model, torch.ones(2, 3, dtype=torch.int64))
    assert shapes_of_cache("x", cache, RULE) == [{0: "batch"}] * 4


@pytest.mark.parametrize("shape", [[RULE] * 3, "batch", {"keys of": RULE}, {7: (RULE, RULE)}, [(RULE,)] * 2])
def test_other_forms_are_refused(shape):
    with pytest.raises(UsageError) as error:
        shapes_of_cache("past_key_values", _cache(2), shape)
    message = str(error.value)
    assert "past_key_values, which is a DynamicCache with 4 tensors in 2 layers (" in message
    assert "(layers[0].keys, " in message or "(key_cache[0], " in message
    assert "one rule for all layers, {0: 'batch', 2: 'past_sequence'}" in message
