"""All models of torchvision."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch

from opbridge.coverage.models.entries import Case, Inputs, ModelEntry

__all__ = ["PACKAGES", "entries"]

PACKAGES = ("torchvision",)

_SIDE = 64
"""The side of an image where the model takes any: large enough for five halvings."""


def entries() -> Iterator[ModelEntry]:
    """Every model that torchvision lists; those that detect have a name that begins with "detection/"."""
    from torchvision import models

    for name in models.list_models():
        module = models.get_model_builder(name).__module__.removeprefix("torchvision.models.")
        group = module.partition(".")[0]
        if group == "detection":
            yield ModelEntry(f"detection/{name}", partial(_detection, name))
        elif group == "video":
            yield ModelEntry(name, partial(_video, name))
        elif group == "optical_flow":
            yield ModelEntry(name, partial(_optical_flow, name))
        else:
            yield ModelEntry(name, partial(_image, name, group == "segmentation"))


def _made(name: str, **options: Any) -> torch.nn.Module:
    from torchvision import models

    if name.startswith("quantized_"):
        options["quantize"] = True
    if name.endswith(("googlenet", "inception_v3")):
        options["init_weights"] = False  # which draws from scipy for minutes
    plain: dict[str, Any] = {"weights": None, **options}
    if models.get_model_builder(name).__module__.split(".")[2] in ("detection", "segmentation"):
        plain["weights_backbone"] = None
    return models.get_model(name, **plain).eval()


def _smallest(name: str) -> int:
    """The side of the smallest images that the authors of any of the model's weights say it takes."""
    from torchvision import models

    sides = [max(each.meta.get("min_size", (1, 1))) for each in models.get_model_weights(name)]
    return max(min(sides, default=_SIDE), _SIDE)


def _images(batch: int, *sizes: int) -> Inputs:
    return Inputs((torch.randn(batch, 3, *sizes),))


def _image(name: str, is_dense: bool) -> Case:
    """Of the models of single images, those that give a value for every pixel take images of all sizes."""
    side = _smallest(name)
    batch = [_images(1, side, side), _images(3, side, side)]
    shapes: dict[str, Any] = {"batch": ({0: "batch"},), "all": ({0: "batch"},)}
    others = {"none": [_images(2, side, side)], "batch": batch, "all": batch}
    if is_dense:
        shapes["all"] = ({0: "batch", 2: "height", 3: "width"},)
        others["all"] = [_images(1, side, side), _images(3, side + 32, side + 64)]
    return Case(_made(name), _images(2, side, side), shapes, others)


def _video(name: str) -> Case:
    """16 frames, of the size that the authors of the weights give; the transformers among them take no other."""
    side = 224 if name.startswith(("mvit", "s3d", "swin")) else 112
    batch = [_images(1, 16, side, side), _images(3, 16, side, side)]
    shapes = ({0: "batch"},)
    return Case(
        _made(name),
        _images(2, 16, side, side),
        {"batch": shapes, "all": shapes},
        {"none": [_images(2, 16, side, side)], "batch": batch, "all": batch},
    )


def _optical_flow(name: str) -> Case:
    def pair(batch: int, height: int, width: int) -> Inputs:
        return Inputs((torch.rand(batch, 3, height, width) * 2 - 1, torch.rand(batch, 3, height, width) * 2 - 1))

    batch = [pair(1, 128, 136), pair(3, 128, 136)]
    return Case(
        _made(name),
        pair(2, 128, 136),
        {"batch": ({0: "batch"}, {0: "batch"}), "all": ({0: "batch", 2: "height", 3: "width"},) * 2},
        {"none": [pair(2, 128, 136)], "batch": batch, "all": [pair(1, 128, 136), pair(3, 136, 160)]},
    )


def _detection(name: str) -> Case:
    """A list of images, as torchvision's own users call it; no batch, as every image may have another size."""
    side = 320

    def images(count: int, height: int, width: int) -> Inputs:
        return Inputs(([torch.rand(3, height, width) for _ in range(count)],))

    size = {} if name.startswith("ssd") else {"min_size": side, "max_size": side}  # that of an ssd is its own
    return Case(
        _made(name, **size),
        images(2, side, side),
        {"all": ([{1: "height0", 2: "width0"}, {1: "height1", 2: "width1"}],)},
        {"none": [images(2, side, side)], "all": [images(2, side, side), images(2, side - 32, side + 32)]},
    )
