"""Entries of transformers' models: that they are built small, and run on their example and their other inputs."""

from __future__ import annotations

import pytest
import torch

transformers = pytest.importorskip("transformers", reason="transformers is not installed")

from opbridge.coverage.models.entries import Case  # noqa: E402
from opbridge.coverage.models.families.transformers import entries  # noqa: E402

_MOST_PARAMETERS = 42_000_000

_OF_RULES = {
    "ASTModel": "as many frames as there are positions for",
    "AutoformerModel": "a time series, whose prediction length the default leaves open",
    "BartForSequenceClassification": "texts that end with the token for it, and no text for the decoder",
    "Blip2Model": "a token for pictures that the default leaves open",
    "BltModel": "parts with layers of their own",
    "ChameleonModel": "words for parts of a picture",
    "ClapModel": "frames in a channel",
    "CvtModel": "stages with numbers of blocks that differ",
    "DFineModel": "outputs of a backbone",
    "DbrxModel": "fields that a part leaves open",
    "DecisionTransformerModel": "states, actions and rewards",
    "Dots1Model": "experts that the default leaves open",
    "Gemma4VisionModel": "patches with their places",
    "JambaForCausalLM": "a layer of each type by a period",
    "KyutaiSpeechToTextModel": "codes of a sound beside a text",
    "Kosmos2Model": "words that stand for a picture's features",
    "LongformerForQuestionAnswering": "three tokens that separate",
    "LxmertModel": "regions of a picture",
    "MllamaVisionModel": "tiles of a picture, with a part's configuration",
    "MusicgenForCausalLM": "codes in the batch",
    "Qwen2AudioForConditionalGeneration": "a sound in a text",
    "Qwen3VLVisionModel": "a scale at which heads are even",
    "VideoMAEForPreTraining": "patches to guess",
    "XmodModel": "a language",
}
_WITH_CACHE = ("LlamaForCausalLM", "BertLMHeadModel", "JambaForCausalLM", "MambaForCausalLM", "MusicgenForCausalLM")


def _case(name: str) -> Case:
    torch.manual_seed(0)
    (entry,) = (each for each in entries() if each.name == name)
    return entry.make()


def _run(case: Case) -> None:
    assert sum(parameter.numel() for parameter in case.model.parameters()) <= _MOST_PARAMETERS
    with torch.no_grad():
        for inputs in [case.example, *(each for kind in case.others.values() for each in kind)]:
            case.model(*inputs.args, **inputs.kwargs)


@pytest.mark.slow
@pytest.mark.parametrize("name", _OF_RULES)
def test_inputs_follow_rules(name: str) -> None:
    case = _case(name)
    assert "batch" in case.dynamic_shapes
    _run(case)


@pytest.mark.slow
@pytest.mark.parametrize("name", _WITH_CACHE)
def test_a_step_takes_the_cache(name: str) -> None:
    _run(_case(f"{name}, cache"))


@pytest.mark.slow
def test_a_text_has_a_token_for_each_feature_of_its_sound() -> None:
    case = _case("Qwen2AudioForConditionalGeneration")
    token = case.model.config.audio_token_id
    assert {"input_ids", "input_features"} <= set(case.example.kwargs)
    assert (case.example.kwargs["input_ids"] == token).any()


@pytest.mark.slow
def test_a_text_has_a_token_for_each_feature_of_its_picture() -> None:
    case = _case("Qwen2_5_VLForConditionalGeneration")
    assert {"input_ids", "pixel_values", "image_grid_thw"} <= set(case.example.kwargs)


def test_what_has_no_inputs_says_so() -> None:
    with pytest.raises(NotImplementedError, match="defines no example inputs"):
        _case("BarkModel")
