"""transformers' caches as inputs and outputs of an export: names, sizes, and what the verification tries."""

from __future__ import annotations

import copy
import inspect

import numpy as np
import pytest
import torch
import transformers
from helpers import causal_models
from transformers import DynamicCache, EncoderDecoderCache, StaticCache

import opbridge
from opbridge.model_support import caches
from opbridge.model_support.transformers import caches as of_transformers

pytestmark = pytest.mark.slow

RULE = {0: "batch", 2: "past"}


def _filled(model, length, cache=None):
    return causal_models.filled(model, _tokens(length), cache)


def _tokens(length=3):
    return torch.randint(2, 99, (2, length))


def _names(program):
    return [value.name for value in program.model.graph.inputs], [value.name for value in program.model.graph.outputs]


def test_a_length_that_varies_is_tried_at_zero():
    model = causal_models.make("llama")
    given = {"input_ids": _tokens(), "past_key_values": _filled(model, 4)}
    shapes = {"input_ids": {0: "batch", 1: "new"}, "past_key_values": RULE}
    program = opbridge.export(model, kwargs=given, dynamic_shapes=shapes)
    tried = [run.label for run in program.verification.runs if run.left_out is None]
    assert {"batch=2, new=3, past=0", "batch=1, new=1, past=0"} <= set(tried)
    assert _names(program)[0][1:3] == ["past_key_values.0.key", "past_key_values.0.value"]
    assert _names(program)[1][1:3] == ["present.0.key", "present.0.value"]


def test_axes_by_the_names_of_the_inputs():
    model = causal_models.make("llama")
    given = {"input_ids": _tokens(), "past_key_values": _filled(model, 4)}
    names = [f"past_key_values.{layer}.{what}" for layer in (0, 1) for what in ("key", "value")]
    axes = {"input_ids": {0: "batch"}, **dict.fromkeys(names, RULE)}
    program = opbridge.export(model, kwargs=given, dynamic_axes=axes, verify=False)
    assert [str(size) for size in program.model.graph.inputs[1].shape] == ["batch", "2", "past", "8"]


def _with_window(length):
    model = causal_models.make("mistral")
    cache = _filled(model, length)
    if of_transformers.sliding_layers(cache) == 0:
        pytest.skip("the DynamicCache of this transformers has no layers with a sliding window")
    return model, {"input_ids": _tokens(), "past_key_values": cache}


def test_layers_with_a_sliding_window_hold_all_tokens():
    model, given = _with_window(4)
    shapes = {"input_ids": {0: "batch"}, "past_key_values": RULE}
    program = opbridge.export(model, kwargs=given, dynamic_shapes=shapes)
    assert any("layers of the DynamicCache use a sliding window" in note for note in program.plan.notes)
    past = _filled(model, 20, DynamicCache())  # a longer one than the window
    tokens = _tokens()
    feeds = {"input_ids": tokens.numpy()}
    feeds |= {part.name("past_key_values", "past"): tensor.numpy() for part, tensor in caches.parts(past)}
    logits = program.session().run(["logits"], feeds)[0]
    with torch.no_grad():
        expected = model(tokens, past_key_values=past).logits
    np.testing.assert_allclose(logits, expected.numpy(), rtol=1e-3, atol=1e-3)


def test_a_cache_that_has_dropped_tokens():
    model, given = _with_window(12)
    with torch.no_grad():
        expected = model(**copy.deepcopy(given)).logits
    shapes = {"input_ids": {0: "batch"}, "past_key_values": RULE}
    program = opbridge.export(model, kwargs=given, dynamic_shapes=shapes)
    assert any("2 layers of the DynamicCache have dropped tokens" in note for note in program.plan.notes)
    feeds = {"input_ids": given["input_ids"].numpy()}
    for number, layer in enumerate(given["past_key_values"].layers):
        assert layer.keys.shape[2] == 7  # what is given stays as it is
        for name, held in (("key", layer.keys), ("value", layer.values)):
            feeds[f"past_key_values.{number}.{name}"] = torch.nn.functional.pad(held, (0, 0, 5, 0)).numpy()
    np.testing.assert_allclose(program.session().run(["logits"], feeds)[0], expected.numpy(), rtol=1e-3, atol=1e-3)
    longer = {"input_ids": _tokens(), "past_key_values": _filled(model, 15)}
    assert opbridge.verify(program, model, kwargs=given, inputs=[((), longer)]).ok


