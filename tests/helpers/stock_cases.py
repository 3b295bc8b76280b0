"""What torch.onnx.export gets silently wrong, one case an operator; and a script that lets it try.

python tests/helpers/stock_cases.py FOLDER     exports every case with torch.onnx and writes its outputs, as .npz
"""

from __future__ import annotations

import pathlib
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import onnxruntime
import torch

F = torch.nn.functional


def _seeded(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(1))


_EMPTY = (torch.empty(0),)
_NORM = (_seeded(5, 5, 5) * 9, _seeded(5), _seeded(5).abs(), _seeded(5), _seeded(5))

CASES: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...]]] = {
    "var": (lambda x: x.var(False), _EMPTY),
    "std": (lambda x: x.std(False), _EMPTY),
    "var_mean": (lambda x: torch.var_mean(x, False), _EMPTY),
    "std_mean": (lambda x: torch.std_mean(x, False), _EMPTY),
    "batch_norm": (lambda x, m, v, w, b: F.batch_norm(x, m, v, w, b, True, 0.5, 0.6), _NORM),
    "native_batch_norm": (lambda x, m, v, w, b: torch.native_batch_norm(x, w, b, m, v, True, 0.5, 0.6), _NORM),
    "_native_batch_norm_legit": (
        lambda x, m, v, w, b: torch._native_batch_norm_legit(x, w, b, m, v, True, 0.5, 0.6),
        _NORM,
    ),
    "avg_pool2d": (lambda x: F.avg_pool2d(x, 3, 1, 1, True, False, 2), (_seeded(1, 3, 9, 9),)),
    "avg_pool3d": (lambda x: F.avg_pool3d(x, 2, 1, 1, True, False, 2), (_seeded(1, 2, 4, 4, 4),)),
    "scatter_reduce mean": (
        lambda x, source: x.scatter_reduce(0, torch.tensor([[0, 1, 0], [0, 1, 2]]), source, "mean"),
        (_seeded(4, 3), _seeded(2, 3)),
    ),
    "nonzero": (lambda x: torch.nonzero(x), (torch.tensor(0.0),)),
    "special.log_ndtr": (torch.special.log_ndtr, (torch.linspace(-40, 8, 13),)),
    "special.erfcx": (torch.special.erfcx, (torch.linspace(-5, 20, 13),)),
}


def as_module(function: Callable[..., Any]) -> torch.nn.Module:
    """The stock exporter takes modules only."""

    class Module(torch.nn.Module):
        def forward(self, *args: torch.Tensor) -> Any:
            return function(*args)

    return Module().eval()


def main(folder: pathlib.Path) -> None:
    warnings.simplefilter("ignore")
    for name, (function, args) in CASES.items():
        program = torch.onnx.export(as_module(function), args, dynamo=True, verbose=False)
        session = onnxruntime.InferenceSession(program.model_proto.SerializeToString())
        feeds = {node.name: value.numpy() for node, value in zip(session.get_inputs(), args, strict=True)}
        np.savez(folder / f"{name}.npz", *session.run(None, feeds))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
