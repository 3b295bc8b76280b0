"""Aten nodes beside the same calls in PyTorch: what a node costs more, and models with a heavy one among standard ones.

The models are two that people would deploy, and four that are little more than the node: it stands between two linear
layers, so that the threads of ONNX Runtime and those of libtorch take turns every few milliseconds.

What a node costs is the difference between a model with a chain of nodes and one with a single node, for each of the
others; ONNX Runtime's own overhead of a run is not in it. Bursts of calls, the contenders in turns, in one process;
between the bursts there is a pause, in which the threads of the one before come to rest.

    python bench/aten.py
    python bench/aten.py --quick    # fewer and shorter bursts, nothing written
"""

from __future__ import annotations

import argparse
import copy
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import onnxruntime
import torch
from bound import Bound
from results import interleaved, median, table, write_section
from torchvision.models import resnet18

import opbridge

CHAIN = 16
THREADS = 2


class Chain(torch.nn.Module):
    """A function again and again, on its own result."""

    def __init__(self, function: Callable[..., torch.Tensor], length: int) -> None:
        super().__init__()
        self.function = function
        self.length = length

    def forward(self, x: torch.Tensor, *more: torch.Tensor) -> torch.Tensor:
        for _ in range(self.length):
            x = self.function(x, *more)
        return x


def calls() -> dict[str, tuple[Callable[..., torch.Tensor], tuple[torch.Tensor, ...], str]]:
    """Function, inputs and operator, by a name for the table."""
    x, y = torch.randn(4, 4), torch.randn(4, 4)
    z = torch.randn(4, 4, dtype=torch.float64)
    image, weight = torch.randn(1, 4, 8, 8), torch.randn(4, 4, 3, 3)
    return {
        "special_airy_ai(x)": (torch.special.airy_ai, (x,), "aten::special_airy_ai"),
        "relu(x)": (torch.relu, (x,), "aten::relu"),
        "mm(x, y)": (torch.mm, (x, y), "aten::mm"),
        "add(x, y, alpha=2), with a Scalar": (lambda a, b: torch.add(a, b, alpha=2), (x, y), "aten::add.Tensor"),
        "addmm of doubles, two Scalars": (lambda a: torch.addmm(a, a, a, beta=0.5, alpha=0.1), (z,), "aten::addmm"),
        "roll(x, [1, 1], [0, 1]), with lists": (lambda a: torch.roll(a, (1, 1), (0, 1)), (x,), "aten::roll"),
        "transpose(x, 0, 1), a view": (lambda a: a.transpose(0, 1), (x,), "aten::transpose.int"),
        "stack([x, y]), with a list of tensors": (lambda a, b: torch.stack([a, b])[0], (x, y), "aten::stack"),
        "conv2d of 1x4x8x8": (
            lambda a, w: torch.nn.functional.conv2d(a, w, padding=1),
            (image, weight),
            "aten::conv2d",
        ),
    }


def cost_rows(runs: int, burst: float) -> list[list[str]]:
    rows = []
    for name, (function, args, operator) in calls().items():
        one, chain = session(Chain(function, 1), args, operator), session(Chain(function, CHAIN + 1), args, operator)
        taken = seconds({"eager": lambda f=function, a=args: f(*a), "one": one, "chain": chain}, runs, burst)
        node = (taken["chain"] - taken["one"]) / CHAIN
        row = [name, us(taken["eager"]), us(node), us(node - taken["eager"])]
        print(" | ".join(row), flush=True)
        rows.append(row)
    return rows


class Mixed(torch.nn.Module):
    """A heavy call among others."""

    def __init__(self, heavy: Callable[[torch.Tensor], torch.Tensor], width: int) -> None:
        super().__init__()
        self.heavy = heavy
        self.before = torch.nn.Linear(width, width)
        self.after = torch.nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.after(self.heavy(torch.relu(self.before(x)))))


def mixed() -> dict[str, tuple[torch.nn.Module, tuple[torch.Tensor, ...], str]]:
    weight = torch.randn(1024, 1024)
    kernel = torch.randn(32, 32, 3, 3)
    return {
        "mm, 1024x1024 by 1024x1024": (
            Mixed(lambda x: torch.mm(x, weight), 1024),
            (torch.randn(1024, 1024),),
            "aten::mm",
        ),
        "conv2d, 8x32x64x64 by 32x32x3x3": (
            Mixed(lambda x: torch.nn.functional.conv2d(x, kernel, padding=1), 64),
            (torch.randn(8, 32, 64, 64),),
            "aten::conv2d",
        ),
        "special_bessel_j0, 512x1024": (
            Mixed(torch.special.bessel_j0, 1024),
            (torch.randn(512, 1024),),
            "aten::special_bessel_j0",
        ),
        "sort, 512x1024": (Mixed(lambda x: torch.sort(x, -1)[0], 1024), (torch.randn(512, 1024),), "aten::sort"),
    }


