"""diffusers' UNets, transformers and autoencoders: every class of its models, with small numbers for its defaults."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from functools import partial
from typing import Any

import torch

from opbridge.coverage.models.entries import Case, Inputs, ModelEntry
from opbridge.coverage.models.families.diffusers.draws import candidates
from opbridge.coverage.models.families.diffusers.shrink import arguments
from opbridge.coverage.models.varying import Size, runs, vary

__all__ = ["PACKAGES", "entries"]

PACKAGES = ("diffusers",)

_FOLDERS = ("unets", "transformers", "autoencoders", "controlnets")
_SIZES = {
    "batch": Size(2, (1, 3)),
    "height": Size(8, (12, 16)),
    "width": Size(12, (16, 8)),
    "frames": Size(5, (9,)),
    "sequence": Size(7, (5, 9)),
}


def entries() -> Iterator[ModelEntry]:
    """The classes that say what configures them, and take a sample."""
    seen = set()
    for folder in _FOLDERS:
        package = importlib.import_module(f"diffusers.models.{folder}")
        for module in pkgutil.iter_modules(package.__path__):
            found = importlib.import_module(f"{package.__name__}.{module.name}")
            for name, cls in vars(found).items():
                if name not in seen and getattr(cls, "__module__", "") == found.__name__ and _is_model(cls):
                    seen.add(name)
                    yield ModelEntry(name, partial(_make, cls))


def _is_model(cls: Any) -> bool:
    from diffusers import ConfigMixin, ModelMixin

    return isinstance(cls, type) and issubclass(cls, ModelMixin) and issubclass(cls, ConfigMixin)


def _make(cls: Any) -> Case:
    """Of the ways to draw inputs the first that the model runs on."""
    torch.manual_seed(0)
    model = cls(**arguments(cls)).eval()
    ways = list(candidates(model))
    chosen = next((way for way in ways if runs(model, way[0](**_examples(way[1])))), ways[0])
    draw, names = chosen
    sizes = {name: size for name, size in _SIZES.items() if name in names}
    return vary(model, draw, {name: _allowed(model, draw, name, sizes) for name in sizes})


def _examples(names: list[str]) -> dict[str, int]:
    return {name: _SIZES[name].example for name in names}


def _allowed(model: Any, draw: Any, name: str, sizes: dict[str, Size]) -> Size:
    """A size, with its other values where the model runs on them."""
    size = sizes[name]
    other: Inputs = draw(**_examples(list(sizes)) | {name: size.others[0]})
    return size if name == "batch" or runs(model, other) else Size(size.example, ())
