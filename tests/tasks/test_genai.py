"""The folder for onnxruntime-genai: what its configuration says of a model, and what is refused."""

from __future__ import annotations

import pytest
import torch
from helpers import causal_models

import opbridge
from opbridge.errors import UsageError
from opbridge.tasks import genai_folder


def _folder(path, model=None, **options):
    given = {"task": "text-generation", "target": None, "precision": None, **options}
    return genai_folder(causal_models.make("llama") if model is None else model, path, **given)


def test_the_configuration_of_a_model(tmp_path):
    model = causal_models.make("llama")
    model.generation_config.eos_token_id = [2, 7]
    model.generation_config.top_k = 5
    inputs = ["input_ids", "attention_mask", "position_ids", "past_key_values.0.key"]
    document = _folder(tmp_path / "folder", model).document(inputs, shared_buffer=True)
    decoder = document["model"].pop("decoder")
    assert document["model"] == {
        "bos_token_id": 1,
        "eos_token_id": [2, 7],
        "pad_token_id": 0,
        "context_length": 256,
        "type": "llama",
        "vocab_size": 99,
    }
    assert [decoder[name] for name in ("num_attention_heads", "num_key_value_heads", "head_size")] == [4, 2, 8]
    assert decoder["inputs"] == {
        "input_ids": "input_ids",
        "attention_mask": "attention_mask",
        "position_ids": "position_ids",
        "past_key_names": "past_key_values.%d.key",
        "past_value_names": "past_key_values.%d.value",
    }
    assert decoder["session_options"]["provider_options"] == []
    search = document["search"]
    assert (search["max_length"], search["top_k"], search["past_present_share_buffer"]) == (256, 5, True)


def test_what_the_graph_does_not_take_is_not_named(tmp_path):
    document = _folder(tmp_path / "folder").document(["input_ids"], shared_buffer=False)
    assert list(document["model"]["decoder"]["inputs"]) == ["input_ids", "past_key_names", "past_value_names"]
    assert not document["search"]["past_present_share_buffer"]


def test_the_pad_token_is_the_first_end_token_where_there_is_none(tmp_path):
    model = causal_models.make("llama")
    model.config.pad_token_id = model.generation_config.pad_token_id = None
    model.generation_config.eos_token_id = [2, 7]
    assert _folder(tmp_path / "folder", model).config["model"]["pad_token_id"] == 2


def test_a_model_without_an_end_token_is_said(tmp_path):
    assert "ends a text at the pad token, 0" in _folder(tmp_path / "folder").notes[0]


def test_cuda_is_the_provider_of_its_target(tmp_path):
    config = _folder(tmp_path / "folder", target="cuda:1.31").config
    assert config["model"]["decoder"]["session_options"]["provider_options"] == [{"cuda": {}}]


def test_the_tokenizer_is_that_of_the_folder_of_the_model(tmp_path):
    (tmp_path / "tokenizer.json").write_text("{}")
    model = causal_models.make("llama")
    model.generation_config.eos_token_id = 2
    assert "no tokenizer" in _folder(tmp_path / "folder", model).notes[0]
    model.name_or_path = str(tmp_path)
    found = _folder(tmp_path / "folder", model)
    assert found.tokenizer == (tmp_path / "tokenizer.json",) and not found.notes


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"task": None}, "requires task='text-generation'"),
        ({"target": "tensorrt:10.15"}, "supports the targets onnxruntime and cuda"),
        ({"precision": "bfloat16"}, "float32 or float16"),
        ({"precision": "int4"}, "quantize the model with torchao"),
        ({"input_names": ["tokens"]}, "input_names= has no effect"),
    ],
)
def test_arguments_that_do_not_go_with_a_folder(tmp_path, options, said):
    with pytest.raises(UsageError, match=said):
        _folder(tmp_path / "folder", **options)


def test_models_that_genai_does_not_know(tmp_path):
    with pytest.raises(UsageError, match="supports causal language models"):
        _folder(tmp_path / "folder", torch.nn.Linear(2, 2))
    with pytest.raises(UsageError, match="does not know models of type 'bloom' .BloomForCausalLM.. It knows .*llama"):
        _folder(tmp_path / "folder", causal_models.make("bloom"))


def test_paths_that_are_no_folder(tmp_path):
    (tmp_path / "file").write_text("")
    for path, said in [
        (None, "Give its path"),
        (tmp_path / "model.onnx", "is a file"),
        (tmp_path / "file", "is a file"),
        (tmp_path / "none" / "folder", "does not exist"),
    ]:
        with pytest.raises(UsageError, match=said):
            _folder(path)


def test_nothing_is_written_where_something_is_wrong(tmp_path):
    with pytest.raises(UsageError, match="does not know models"):
        opbridge.export(causal_models.make("bloom"), (), tmp_path / "folder", task="text-generation", genai=True)
    assert not list(tmp_path.iterdir())
