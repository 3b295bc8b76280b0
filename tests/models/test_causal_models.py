"""Causal models of transformers: one file for the prompt and 50 tokens after it, equal to `generate`."""

from __future__ import annotations

import pytest
import torch
from helpers import causal_models
from helpers.rows import one_in
from helpers.transformers_classes import grouped_product

import opbridge

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", one_in(4, causal_models.MODELS))
def test_tokens_are_those_of_generate(name, tmp_path):
    if name in ("mixtral", "qwen3_moe", "gpt_oss"):
        grouped_product()
    model = causal_models.make_with_layers(name)
    before = model.config._attn_implementation, model.config.use_cache
    program = opbridge.export(model, f=tmp_path / "model.onnx", task="text-generation")
    assert program.verification.ok and all(run.left_out is None for run in program.verification.runs)
    assert (model.config._attn_implementation, model.config.use_cache) == before
    assert causal_models.equal_tokens(model, opbridge.session(tmp_path / "model.onnx"))


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_either_attention(attention, tmp_path):
    model = causal_models.make("llama")
    model.set_attn_implementation(attention)
    opbridge.export(model, f=tmp_path / "model.onnx", task="text-generation")
    assert causal_models.equal_tokens(model, opbridge.session(tmp_path / "model.onnx"))


def test_weights_of_half_precision(tmp_path):
    model = causal_models.make("llama").to(torch.float16)
    program = opbridge.export(model, f=tmp_path / "model.onnx", task="text-generation")
    assert program.verification.ok
    types = {each.name: each.type for each in opbridge.session(tmp_path / "model.onnx").get_inputs()}
    assert types["past_key_values.0.key"] == "tensor(float16)"
    assert causal_models.equal_tokens(model, opbridge.session(tmp_path / "model.onnx"), count=20)
