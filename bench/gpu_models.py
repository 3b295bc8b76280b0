"""Models on a CUDA device: their files, the session on it, and where the nodes run; a part of bench/gpu.py.

It needs torch with CUDA; with onnxruntime-gpu the files run there too. Under two minutes.
"""

from __future__ import annotations

import copy
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from results import table

import opbridge
from opbridge.runtimes import known
from opbridge.runtimes.placement.placement import placement

__all__ = ["report"]

_TOLERANCE = 1e-3
_IMAGES = ("resnet18", "mobilenet_v3_small", "vit_b_16", "fasterrcnn_mobilenet_v3_large_320_fpn")
_SECONDS = 90.0


class Small(torch.nn.Module):
    """Parameters, a buffer, and constants that forward makes on the device of its input."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Conv2d(3, 8, 3),
            torch.nn.BatchNorm2d(8),
            torch.nn.ReLU(),
            torch.nn.Flatten(),
            torch.nn.Linear(288, 5),
        )
        self.register_buffer("scale", torch.linspace(1, 2, 5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x) * self.scale + torch.arange(5, device=x.device)


def report() -> tuple[str, list[str]]:
    """The text of the section, and what is wrong."""
    wrong: list[str] = []
    said = [_same_files(wrong)]
    missing = "" if known.find("cuda").version() else "This onnxruntime has no CUDA, so that no file was run there."
    missing = missing or known.obstacle("cuda")
    if missing:
        return "\n\n".join([*said, missing]), wrong
    rows = list(_models(wrong))
    headings = [
        "model",
        "verified on CUDA",
        "nodes on the GPU",
        "on the CPU",
        "of sizes",
        "copies",
        "file, ms",
        "eager, ms",
    ]
    said += [_refused(wrong), table(headings, rows)]
    return "\n\n".join(said), wrong


def _same_files(wrong: list[str]) -> str:
    """Whether a model on the device gives the bytes of the one on the CPU."""
    model, x = Small().eval(), torch.randn(1, 3, 8, 8)
    on_cpu = opbridge.export(copy.deepcopy(model), (x,), verify=False).to_bytes()
    with torch.backends.cudnn.flags(allow_tf32=False):
        on_gpu = opbridge.export(copy.deepcopy(model).cuda(), (x.cuda(),))
    if on_gpu.to_bytes() != on_cpu:
        wrong.append("WRONG the file of a model on CUDA differs from that of the CPU")
    if on_gpu.verification is None or not on_gpu.verification.ok:
        wrong.append("WRONG a model on CUDA does not agree with its file")
    return f"A model on CUDA gives {'another file than' if wrong else 'the same bytes as'} on the CPU."


def _models(wrong: list[str]) -> Iterator[Sequence[str]]:
    """torchvision's models, verified on the device, and run with tensors that stay there."""
    try:
        import torchvision
    except ImportError:
        return
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        for name in _IMAGES:
            if time.perf_counter() - start > _SECONDS:
                return
            options = {"weights_backbone": None} if "rcnn" in name else {}
            model = torchvision.models.get_model(name, weights=None, **options).eval().cuda()
            x = torch.rand(1, 3, 224, 224, device="cuda")
            args: tuple[Any, ...] = ([x[0]],) if "rcnn" in name else (x,)
            path = Path(folder) / f"{name}.onnx"
            opbridge.export(model, args, path, verify=False)
            found = opbridge.verify(path, model, args, runtime="cuda")
            if not found.ok:
                wrong.append(f"WRONG {name} on CUDA: {found.summary()}")
            placed = placement(path)
            session = opbridge.session(path, runtime="cuda")
            feeds = {session.get_inputs()[0].name: args[0][0] if "rcnn" in name else x}
            with torch.no_grad(), torch.backends.cudnn.flags(allow_tf32=False):
                outputs = session.run(None, feeds)
                if any(each.device != x.device for each in outputs):
                    wrong.append(f"WRONG {name}: an output of the session is not on the device of its input")
                expected = model(*args)
                if isinstance(expected, torch.Tensor):
                    error = float((outputs[0] - expected).abs().max() / expected.abs().max())
                    if error > _TOLERANCE:
                        wrong.append(f"WRONG {name}: the session with tensors differs by {error:.3g}")
                times = [_milliseconds(partial(session.run, None, feeds)), _milliseconds(partial(model, *args))]
            counts = (placed.on_gpu, len(placed.fallen), len(placed.on_cpu) - len(placed.fallen), len(placed.copies))
            yield name, "yes" if found.ok else "no", *map(str, counts), *(f"{each:.2f}" for each in times)


def _refused(wrong: list[str]) -> str:
    """Errors in words, after which the session goes on."""
    content = opbridge.export(torch.nn.Linear(3, 2), (torch.ones(1, 3),), verify=False).to_bytes()
    session = opbridge.session(content, runtime="cuda")
    name = session.get_inputs()[0].name
    cases: dict[str, Callable[[], object]] = {
        "has no device cuda:99": lambda: opbridge.session(content, runtime="cuda:99"),
        "but the session runs on cpu": lambda: opbridge.session(content).run(None, {name: torch.ones(1, 3).cuda()}),
        "but torch.float64 was given": lambda: session.run(None, {name: torch.ones(1, 3).double().cuda()}),
    }
    for words, call in cases.items():
        try:
            call()
            wrong.append(f"WRONG no error with '{words}'")
        except opbridge.OpbridgeError as error:
            if words not in str(error):
                wrong.append(f"WRONG an error without '{words}': {error}")
    if tuple(session.run(None, {name: torch.ones(1, 3).cuda()})[0].shape) != (1, 2):
        wrong.append("WRONG the session does not go on after errors")
    return f"{len(cases)} wrong uses of a session on CUDA are errors in words."


def _milliseconds(call: Callable[[], object]) -> float:
    for _ in range(3):
        call()
    found = []
    for _ in range(10):
        torch.cuda.synchronize()
        start = time.perf_counter()
        call()
        torch.cuda.synchronize()
        found.append((time.perf_counter() - start) * 1000)
    return statistics.median(found)
