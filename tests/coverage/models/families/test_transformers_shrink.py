"""Small configurations of transformers' models."""

from __future__ import annotations

import pytest

transformers = pytest.importorskip("transformers", reason="transformers is not installed")

from opbridge.coverage.models.families.transformers.fields import PICTURE_WORDS, VOCABULARY  # noqa: E402
from opbridge.coverage.models.families.transformers.names import classes, text_generators  # noqa: E402
from opbridge.coverage.models.families.transformers.shrink import Scale, shrink  # noqa: E402


def test_widths_are_divided_and_heads_stay():
    config = shrink(transformers.BertConfig())
    assert (config.hidden_size, config.num_attention_heads, config.intermediate_size) == (96, 12, 384)
    assert config.num_hidden_layers == 2
    assert config.vocab_size == VOCABULARY


def test_random_weights_are_spread_as_widths_shrink():
    assert shrink(transformers.BertConfig()).initializer_range == pytest.approx(0.16)
    assert shrink(transformers.BertConfig(initializer_range=1.0)).initializer_range == 1.0


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


def test_a_scale_says_the_divisor_and_whether_images_are_smaller():
    default = transformers.ViTConfig()
    assert shrink(default, Scale(4)).hidden_size == default.hidden_size // 4
    assert shrink(default).image_size < default.image_size
    assert shrink(default, Scale(8, pictures=False)).image_size == default.image_size


def test_a_backbone_gives_as_many_outputs_among_fewer_layers():
    default = transformers.DetrConfig()
    assert len(shrink(default).backbone_config.out_indices) == len(default.backbone_config.out_indices)
    config = shrink(transformers.DPTConfig())
    assert max(config.backbone_out_indices) <= config.num_hidden_layers


def test_layers_that_come_with_a_period_are_among_few():
    config = shrink(transformers.JambaConfig())
    assert set(config.layer_types) == {"linear_attention", "full_attention"}


def test_a_hybrid_of_linear_layers_alone_gets_one_of_attention():
    config = shrink(transformers.GraniteMoeHybridConfig())
    assert set(config.layer_types) == {"linear_attention", "full_attention"}


def test_parts_of_positions_stay_equal():
    default = transformers.Qwen2VLConfig()
    rope = shrink(transformers.Ernie4_5_VLMoeConfig()).text_config
    head = rope.hidden_size // rope.num_attention_heads
    sections = rope.rope_parameters["mrope_section"]
    assert sections[0] == sections[1]
    assert 2 * sum(sections) == head
    assert shrink(default).text_config.num_hidden_layers <= default.text_config.num_hidden_layers


def test_fields_that_the_default_leaves_open_are_filled():
    assert shrink(transformers.Dots1Config()).n_routed_experts == 4
    assert shrink(transformers.Blip2Config()).image_token_index < VOCABULARY
    words = shrink(transformers.ChameleonConfig()).vocabulary_map
    assert max(words.values()) < VOCABULARY
    assert len([word for word in words if word.startswith("IMGIMG")]) == PICTURE_WORDS


def test_heads_divide_the_width_also_where_the_default_has_others():
    vision = shrink(transformers.AyaVisionConfig()).vision_config
    assert vision.hidden_size % vision.num_attention_heads == 0


def test_patches_that_are_images_keep_their_size():
    config = shrink(transformers.DepthProConfig())
    assert config.patch_size == config.image_model_config.image_size == config.patch_model_config.image_size


def test_lists_are_as_they_are_read_from_a_file():
    assert isinstance(shrink(transformers.CvtConfig()).embed_dim, list)