def test_a_static_cache():
    model = causal_models.make("llama")
    cache = StaticCache(config=model.config, max_batch_size=2, max_cache_len=16)
    _filled(model, 4, cache)
    program = opbridge.export(
        model,
        kwargs={"input_ids": _tokens(), "past_key_values": cache},
        dynamic_shapes={"input_ids": {0: "batch"}, "past_key_values": {0: "batch"}},
    )
    inputs, outputs = _names(program)
    # Releases before transformers 5.5 count no tokens, but the keys that are not zero.
    held = ["key", "value", "length"] if any(name.endswith("length") for name in inputs) else ["key", "value"]
    assert inputs[1:] == [f"past_key_values.{layer}.{what}" for layer in (0, 1) for what in held]
    assert outputs[1:] == [f"present.{layer}.{what}" for layer in (0, 1) for what in held]
    feeds = {"input_ids": np.array([[5, 6, 7]])}
    for name, value in zip(inputs[1:], [*program.model.graph.inputs][1:], strict=True):
        shape = [1 if size == "batch" else size for size in map(_size, value.shape)]
        feeds[name] = np.zeros(shape, np.int64 if name.endswith("length") else np.float32)
    result = dict(zip(outputs, program.session().run(None, feeds), strict=True))
    with torch.no_grad():
        expected = model(torch.tensor([[5, 6, 7]])).logits
    np.testing.assert_allclose(result["logits"], expected.numpy(), rtol=1e-3, atol=1e-3)
    assert result.get("present.0.length", 3) == 3
    np.testing.assert_array_equal(result["present.0.key"].any(axis=(1, 3))[0], [True] * 3 + [False] * 13)


def _size(size):
    return size if isinstance(size, int) else str(size)


class _Decoder(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, decoder_input_ids, encoder_hidden_states, past_key_values):
        result = self.model(
            decoder_input_ids=decoder_input_ids,
            encoder_outputs=(encoder_hidden_states,),
            past_key_values=past_key_values,
            use_cache=True,
        )
        return result.logits, result.past_key_values


def _t5():
    config = transformers.T5Config(
        vocab_size=99, d_model=16, d_kv=8, d_ff=32, num_layers=2, num_heads=2, decoder_start_token_id=0
    )
    return transformers.T5ForConditionalGeneration(config).eval()


def _bart():
    config = transformers.BartConfig(
        vocab_size=99,
        d_model=16,
        encoder_layers=1,
        decoder_layers=2,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=32,
        decoder_ffn_dim=32,
        max_position_embeddings=64,
    )
    return transformers.BartForConditionalGeneration(config).eval()


def _whisper():
    config = transformers.WhisperConfig(
        vocab_size=99,
        d_model=16,
        encoder_layers=1,
        decoder_layers=2,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=32,
        decoder_ffn_dim=32,
        max_source_positions=10,
        max_target_positions=64,
        num_mel_bins=4,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=3,
    )
    return transformers.WhisperForConditionalGeneration(config).eval()


@pytest.mark.parametrize("make", [_t5, _bart, _whisper])
def test_a_cache_of_encoder_and_decoder(make):
    torch.manual_seed(0)
    model = make()
    source = {"input_features": torch.randn(2, 4, 20)} if make is _whisper else {"input_ids": _tokens(5)}
    empty = EncoderDecoderCache(DynamicCache(), DynamicCache())  # without which older releases give tuples
    with torch.no_grad():
        result = model(**source, decoder_input_ids=_tokens(4), past_key_values=empty, use_cache=True)
    given = {
        "decoder_input_ids": _tokens(),
        "encoder_hidden_states": result.encoder_last_hidden_state,
        "past_key_values": result.past_key_values,
    }
    shapes = {
        "decoder_input_ids": {0: "batch", 1: "new"},
        "encoder_hidden_states": {0: "batch", 1: "source"},
        "past_key_values": {"decoder": RULE, "encoder": {0: "batch", 2: "source"}},
    }
    program = opbridge.export(_Decoder(model), kwargs=given, dynamic_shapes=shapes)
    halves = [f"0.{half}.{what}" for half in ("decoder", "encoder") for what in ("key", "value")]
    inputs, outputs = _names(program)
    assert [f"past_key_values.{each}" for each in halves] == [name for name in inputs if ".0." in name]
    assert [f"present.{each}" for each in halves] == [name for name in outputs if ".0." in name]
    assert any("past=0" in run.label and run.left_out is None for run in program.verification.runs)


def test_a_cache_under_the_name_of_now_and_of_before():
    model = causal_models.make("llama")
    found = []
    for name in (
        "past_key_values",
        "cache" if "cache" in inspect.signature(model.forward).parameters else "past_key_values",
    ):
        given = {"input_ids": _tokens(), name: _filled(model, 4)}
        shapes = {"input_ids": {0: "batch", 1: "new"}, name: RULE}
        program = opbridge.export(model, kwargs=given, dynamic_shapes=shapes)
        assert opbridge.verify(program, kwargs=given).ok
        found.append(_names(program))
    assert found[0] == found[1]
