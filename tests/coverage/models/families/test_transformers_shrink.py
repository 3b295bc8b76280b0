"""Small configurations of transformers' models."""

from __future__ import annotations

import pytest

transformers = pytest.importorskip("transformers", reason="transformers is not installed")

from opbridge.coverage.models.families.transformers.fields import VOCABULARY  # noqa: E402
from opbridge.coverage.models.families.transformers.names import classes, text_generators  # noqa: E402
from opbridge.coverage.models.families.transformers.shrink import shrink  # noqa: E402


def test_widths_are_divided_and_heads_stay():
    config = shrink(transformers.BertConfig())
    assert (config.hidden_size, config.num_attention_heads, config.intermediate_size) == (96, 12, 384)
    assert config.num_hidden_layers == 2
    assert config.vocab_size == VOCABULARY


def test_heads_and_their_size_fit_the_width():
    config = shrink(transformers.LlamaConfig())
    assert config.hidden_size == config.num_attention_heads * config.head_dim
    assert config.num_attention_heads % config.num_key_value_heads == 0


def test_special_tokens_are_below_the_vocabulary_and_differ():
    config = shrink(transformers.LlavaConfig())
    assert config.image_token_index < VOCABULARY
    text = config.text_config
    assert config.image_token_index not in (text.bos_token_id, text.eos_token_id)


def test_there_is_a_layer_of_each_type():
    default = transformers.Gemma3TextConfig()
    config = shrink(default)
    assert len(config.layer_types) == config.num_hidden_layers < default.num_hidden_layers
    assert set(config.layer_types) == set(default.layer_types)


def test_parts_are_made_small_too():
    default = transformers.LlavaConfig()
    config = shrink(default)
    assert config.text_config.hidden_size < default.text_config.hidden_size
    assert config.vision_config.image_size % config.vision_config.patch_size == 0
    assert config.vision_config.image_size < default.vision_config.image_size


def test_classes_are_of_all_tasks():
    found = classes()
    assert found["BertForMaskedLM"] == "bert"
    assert "WhisperForConditionalGeneration" in found
    assert "DetrForObjectDetection" in found
    assert "LlamaForCausalLM" in text_generators()
