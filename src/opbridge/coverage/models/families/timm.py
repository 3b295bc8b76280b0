"""timm: the smallest model of each of its families."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from functools import partial
from typing import Any

import torch

from opbridge.coverage.models.entries import Case, Inputs, ModelEntry

__all__ = ["PACKAGES", "entries"]

PACKAGES = ("timm",)

# How timm calls sizes, the smallest first.
_SIZES = (
    *("test", "zepto", "atto", "femto", "pico", "nano", "xxtiny", "xxs", "xx", "slim", "b0", "m0", "t0", "xs", "xtiny"),
    *("tiny", "ti", "t", "mini", "small", "s"),
)

_SIDE = 224
"""The side of an image where the model takes any and does not say how small."""

_LARGE = 60_000_000
"""So many parameters make a model slow to try."""


def entries() -> Iterator[ModelEntry]:
    """One model of each module of timm's: the smallest by what its name and its configuration say.

    To count parameters, all 1400 would have to be built, which takes minutes.
    """
    import timm

    for module in timm.list_modules():
        names = timm.list_models(module=module)
        if names:
            name = min(names, key=_size)
            yield ModelEntry(name, partial(_case, name))


def _size(name: str) -> tuple[int, int, int, int, str]:
    """What orders models by their size: a word for it, the area of the images, the numbers in the name."""
    import timm

    words = [part.rstrip("0123456789") for part in name.split("_")] + name.split("_")
    rank = min((_SIZES.index(word) for word in words if word in _SIZES), default=len(_SIZES))
    configuration = timm.get_pretrained_cfg(name)
    height, width = configuration.input_size[1:] if configuration is not None else (224, 224)
    numbers = [int(number) for number in re.findall(r"\d+", name)]
    return rank, height * width, max(numbers, default=0), len(name), name


def _model(name: str) -> Any:
    """A model; a large one of equal blocks with two of them, where it takes their number."""
    import timm

    with torch.device("meta"):
        size = sum(parameter.numel() for parameter in timm.create_model(name, pretrained=False).parameters())
    if size > _LARGE:
        with contextlib.suppress(Exception):  # what does not know the option raises anything
            return timm.create_model(name, pretrained=False, depth=2).eval()
    return timm.create_model(name, pretrained=False).eval()


def _case(name: str) -> Case:
    """Images of the smallest size that the model says it takes; of two sizes more where it says it takes any."""
    model = _model(name)
    configuration = model.pretrained_cfg
    is_fixed = bool(configuration.get("fixed_input_size"))
    channels, height, width = configuration["input_size"]
    if not is_fixed:
        height, width = configuration.get("min_input_size", (channels, min(height, _SIDE), min(width, _SIDE)))[1:]

    def images(batch: int, added: int = 0) -> Inputs:
        return Inputs((torch.randn(batch, channels, height + added, width + 2 * added),))

    others = [images(1), images(3)]
    shapes: dict[str, Any] = {"batch": ({0: "batch"},), "all": ({0: "batch"},)}
    if is_fixed:
        return Case(model, images(2), shapes, {"none": [images(2)], "batch": others, "all": others})
    shapes["all"] = ({0: "batch", 2: "height", 3: "width"},)
    return Case(model, images(2), shapes, {"none": [images(2)], "batch": others, "all": [images(1), images(3, 32)]})
