"""Whole models, exported at the newest opset that opbridge writes and converted to older ones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import opbridge
from opbridge.conversion.schemas import newest


def resnet18() -> tuple[Any, tuple[Any, ...], Any]:
    torchvision = pytest.importorskip("torchvision")
    return torchvision.models.resnet18().eval(), (torch.randn(2, 3, 64, 64),), ({0: "batch"},)


def bert() -> tuple[Any, tuple[Any, ...], Any]:
    transformers = pytest.importorskip("transformers")
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    model = transformers.BertModel(transformers.BertConfig(**sizes, vocab_size=100)).eval()
    return model, (torch.randint(0, 100, (2, 7)),), ({0: "batch", 1: "length"},)


def gpt2() -> tuple[Any, tuple[Any, ...], Any]:
    transformers = pytest.importorskip("transformers")
    sizes = {"n_embd": 32, "n_layer": 2, "n_head": 2, "vocab_size": 100, "n_positions": 64}
    model = transformers.GPT2Model(transformers.GPT2Config(**sizes, use_cache=False)).eval()
    return model, (torch.randint(0, 100, (2, 7)),), ({0: "batch", 1: "length"},)


@pytest.mark.slow
@pytest.mark.torchvision
@pytest.mark.parametrize("build", [resnet18, bert, gpt2])
def test_older_opsets(build: Callable[[], tuple[Any, tuple[Any, ...], Any]], tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, args, shapes = build()
    path = tmp_path / "model.onnx"
    opbridge.export(model, args, path, dynamic_shapes=shapes, opset_version=newest())
    for opset in (17, 13, 11):
        output = tmp_path / f"{opset}.onnx"
        found = opbridge.convert(path, opset_version=opset, output=output, isolated=False)
        assert found.comparison.ok and len(found.comparison.runs) == 4, found.comparison.summary()
        assert opbridge.verify(output, model, args).ok
