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


def entries() -> Iterator[ModelEntry]:
    """The names of the files; a file for several scales gives its smallest."""
    import importlib.util

    spec = importlib.util.find_spec("ultralytics")
    folder = Path(str(spec and spec.origin)).parent / "cfg" / "models"
    for path in sorted(folder.rglob("*.yaml"), key=lambda path: path.name):
        yield ModelEntry(path.stem, partial(_make, path))


def _make(path: Path) -> Case:
    return vary(_model(path), _images, _SIZES)


def _model(path: Path) -> Any:
    from ultralytics import RTDETR, YOLO, YOLOE

    kind = RTDETR if "rtdetr" in path.stem else YOLOE if "yoloe" in path.stem else YOLO
    return kind(str(path)).model.eval()


def _images(batch: int, height: int, width: int) -> Inputs:
    return Inputs((torch.rand(batch, 3, height, width),))
