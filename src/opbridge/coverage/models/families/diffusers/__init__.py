"""diffusers' UNets, transformers, autoencoders and control networks: every class, from its defaults made smaller."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import torch

from opbridge.coverage.models.entries import Case, ModelEntry
from opbridge.coverage.models.families.diffusers.classes import FOLDERS, ModelClass, model_classes
from opbridge.coverage.models.families.diffusers.draws import Way, candidates
from opbridge.coverage.models.families.diffusers.own import VARIANTS
from opbridge.coverage.models.families.diffusers.parts import PARTS
from opbridge.coverage.models.families.diffusers.shrink import arguments
from opbridge.coverage.models.varying import Size, runs, vary

__all__ = ["MODULES", "PACKAGES", "entries"]

PACKAGES = ("diffusers",)
MODULES = tuple(f"diffusers.models.{folder}" for folder in FOLDERS)
"""What a worker needs in any case, and takes seconds to import."""


def entries() -> Iterator[ModelEntry]:
    """The classes, those with a configuration that their pipelines use a second time, and parts that run alone."""
    seen = set()
    for cls in model_classes():
        if cls.name not in seen:
            seen.add(cls.name)
            yield ModelEntry(cls.name, partial(_make, cls, {}))
            for variant, given in VARIANTS.get(cls.name, {}).items():
                yield ModelEntry(f"{cls.name}, {variant}", partial(_make, cls, given))
                for part in PARTS if cls.folder == "autoencoders" else ():
                    yield ModelEntry(f"{cls.name}, {variant}, {part}", partial(_make, cls, given, part))


def _make(found: ModelClass, given: Mapping[str, Any], part: str | None = None) -> Case:
    """Of the ways to draw inputs the first that the model runs on."""
    torch.manual_seed(0)
    cls = found.load()
    model = cls(**{**arguments(cls), **given}).eval()
    ways = list(candidates(model, found.folder))
    if part is not None:
        model, ways = PARTS[part](model)
    way = next((way for way in ways if _runs(model, way)), ways[0])
    fixed = ("frames",) if found.folder == "autoencoders" else ()
    sizes = {name: _allowed(model, way, name, fixed) for name in way.sizes}
    return vary(model, way.draw, sizes, multiples=_halves_images(model, found.folder))


def _runs(model: Any, way: Way, **others: int) -> bool:
    """Whether a way has inputs of these sizes, and the model runs on them."""
    try:
        inputs = way.inputs(**others)
    except Exception:  # a sample of another kind than the other parameters are drawn for
        return False
    return runs(model, inputs)


def _halves_images(model: Any, folder: str) -> bool:
    """Whether it is a UNet: users give it heights and widths that are multiples of what it makes images smaller by."""
    return folder in ("unets", "controlnets") and "block_out_channels" in getattr(model, "config", {})


def _allowed(model: Any, way: Way, name: str, fixed: Sequence[str]) -> Size:
    """A size, with its other values where the model runs on the largest of them.

    The number of frames of an autoencoder is fixed: its Python loop takes some of them at a time.
    """
    size = way.sizes[name]
    if name in fixed:
        return dataclasses.replace(size, others=())
    if name == "batch" or not size.others or _runs(model, way, **{name: max(size.others)}):
        return size
    return dataclasses.replace(size, others=())
