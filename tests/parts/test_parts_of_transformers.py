"""Models of transformers that people deploy in parts: tiny configurations, with random weights."""

from __future__ import annotations

import pytest
import torch
from helpers import causal_models

import opbridge
from opbridge.tasks import prepare

transformers = pytest.importorskip("transformers")

pytestmark = pytest.mark.slow

SMALL = {
    "d_model": 32,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
}


class Decoder(torch.nn.Module):
    """The decoder of a model with an encoder, without a cache, and the layer that gives the scores of tokens."""

    def __init__(self, decoder: torch.nn.Module, head: torch.nn.Module, scale: float = 1.0) -> None:
        super().__init__()
        self.decoder, self.head, self.scale = decoder, head, scale

    def forward(self, ids, states):
        found = self.decoder(input_ids=ids, encoder_hidden_states=states, use_cache=False)
        return self.head(found.last_hidden_state * self.scale)


def greedy(encode):
    """A `run` that chooses the likeliest token three times."""

    def run(parts, *inputs):
        states = encode(parts, *inputs)
        ids = torch.full((states.shape[0], 1), 2)
        for _ in range(3):
            scores = parts.decoder(ids, states)
            ids = torch.cat([ids, scores[:, -1:].argmax(-1)], 1)
        return {"ids": ids, "scores": scores}

    return run


def exported(parts: opbridge.Parts, folder) -> opbridge.ExportedParts:
    """The parts in a folder; everything agrees, and weights that they share are stored once."""
    done = parts.export(folder)
    assert done.verification is not None and done.verification.ok
    assert all(program.verification.ok for program in done.programs.values())
    models = [part.model for part in parts.parts.values()]
    tensors = [each for model in models for each in (*model.parameters(), *model.buffers())]
    unique = {each.data_ptr(): each.nbytes for each in tensors}
    weights = done.files[-1]
    assert weights.stat().st_size <= sum(unique.values()) + 64 * len(unique)
    assert parts.verify(folder).ok
    return done


def text_parts(encoder, decoder) -> opbridge.Parts:
    ids, target = torch.randint(5, 60, (2, 7)), torch.randint(5, 60, (2, 3))
    states = encoder(ids).last_hidden_state.detach()
    return opbridge.Parts(
        {
            "encoder": (encoder, (ids,), {"dynamic_shapes": {"input_ids": {0: "batch", 1: "length"}}}),
            "decoder": (
                decoder,
                (target, states),
                {"dynamic_shapes": {"ids": {0: "batch", 1: "steps"}, "states": {0: "batch", 1: "length"}}},
            ),
        },
        run=greedy(lambda parts, ids: parts.encoder(input_ids=ids).last_hidden_state),
        args=(ids,),
        inputs=[(torch.randint(5, 60, (3, 11)),)],
    )


def test_t5(tmp_path):
    torch.manual_seed(0)
    config = transformers.T5Config(vocab_size=1024, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4)
    model = transformers.T5ForConditionalGeneration(config).eval()
    done = exported(text_parts(model.encoder, Decoder(model.decoder, model.lm_head, 32**-0.5)), tmp_path / "t5")
    # The embedding is that of the encoder, of the decoder and of the head.
    size = done.files[-1].stat().st_size
    assert size < sum(each.nbytes for each in model.parameters()) + 64 * 64
    assert set(done.programs) == {"encoder", "decoder"}


def test_bart(tmp_path):
    torch.manual_seed(0)
    config = transformers.BartConfig(
        vocab_size=1024, encoder_ffn_dim=64, decoder_ffn_dim=64, max_position_embeddings=64, **SMALL
    )
    model = transformers.BartForConditionalGeneration(config).eval()
    exported(text_parts(model.model.encoder, Decoder(model.model.decoder, model.lm_head)), tmp_path / "bart")


def test_whisper(tmp_path):
    torch.manual_seed(0)
    config = transformers.WhisperConfig(
        vocab_size=1024,
        num_mel_bins=8,
        encoder_ffn_dim=64,
        decoder_ffn_dim=64,
        max_source_positions=20,
        max_target_positions=16,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=1,
        suppress_tokens=None,
        begin_suppress_tokens=None,
        **SMALL,
    )
    model = transformers.WhisperForConditionalGeneration(config).eval()
    sound, target = torch.randn(2, 8, 40), torch.randint(5, 60, (2, 3))
    states = model.model.encoder(sound).last_hidden_state.detach()
    parts = opbridge.Parts(
        {
            "encoder": (model.model.encoder, (sound,), {"dynamic_shapes": {"input_features": {0: "batch"}}}),
            "decoder": (
                Decoder(model.model.decoder, model.proj_out),
                (target, states),
                {"dynamic_shapes": {"ids": {0: "batch", 1: "steps"}, "states": {0: "batch"}}},
            ),
        },
        run=greedy(lambda parts, sound: parts.encoder(sound).last_hidden_state),
        args=(sound,),
        inputs=[(torch.randn(1, 8, 40),), (torch.randn(3, 8, 40),)],
    )
    exported(parts, tmp_path / "whisper")


