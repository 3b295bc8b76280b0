"""The families that are made from packages' own registries: listed without building, and a few models of each run."""

from __future__ import annotations

import importlib
import importlib.util

import pytest
import torch
from torch.utils import _pytree as pytree

from opbridge.coverage.models.entries import Case, Inputs

MODELS = {
    "diffusers": [
        "UNet2DConditionModel, SDXL",
        "FluxTransformer2DModel, guidance",
        "AutoencoderKL, SD, decoder",
        "AceStepTransformer1DModel",
        "Kandinsky5Transformer3DModel",
        "LTX2VideoTransformer3DModel",
        "UNet1DModel",
        "ZImageTransformer2DModel",
    ],
    "kornia": ["GaussianBlur2d", "rgb_to_hsv", "sobel", "filter3d", "HardNet"],
    "monai": ["UNet, 3D", "SwinUNETR", "DiffusionModelUNet, with_conditioning", "sliding_window_inference"],
    "neuralforecast": ["NHITS", "TSMixerx, exogenous", "LSTM, MQLoss", "DeepAR, exogenous"],
    "segmentation_models": ["unet", "fpn"],
    "sentence_transformers": ["Pooling, mean", "Dense"],
    "speechbrain": ["CRDNN", "TransformerASR, conformer", "FastSpeech2", "AttentionalRNNDecoder, location"],
    "stable_baselines3": ["ppo.MultiInputPolicy, Discrete", "sac.MlpPolicy, critic", "ppo.MlpPolicy, one-hot"],
    "torch_geometric": ["GCNConv", "GATConv", "GraphSAGE", "DNAConv", "HeteroConv"],
    "torchmetrics": ["classification.binary_roc", "image.peak_signal_noise_ratio", "audio.signal_noise_ratio"],
    "torchaudio": ["Emformer, infer", "RNNT, Emformer", "SoudenMVDR", "functional.lfilter"],
    "ultralytics": ["yolov8", "yolo11-cls"],
    "transformers": ["BertForMaskedLM", "LlamaForCausalLM", "ViTForImageClassification", "T5ForConditionalGeneration"],
    "vector_quantize_pytorch": ["VectorQuantize", "ResidualVQ", "FSQ", "LFQ, channel_first"],
    "x_transformers": ["TransformerWrapper, Decoder", "XTransformer", "Decoder, rotary_pos_emb"],
}
LEAST = {
    "diffusers": 130,
    "kornia": 100,
    "monai": 60,
    "neuralforecast": 50,
    "segmentation_models": 12,
    "sentence_transformers": 10,
    "speechbrain": 50,
    "stable_baselines3": 30,
    "torch_geometric": 50,
    "torchmetrics": 100,
    "torchaudio": 60,
    "ultralytics": 40,
    "transformers": 1000,
    "vector_quantize_pytorch": 30,
    "x_transformers": 60,
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


def test_the_classes_of_diffusers_are_found_in_its_source():
    _family("diffusers")
    classes = importlib.import_module("opbridge.coverage.models.families.diffusers.classes")
    found = {cls.name: cls for cls in classes.model_classes()}
    assert found["UNet2DConditionModel"].folder == "unets"
    assert found["FluxTransformer2DModel"].module == "diffusers.models.transformers.transformer_flux"
    assert not {"UNet2DConditionOutput", "MultiControlNetModel", "ModelMixin", "MotionAdapter"} & set(found)


@pytest.mark.slow
def test_a_video_model_is_given_frames():
    entry = next(entry for entry in _family("diffusers").entries() if entry.name == "LTX2VideoTransformer3DModel")
    assert entry.make().example.kwargs["num_frames"] == 5


@pytest.mark.slow
def test_a_model_that_takes_a_list_of_images_has_no_batch():
    entry = next(entry for entry in _family("diffusers").entries() if entry.name == "ZImageTransformer2DModel")
    case = entry.make()
    assert set(case.dynamic_shapes) == {"all"}
    assert len(case.example.kwargs["x"]) == 1


@pytest.mark.slow
def test_a_unet_is_asked_for_multiples():
    entry = next(entry for entry in _family("diffusers").entries() if entry.name == "UNet2DConditionModel, SDXL")
    shapes = entry.make().dynamic_shapes["all"]
    assert {axis: str(dim) for axis, dim in shapes["sample"].items()} == {0: "batch", 2: "4*height", 3: "4*width"}


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
