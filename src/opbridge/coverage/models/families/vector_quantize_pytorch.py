"""vector_quantize_pytorch's quantizers, each as it is, with the options that change what it computes, and on images."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import torch

from opbridge.coverage.models.entries import Case, Inputs, ModelEntry
from opbridge.coverage.models.varying import Size, runs, vary

__all__ = ["PACKAGES", "entries"]

PACKAGES = ("vector_quantize_pytorch",)

_WIDTH = 16
_SIZES = {"batch": Size(2, (1, 3)), "sequence": Size(12, (9, 20))}
_IMAGE_SIZES = {"batch": Size(2, (1, 3)), "height": Size(8, (12, 16)), "width": Size(12, (8, 20))}
_LEFT_OUT = ("EvoLFQ", "Sequential")
"""An autoencoder that is evolved, and a container."""

_ARGUMENTS: Mapping[str, Any] = {
    "dim": _WIDTH,
    "codebook_size": 32,
    "codebook_dim": 8,
    "num_quantizers": 3,
    "levels": [8, 5, 5, 5],
    "scales": (1, 2, 4),
    "groups": 2,
}
"""Constructor arguments by name, for parameters without a default."""
_OWN: Mapping[str, Mapping[str, Any]] = {
    "ResidualVQ": {"codebook_size": 32, "num_quantizers": 3},
    "GroupedResidualVQ": {"codebook_size": 32, "num_quantizers": 3, "groups": 2},
    "GroupedResidualLFQ": {"codebook_size": 16, "num_quantizers": 3, "groups": 2},
    "GroupedResidualFSQ": {"levels": [8, 5, 5, 5], "num_quantizers": 3, "groups": 2},
    "LFQ": {"dim": _WIDTH, "codebook_size": 16},
    "ResidualLFQ": {"codebook_size": 16},
    "FSQ": {"dim": _WIDTH},
    "FSP": {"dim": _WIDTH},
    "ResidualFSQ": {"dim": _WIDTH},
    "LatentQuantize": {"levels": [5, 5, 8], "dim": _WIDTH},
    "BinaryMapper": {"bits": 4},
    "HierarchicalVQ": {"kmeans_init": False, "accept_image_fmap": True},
}
"""What classes need beside. A quantizer that is not initialised initialises itself from data, so this is off."""
_OPTIONS: Mapping[str, Any] = {
    "use_cosine_sim": True,
    "heads": 2,
    "num_codebooks": 2,
    "codebook_dim": 8,
    "layernorm_after_project_in": True,
    "implicit_neural_codebook": True,
    "shared_codebook": True,
    "preserve_symmetry": True,
    "bound_hard_clamp": True,
    "spherical": True,
    "soft_clamp_input_value": 4.0,
    "deterministic_on_eval": True,
    "frozen_codebook_dim": 8,
    "accept_image_fmap": True,
    "channel_first": True,
    "is_channel_first": True,
}
"""Each of them is tried alone with every class that has it and another default."""
_IMAGES = ("accept_image_fmap", "channel_first", "is_channel_first")
_OF_IMAGES = ("HierarchicalVQ", "LatentQuantize")
"""What takes images without being told so."""


def entries() -> Iterator[ModelEntry]:
    """Every quantizer, and every quantizer with each option."""
    import vector_quantize_pytorch as package

    for name, cls in vars(package).items():
        if not inspect.isclass(cls) or not issubclass(cls, torch.nn.Module) or name in _LEFT_OUT:
            continue
        yield ModelEntry(name, partial(_make, cls, {}))
        for option, value in _OPTIONS.items():
            parameter = _parameters(cls).get(option)
            if parameter is not None and parameter.default not in (parameter.empty, value):
                yield ModelEntry(f"{name}, {option}", partial(_make, cls, {option: value}))


def _parameters(cls: Any) -> dict[str, inspect.Parameter]:
    found = dict(inspect.signature(cls.__init__).parameters)
    found.pop("self")
    return found


def _make(cls: Any, option: Mapping[str, Any]) -> Case:
    known = {p.name: _ARGUMENTS[p.name] for p in _parameters(cls).values() if _is_required(p)}
    model = cls(**{**known, **_OWN.get(cls.__name__, {}), **option}).eval()
    if any(name in option for name in _IMAGES) or cls.__name__ in _OF_IMAGES:
        return vary(model, _images, _IMAGE_SIZES)
    draw = partial(_sequences, _OWN["BinaryMapper"]["bits"] if cls.__name__ == "BinaryMapper" else _WIDTH)
    if not runs(model, draw(batch=2, sequence=9)):
        return vary(model, draw, {"batch": _SIZES["batch"], "sequence": Size(12, ())})
    return vary(model, draw, _SIZES)


def _is_required(parameter: inspect.Parameter) -> bool:
    return parameter.default is parameter.empty and parameter.kind not in (
        parameter.VAR_KEYWORD,
        parameter.VAR_POSITIONAL,
    )


def _sequences(width: int, batch: int, sequence: int) -> Inputs:
    return Inputs((torch.randn(batch, sequence, width),))


def _images(batch: int, height: int, width: int) -> Inputs:
    return Inputs((torch.randn(batch, _WIDTH, height, width),))