class Tower(torch.nn.Module):
    """One half of CLIP."""

    def __init__(self, model: torch.nn.Module, head: torch.nn.Module) -> None:
        super().__init__()
        self.model, self.head = model, head

    def forward(self, given):
        found = self.head(self.model(given).pooler_output)
        return found / found.norm(dim=-1, keepdim=True)


def test_clip(tmp_path):
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 4}
    config = transformers.CLIPConfig(
        text_config={"vocab_size": 1024, "max_position_embeddings": 16, "eos_token_id": 2, **sizes},
        vision_config={"image_size": 16, "patch_size": 8, **sizes},
        projection_dim=24,
    )
    model = transformers.CLIPModel(config).eval()
    ids, image = torch.randint(5, 60, (3, 7)), torch.randn(2, 3, 16, 16)
    ids[:, -1] = 63

    def run(parts, ids, image):
        return (parts["text-tower"](ids) @ parts["image-tower"](given=image).T).softmax(0)

    parts = opbridge.Parts(
        {
            "text-tower": (
                Tower(model.text_model, model.text_projection),
                (ids,),
                {"dynamic_shapes": ({0: "texts", 1: "length"},)},
            ),
            "image-tower": (
                Tower(model.vision_model, model.visual_projection),
                (image,),
                {"dynamic_shapes": ({0: "images"},)},
            ),
        },
        run=run,
        args=(ids, image),
    )
    exported(parts, tmp_path / "clip")


class MaskDecoder(torch.nn.Module):
    """SAM's second half: points, and what the first one found in the image."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, embeddings, points, labels):
        found = self.model(image_embeddings=embeddings, input_points=points, input_labels=labels)
        return found.pred_masks, found.iou_scores


def test_sam(tmp_path):
    torch.manual_seed(0)
    vision = transformers.SamVisionConfig(
        hidden_size=32,
        output_channels=16,
        num_hidden_layers=2,
        num_attention_heads=4,
        image_size=64,
        patch_size=16,
        mlp_ratio=2.0,
        window_size=2,
        global_attn_indexes=[1],
        num_pos_feats=8,
    )
    prompts = transformers.SamPromptEncoderConfig(hidden_size=16, image_size=64, patch_size=16, mask_input_channels=4)
    masks = transformers.SamMaskDecoderConfig(
        hidden_size=16, mlp_dim=32, num_hidden_layers=1, num_attention_heads=2, iou_head_hidden_dim=16
    )
    config = transformers.SamConfig(vision_config=vision, prompt_encoder_config=prompts, mask_decoder_config=masks)
    model = transformers.SamModel(config).eval()
    image = torch.randn(1, 3, 64, 64)
    points, labels = torch.rand(1, 1, 2, 2) * 64, torch.ones(1, 1, 2, dtype=torch.int64)
    embeddings = model.vision_encoder(image).last_hidden_state.detach()

    def run(parts, image, points, labels):
        return parts.decoder(parts.encoder(image).last_hidden_state, points, labels=labels)

    parts = opbridge.Parts(
        {
            "encoder": (model.vision_encoder, (image,)),
            "decoder": (
                MaskDecoder(model),
                (embeddings, points, labels),
                {"dynamic_shapes": (None, {2: "points"}, {2: "points"})},
            ),
        },
        run=run,
        args=(image, points, labels),
    )
    exported(parts, tmp_path / "sam")


def test_a_part_with_a_task_is_verified_with_the_inputs_of_the_task():
    model = causal_models.make("llama")
    parts = opbridge.Parts({"decoder": (model, (), {"task": "text-generation"})})
    program = parts.export()["decoder"]
    labels = [each.label for each in program.verification.runs]
    assert program.verification.ok and labels[0] == "example"
    assert len(labels) == 1 + len(prepare("text-generation", model, (), None, None).inputs)
