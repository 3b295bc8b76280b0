"""Small models, and the files of them that are damaged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch

__all__ = ["SPEC", "write_seeds"]

SPEC = str(Path(__file__))
"""The file of the factories, as the command line takes it."""


class _Layers(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = torch.nn.Linear(12, 40), torch.nn.LayerNorm(40)
        self.table = torch.nn.Embedding(20, 12)

    def forward(self, x: torch.Tensor, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = torch.nn.functional.gelu(self.norm(self.first(x + self.table(ids))))
        return y.softmax(-1), y.reshape(y.shape[0], 2, 20).transpose(1, 2).argmax(1)


class _Control(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.cond(x.sum() > 0, lambda x: x * 2, lambda x: x - 1, (x,))
        return torch.nn.functional.pad(y, (1, 2)).cumsum(-1)


class _Convolution(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 4, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.interpolate(self.conv(x), scale_factor=2, mode="bilinear").amax((2, 3))


def layers() -> tuple[Any, Any]:
    torch.manual_seed(0)
    return _Layers().eval(), (torch.randn(3, 12), torch.randint(20, (3,)))


def control() -> tuple[Any, Any]:
    torch.manual_seed(0)
    return _Control().eval(), (torch.randn(2, 5),)


def convolution() -> tuple[Any, Any]:
    torch.manual_seed(0)
    return _Convolution().eval(), (torch.randn(2, 3, 6, 6),)


def write_seeds(folder: Path) -> None:
    """Writes a folder for each model and form: `model.onnx`, what belongs to it, and the name of its factory."""
    import opbridge

    forms = {
        "plain": {},
        "dynamic": {"dynamic_shapes": "batch"},
        "beside": {"external_data": True},
        "aten": {"allow": ("aten",)},
        "old": {"opset_version": 13},
    }
    for factory in (layers, control, convolution):
        for form, keywords in forms.items():
            if factory is control and form == "aten":
                continue
            own = folder / f"{factory.__name__}-{form}"
            own.mkdir(parents=True)
            model, args = factory()
            opbridge.export(model, args, own / "model.onnx", verify=False, **keywords)
            (own / "spec.txt").write_text(factory.__name__)
            if form == "plain":
                arrays = [each.numpy() for each in args]
                np.savez(own / "inputs.npz", *arrays)
                np.save(own / "inputs.npy", arrays[0])
                (own / "results.json").write_text(
                    json.dumps({"format": 1, "operators": {}, "samples": [{"name": "x"}], "settings": {}, "models": []})
                )
