"""ultralytics' models: one for each YAML file of its package, with its default head."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch

from opbridge.coverage.models.entries import Case, Inputs, ModelEntry
from opbridge.coverage.models.varying import Size, vary

__all__ = ["PACKAGES", "entries"]

PACKAGES = ("ultralytics",)

_SIZES = {"batch": Size(2, (1, 3)), "height": Size(160, (192, 224)), "width": Size(192, (224, 160))}
"""Multiples of 32, with places for the 300 boxes that some heads choose."""
_SIZES_P6 = {"batch": Size(2, (1, 3)), "height": Size(192, (256, 320)), "width": Size(256, (320, 192))}
"""Multiples of 64, for models with a sixth level."""


def entries() -> Iterator[ModelEntry]:
    """The names of the files; a file for several scales gives its smallest."""
    import importlib.util

    spec = importlib.util.find_spec("ultralytics")
    folder = Path(str(spec and spec.origin)).parent / "cfg" / "models"
    for path in sorted(folder.rglob("*.yaml"), key=lambda path: path.name):
        yield ModelEntry(path.stem, partial(_make, path))


def _make(path: Path) -> Case:
    return vary(_model(path), _images, _SIZES_P6 if "p6" in path.stem else _SIZES)


def _model(path: Path) -> Any:
    from ultralytics import RTDETR, YOLO, YOLOE

    if "resnet" in path.stem and "cls" in path.stem:
        return _with_backbone(path)
    kind = RTDETR if "rtdetr" in path.stem else YOLOE if "yoloe" in path.stem else YOLO
    return kind(str(path)).model.eval()


def _with_backbone(path: Path) -> Any:
    """A classifier on a model of torchvision's, without the weights that the file asks for."""
    from ultralytics.nn.tasks import ClassificationModel, yaml_model_load

    config = yaml_model_load(path)
    for layer in config["backbone"]:
        layer[3] = [None if value == "DEFAULT" else value for value in layer[3]]
    return ClassificationModel(config, verbose=False)


def _images(batch: int, height: int, width: int) -> Inputs:
    return Inputs((torch.rand(batch, 3, height, width),))
