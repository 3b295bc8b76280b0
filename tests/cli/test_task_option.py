"""`--task`: a factory that returns a model alone, and a folder that `save_pretrained` wrote."""

from __future__ import annotations

import json

import pytest
from helpers import causal_models

import opbridge
from opbridge.cli import main

FACTORY = """
import transformers

def alone():
    config = transformers.GPT2Config(
        vocab_size=60, n_embd=16, n_layer=1, n_head=2, n_positions=32, bos_token_id=0, eos_token_id=0
    )
    return transformers.GPT2LMHeadModel(config).eval()

def with_inputs():
    return alone(), ()
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    (tmp_path / "net.py").write_text(FACTORY)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_folder_for_genai_requires_the_task(folder, capsys):
    assert main(["export", "net.py:alone", "--genai", "-o", "folder"]) == 2
    assert "--genai requires --task text-generation" in capsys.readouterr().err
    assert main(["export", "net.py:alone", "--genai", "--task", "text-generation", "-o", "folder"]) == 2
    assert "does not know models of type 'gpt2'" in capsys.readouterr().err and not (folder / "folder").exists()


@pytest.mark.slow
@pytest.mark.parametrize("factory", ["alone", "with_inputs"])
def test_a_factory(factory, capsys):
    assert main(["export", f"net.py:{factory}", "--task", "text-generation", "-o", "model.onnx", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["verification"]["ok"] is True
    assert "present.0.key" in [each.name for each in opbridge.session("model.onnx").get_outputs()]
    assert main(["check", f"net.py:{factory}", "--task", "text-generation"]) == 0
    capsys.readouterr()
    assert main(["verify", "model.onnx", f"net.py:{factory}", "--task", "text-generation", "--json"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert again["ok"] is True and len(again["runs"]) > 3


@pytest.mark.slow
def test_a_folder(folder, capsys):
    model = causal_models.make("llama")
    model.save_pretrained(folder / "saved")
    assert main(["export", "saved", "--task", "text-generation", "-o", "model.onnx"]) == 0
    assert causal_models.equal_tokens(model, opbridge.session("model.onnx"), count=5)


def test_wrong_use(folder, capsys):
    (folder / "broken").mkdir()
    (folder / "broken" / "config.json").write_text("{}")
    for spec, said in (
        ("broken", "cannot load a causal language model from the folder broken"),
        ("net.py:absent", "no function"),
    ):
        assert main(["export", spec, "--task", "text-generation", "-o", "model.onnx"]) == 2
        assert said in " ".join(capsys.readouterr().err.split())
    assert main(["export", "net.py:alone", "-o", "model.onnx"]) == 2
    assert "return (model, args)" in " ".join(capsys.readouterr().err.split())
    assert main(["export", "net.py:alone", "--raw", "--task", "text-generation"]) == 2
    assert "--task has no effect with --raw" in " ".join(capsys.readouterr().err.split())
