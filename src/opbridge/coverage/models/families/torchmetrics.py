"""torchmetrics' functions, which people compute in the files of their models: they branch on data and count by it."""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch

from opbridge.coverage.models.entries import Case, Inputs, ModelEntry
from opbridge.coverage.models.varying import Size, vary
from opbridge.coverage.models.wrapping import Calling

__all__ = ["PACKAGES", "entries"]

PACKAGES = ("torchmetrics",)

_CLASSES, _LABELS = 5, 4
_BATCH = {"batch": Size(16, (2, 9, 23))}
_IMAGES = {"batch": Size(2, (1, 3)), "height": Size(32, (27, 40)), "width": Size(32, (33, 24))}
_LARGE_IMAGES = {"batch": Size(2, (1, 3)), "height": Size(180, (190, 200))}
_OF_LARGE_IMAGES = frozenset({"multiscale_structural_similarity_index_measure", "visual_information_fidelity"})
_SIGNALS = {"batch": Size(2, (1, 3)), "time": Size(400, (321, 512))}

_FIXED: dict[str, Any] = {
    "num_classes": _CLASSES,
    "num_labels": _LABELS,
    "beta": 0.5,
    "data_range": 1.0,
    "min_precision": 0.5,
    "min_recall": 0.5,
    "min_sensitivity": 0.5,
    "min_specificity": 0.5,
}
"""What functions ask for besides the predictions and the targets."""

_LEFT_OUT = frozenset(
    {
        *("cluster_accuracy", "deep_image_structure_and_texture_similarity"),
        *("complex_scale_invariant_signal_noise_ratio", "continuous_ranked_probability_score", "cosine_similarity"),
    }
)
"""Functions that need another package or weights from elsewhere, or inputs of another rank."""


def entries() -> Iterator[ModelEntry]:
    """The functions of each folder that take predictions and targets alone, or with `_FIXED`."""
    for name, draw, sizes in (
        ("classification", _for_classification, lambda name: _BATCH),
        ("clustering", _labels, lambda name: _BATCH),
        ("image", _images, lambda name: _LARGE_IMAGES if name in _OF_LARGE_IMAGES else _IMAGES),
        ("audio", _signals, lambda name: _SIGNALS),
        ("nominal", _labels, lambda name: _BATCH),
        ("regression", _numbers, lambda name: _BATCH),
        ("retrieval", partial(_for_classification, "binary"), lambda name: _BATCH),
    ):
        module = f"torchmetrics.functional.{name}"
        for function in _functions(module):
            drawn = partial(draw, function) if draw is _for_classification else draw
            yield ModelEntry(f"{name}.{function}", partial(_make, module, function, drawn, sizes(function)))


@functools.cache
def _functions(module: str) -> list[str]:
    """The functions of a module that take these, and nothing else that has no default."""
    found = []
    for name, function in vars(importlib.import_module(module)).items():
        if not inspect.isfunction(function) or name.startswith("_") or name in _LEFT_OUT:
            continue
        needed = [each.name for each in inspect.signature(function).parameters.values() if each.default is each.empty]
        if needed[:2] == ["preds", "target"] and set(needed[2:]) <= _FIXED.keys():
            found.append(name)
    return sorted(found)


def _make(module: str, name: str, draw: Callable[..., Inputs], sizes: dict[str, Size]) -> Case:
    function = getattr(importlib.import_module(module), name)
    parameters = inspect.signature(function).parameters
    needed = {key: _FIXED[key] for key, each in parameters.items() if key in _FIXED and each.default is each.empty}
    return vary(Calling(function, **needed), draw, sizes)


def _for_classification(name: str, batch: int) -> Inputs:
    if name.startswith("multiclass"):
        return Inputs((torch.randn(batch, _CLASSES).softmax(-1), torch.randint(0, _CLASSES, (batch,))))
    if name.startswith("multilabel"):
        return Inputs((torch.rand(batch, _LABELS), torch.randint(0, 2, (batch, _LABELS))))
    return Inputs((torch.rand(batch), torch.randint(0, 2, (batch,))))


def _labels(batch: int) -> Inputs:
    return Inputs((torch.randint(0, _CLASSES, (batch,)), torch.randint(0, _CLASSES, (batch,))))


def _numbers(batch: int) -> Inputs:
    """Positive numbers, of which some functions take the logarithm."""
    values = torch.rand(batch) + 0.1
    return Inputs((values, values + 0.1 * torch.rand(batch)))


def _images(batch: int, height: int = 180, width: int = 180) -> Inputs:
    image = torch.rand(batch, 3, height, width)
    return Inputs((image, (image + 0.1 * torch.rand_like(image)).clamp(0, 1)))


def _signals(batch: int, time: int) -> Inputs:
    signal = torch.randn(batch, time)
    return Inputs((signal + 0.1 * torch.randn_like(signal), signal))
