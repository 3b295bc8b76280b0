"""A pipeline of diffusers: the model inside of it is exported from the calls of the pipeline."""

from __future__ import annotations

import pytest
import torch

import opbridge

diffusers = pytest.importorskip("diffusers")
transformers = pytest.importorskip("transformers")

pytestmark = pytest.mark.slow


def pipeline():
    """Stable Diffusion with tiny components and random weights."""
    torch.manual_seed(0)
    unet = diffusers.UNet2DConditionModel(
        block_out_channels=(8, 16),
        layers_per_block=1,
        sample_size=8,
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
        cross_attention_dim=16,
        attention_head_dim=4,
        norm_num_groups=4,
    )
    vae = diffusers.AutoencoderKL(
        block_out_channels=(8, 8),
        down_block_types=("DownEncoderBlock2D",) * 2,
        up_block_types=("UpDecoderBlock2D",) * 2,
        norm_num_groups=4,
    )
    text = transformers.CLIPTextModel(
        transformers.CLIPTextConfig(
            vocab_size=64, hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2
        )
    )
    pipe = diffusers.StableDiffusionPipeline(
        unet=unet.eval(),
        vae=vae.eval(),
        text_encoder=text.eval(),
        tokenizer=None,
        scheduler=diffusers.DDIMScheduler(num_train_timesteps=100),
        safety_checker=None,
        feature_extractor=None,
        requires_safety_checker=False,
    )
    pipe.set_progress_bar_config(disable=True)
    return pipe


def test_stable_diffusion(tmp_path):
    pipe = pipeline()
    with opbridge.record(pipe.unet) as calls, opbridge.record(pipe.vae.decoder) as decoded:
        for height, width, length, count in ((16, 24, 5, 1), (32, 16, 7, 2)):
            pipe(
                prompt_embeds=torch.randn(count, length, 16),
                negative_prompt_embeds=torch.randn(count, length, 16),
                height=height,
                width=width,
                num_inference_steps=2,
                output_type="pt",
            )
    assert calls.dynamic_shapes["sample"] == {0: "batch", 2: "height", 3: "width"}
    assert calls.dynamic_shapes["encoder_hidden_states"] == {0: "batch", 1: "length"}
    program = calls.export(tmp_path / "unet.onnx")
    assert program.verification.ok and "given" in [run.kind for run in program.verification.runs]
    sample = program.model.graph.inputs[0]
    assert sample.shape[1] == 4 and [str(sample.shape[axis]) for axis in (0, 2, 3)] == ["batch", "height", "width"]
    assert decoded.export(tmp_path / "decoder.onnx").verification.ok