class SecondOrder(torch.nn.Module):
    """A classifier by the square root of the covariance of its features (Li et al., arXiv 1703.08050)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.features = torch.nn.Sequential(*list(resnet18().children())[:-2], torch.nn.Conv2d(512, width, 1))
        self.classify = torch.nn.Linear(width * width, 1000)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        features = self.features(x).flatten(2)
        features = features - features.mean(2, keepdim=True)
        values, vectors = torch.linalg.eigh(features @ features.transpose(1, 2) / features.shape[2])
        root = (vectors * (values.clamp(min=0) + 1e-3).sqrt().unsqueeze(1)) @ vectors.transpose(1, 2)
        return self.classify(root.flatten(1))


class Activated(torch.nn.Module):
    """resnet18 with a function after its first stage."""

    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        stages = list(resnet18().children())
        self.function = function
        self.before = torch.nn.Sequential(*stages[:5])
        self.after = torch.nn.Sequential(*stages[5:-1], torch.nn.Flatten(), stages[-1])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.after(self.function(self.before(x)))


def deployed() -> dict[str, tuple[torch.nn.Module, tuple[torch.Tensor, ...], str]]:
    images = torch.randn(2, 3, 224, 224)
    return {
        "resnet18, linalg.eigh of its features' covariance, 2x256x256": (
            SecondOrder(256),
            (images,),
            "aten::_linalg_eigh",
        ),
        "resnet18, special_bessel_j0 of 2x64x56x56": (
            Activated(torch.special.bessel_j0),
            (images,),
            "aten::special_bessel_j0",
        ),
    }


def model_rows(
    models: dict[str, tuple[torch.nn.Module, tuple[torch.Tensor, ...], str]], runs: int, burst: float
) -> list[list[str]]:
    rows = []
    for name, (model, args, operator) in models.items():
        model.eval()
        contenders = {"eager": lambda m=model, a=args: m(*a), "aten": session(model, args, operator, THREADS)}
        if isinstance(model, Mixed):
            rest = copy.copy(model)
            rest.heavy = lambda x: x
            contenders |= {
                "rest eager": lambda m=rest, a=args: m(*a),
                "rest": session(rest, args, operator, THREADS),
            }
        taken = seconds(contenders, runs, burst)
        row = [name, ms(taken["eager"]), ms(taken["aten"]), f"{taken['aten'] / taken['eager']:.2f}"]
        row += [ms(taken[each]) for each in ("rest eager", "rest") if each in taken]
        print(" | ".join(row), flush=True)
        rows.append(row)
    return rows


def session(model: torch.nn.Module, args: Sequence[torch.Tensor], operator: str, threads: int = 1) -> Callable[[], Any]:
    """A run of the exported model, on inputs that are bound once."""
    program = opbridge.export(model, tuple(args), allow=("standard", "aten"), routes={operator: "aten"})
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    return Bound(program.session(options=options, threads=threads), args)


def seconds(contenders: dict[str, Callable[[], object]], runs: int, burst: float) -> dict[str, float]:
    """The time of one call of each contender."""
    counts = {}
    for name, contender in contenders.items():
        contender()
        start = time.perf_counter()
        contender()
        counts[name] = max(1, int(burst / (time.perf_counter() - start)))

    def repeated(name: str) -> Callable[[], None]:
        def run() -> None:
            for _ in range(counts[name]):
                contenders[name]()

        return run

    taken = interleaved({name: repeated(name) for name in contenders}, runs, tidy=lambda: time.sleep(0.02))
    return {name: median(values) / counts[name] for name, values in taken.items()}


def us(value: float) -> str:
    return f"{value * 1e6:.1f}"


def ms(value: float) -> str:
    return f"{value * 1e3:.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="fewer and shorter bursts; nothing is written")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_grad_enabled(False)
    runs, burst = (5, 0.02) if options.quick else (15, 0.1)
    torch.set_num_threads(1)
    cost = cost_rows(runs, burst)
    torch.set_num_threads(THREADS)
    burst *= 4  # the threads of one contender are in the way of the next one's first calls
    models, mixes = model_rows(deployed(), runs, burst), model_rows(mixed(), runs, burst)
    columns = ["eager PyTorch", "ONNX Runtime with an aten node", "ratio"]
    body = (
        f"Medians of {runs} bursts, interleaved in one process. One thread, us per call, from a chain of {CHAIN} "
        + "nodes:\n\n"
        + table(["call", "eager PyTorch", "aten node", "more"], cost)
        + f"\n\nModels with an expensive call, {THREADS} threads, ms per run:\n\n"
        + table(["model", *columns], models)
        + f"\n\nAn expensive call between linear layers with relu, {THREADS} threads, ms per run; then the layers "
        + "alone:\n\n"
        + table(["expensive call", *columns, "layers, eager", "layers, ONNX Runtime"], mixes)
    )
    if options.quick:
        print(f"\n{body}")
        return
    write_section("aten", "Aten nodes", body)


if __name__ == "__main__":
    main()
