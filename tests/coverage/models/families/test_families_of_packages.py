"""The families that are made from packages' own registries: listed without building, and a few models of each run."""

from __future__ import annotations

import importlib
import importlib.util

import pytest
import torch
from torch.utils import _pytree as pytree

from opbridge.coverage.models.entries import Case, Inputs

MODELS = {
    "diffusers": ["UNet2DConditionModel", "FluxTransformer2DModel", "AutoencoderKL"],
    "kornia": ["GaussianBlur2d", "rgb_to_hsv", "sobel"],
    "segmentation_models": ["unet", "fpn"],
    "sentence_transformers": ["Pooling, mean", "Dense"],
    "torch_geometric": ["GCNConv", "GATConv", "GraphSAGE"],
    "ultralytics": ["yolov8", "yolo11-cls"],
    "transformers": ["BertForMaskedLM", "LlamaForCausalLM", "ViTForImageClassification", "T5ForConditionalGeneration"],
}
LEAST = {
    "diffusers": 60,
    "kornia": 100,
    "segmentation_models": 12,
    "sentence_transformers": 10,
    "torch_geometric": 50,
    "ultralytics": 40,
    "transformers": 1000,
}
ROWS = [(family, name) for family, names in MODELS.items() for name in names]


def _family(name: str):
    module = importlib.import_module(f"opbridge.coverage.models.families.{name}")
    for package in module.PACKAGES:
        if importlib.util.find_spec(package.replace("-", "_")) is None:
            pytest.skip(f"{package} is not installed")
    return module


def _shapes(inputs: Inputs) -> list[tuple[int, ...]]:
    leaves = pytree.tree_leaves((inputs.args, dict(inputs.kwargs)))
    return [tuple(leaf.shape) for leaf in leaves if isinstance(leaf, torch.Tensor)]


def _run(case: Case, inputs: Inputs) -> None:
    with torch.no_grad():
        case.model(*inputs.args, **inputs.kwargs)


@pytest.mark.parametrize("family", MODELS)
def test_names_are_unique(family):
    names = [entry.name for entry in _family(family).entries()]
    assert len(names) == len(set(names))
    assert len(names) >= LEAST[family]
    assert set(MODELS[family]) <= set(names)


@pytest.mark.slow
@pytest.mark.parametrize(("family", "name"), ROWS)
def test_a_model_runs_on_its_inputs_and_on_others(family, name):
    entry = next(entry for entry in _family(family).entries() if entry.name == name)
    case = entry.make()
    assert not case.model.training
    _run(case, case.example)
    assert _shapes(case.others["none"][0]) == _shapes(case.example)
    assert set(case.dynamic_shapes) == set(case.others) - {"none"}
    for kind in case.dynamic_shapes:
        for inputs in case.others[kind]:
            assert _shapes(inputs) != _shapes(case.example)
            _run(case, inputs)
