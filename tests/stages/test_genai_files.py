"""A folder for onnxruntime-genai: its files, and the tokens that onnxruntime-genai generates from them."""

from __future__ import annotations

import json

import numpy as np
import onnx_ir as ir
import pytest
import torch
from helpers import causal_models
from helpers.transformers_classes import of_transformers
from onnxscript import opset18 as op

import opbridge
from opbridge.cli import main
from opbridge.errors import VerificationError

_LENGTH = 40


def _generated(folder, prompts):
    """The tokens of onnxruntime-genai."""
    genai = pytest.importorskip("onnxruntime_genai", reason="needs onnxruntime-genai (the extra 'genai')")
    model = genai.Model(str(folder))
    options = genai.GeneratorParams(model)
    options.set_search_options(max_length=_LENGTH, do_sample=False, batch_size=len(prompts))
    generator = genai.Generator(model, options)
    generator.append_tokens(np.array(prompts, dtype=np.int32))
    while not generator.is_done():
        generator.generate_next_token()
    return [generator.get_sequence(row).tolist() for row in range(len(prompts))]


def _wanted(model, prompts):
    """The tokens of transformers."""
    tokens = torch.tensor(prompts)
    return model.generate(
        tokens, attention_mask=torch.ones_like(tokens), max_length=_LENGTH, do_sample=False, pad_token_id=0
    ).tolist()


def _made(name, **settings):
    """A model with an end token, and heads of a size that is rotated inside of attention."""
    classes, given = causal_models.MODELS[name]
    model, config = (f"{classes}ForCausalLM", f"{classes}Config") if isinstance(classes, str) else classes
    torch.manual_seed(0)
    found = of_transformers(config)(**{**given, "hidden_size": 64, "head_dim": 16, "eos_token_id": 98, **settings})
    return of_transformers(model)(found).eval()


def _is_shared(folder):
    config = json.loads((folder / "genai_config.json").read_text())
    return config["search"]["past_present_share_buffer"]


def _check(model, folder, **options):
    program = opbridge.export(model, task="text-generation", f=folder, genai=True, **options)
    for prompts in ([[5, 7, 9, 50, 33], [8, 2, 1, 77, 40]], [[3]]):
        assert _generated(folder, prompts) == _wanted(model, prompts)
    return program


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "llama",
        "qwen3",
        *(pytest.param(name, marks=pytest.mark.thorough) for name in ("qwen2", "mistral", "phi3", "gemma2", "gemma3")),
    ],
)
def test_tokens_are_those_of_generate(name, tmp_path):
    program = _check(_made(name), tmp_path / "folder")
    assert any("2 GroupQueryAttention" in note for note in program.plan.notes) and _is_shared(tmp_path / "folder")


@pytest.mark.slow
def test_shorter_prompts_are_padded_behind(tmp_path):
    model = _made("llama")
    _check(model, tmp_path / "folder", verify=False)
    (short, other) = _generated(tmp_path / "folder", [[5, 7, 9, 0, 0], [8, 2, 1, 77, 40]])
    (alone,), (whole,) = _wanted(model, [[5, 7, 9]]), _wanted(model, [[8, 2, 1, 77, 40]])
    assert short[5:] == alone[3 : len(short) - 2] and other[: len(whole)] == whole


@pytest.mark.slow
def test_tokens_of_a_model_that_is_not_fused(tmp_path):
    program = _check(_made("llama"), tmp_path / "folder", fuse=False)
    assert {node.domain for node in program.model.graph} == {""} and not _is_shared(tmp_path / "folder")


@pytest.mark.slow
def test_tokens_in_half_precision(tmp_path):
    program = _check(_made("qwen3"), tmp_path / "folder", precision="float16")
    assert program.narrowed.ok and program.model.graph.inputs[-1].dtype == ir.DataType.FLOAT16


@pytest.mark.slow
def test_tokens_of_weights_of_four_bits(tmp_path):
    quantization = pytest.importorskip("torchao.quantization", reason="needs torchao, which quantizes the model")
    model = _made("llama", intermediate_size=64)
    groups = quantization.PerGroup(32)
    quantization.quantize_(model, quantization.IntxWeightOnlyConfig(weight_dtype=torch.int4, granularity=groups))
    program = _check(model, tmp_path / "folder")
    assert ir.DataType.INT4 in {each.dtype for each in program.model.graph.initializers.values()}


@pytest.mark.slow
def test_the_command_line(tmp_path, capsys):
    saved = tmp_path / "saved"
    causal_models.make("llama").save_pretrained(saved)
    (saved / "tokenizer.json").write_text('{"version": "1.0"}')
    folder = tmp_path / "folder"
    assert main(["export", str(saved), "--task", "text-generation", "--genai", "-o", str(folder), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [each["path"] for each in document["files"]] == [
        str(folder / name) for name in ("model.onnx", "genai_config.json", "tokenizer.json")
    ]
    assert json.loads((folder / "genai_config.json").read_text())["model"]["type"] == "llama"
    assert (folder / "tokenizer.json").read_bytes() == (saved / "tokenizer.json").read_bytes()
    verified = main(["verify", str(folder / "model.onnx"), str(saved), "--task", "text-generation"])
    assert verified == 0
    profiled = main(["profile", str(folder / "model.onnx"), str(saved), "--task", "text-generation", "--json"])
    assert profiled == 0 and "GroupQueryAttention" in capsys.readouterr().out


@pytest.mark.slow
def test_a_folder_that_was_made_goes_where_nothing_is_written(tmp_path, monkeypatch):
    model = causal_models.make("llama")
    with opbridge.override():

        @opbridge.translation("aten::silu")
        def silu(self):
            return op.Relu(self)

        with pytest.raises(VerificationError):
            opbridge.export(model, task="text-generation", f=tmp_path / "folder", genai=True)
    assert [each.name for each in (tmp_path / "folder").iterdir()] == ["model.failed.onnx"]

    def fail(*given, **options):
        raise RuntimeError("no disk")

    monkeypatch.setattr("opbridge.save.writer.staged", fail)
    with pytest.raises(RuntimeError, match="no disk"):
        opbridge.export(model, task="text-generation", f=tmp_path / "other", genai=True)
    assert not (tmp_path / "other").exists()
