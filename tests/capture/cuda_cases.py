"""Models with CUDA in their code, exported in a process of `helpers.cuda_without_gpu`; prints what became of each."""

from __future__ import annotations

import copy
import hashlib
import json
import sys
import warnings
from collections.abc import Callable
from typing import Any

import torch
from helpers.cuda_without_gpu import OnHost
from torch import Tensor, nn

import opbridge


class Function(nn.Module):
    """A layer, and what the case does with its result."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.layer, self.function = nn.Linear(3, 3), function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(self.layer(x))


def stream(x: Tensor) -> Tensor:
    other = torch.cuda.Stream()
    with torch.cuda.stream(other):
        y = x * 2
    torch.cuda.current_stream().wait_stream(other)
    y.record_stream(torch.cuda.current_stream())
    return y


def autocast(x: Tensor) -> Tensor:
    with torch.autocast("cuda", dtype=torch.float16):
        return x @ x


def calls(x: Tensor) -> Tensor:
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    event = torch.cuda.Event()
    event.record()
    with torch.cuda.device(0):
        return x + 1 if torch.cuda.is_available() else x - 1


def pinned(x: Tensor) -> Tensor:
    return x.cpu().pin_memory().to(x.device, non_blocking=True) + 1


def decided(x: Tensor) -> Tensor:
    return x * 2 if x.sum() > 0 else x - 1


FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "a named device": lambda x: x + torch.zeros(3, device="cuda") + torch.tensor([1.0, 2.0, 3.0], device="cuda"),
    "moves": lambda x: x.to("cuda").cuda().to("cuda:0") * 2,
    "back": lambda x: (x.cpu() + 1).to(x.device),
    "a constant there": lambda x: x + torch.arange(3, device=x.device),
    "legacy types": lambda x: x.type(torch.cuda.FloatTensor) + torch.cuda.FloatTensor([1.0, 2.0, 3.0]),
    "stream": stream,
    "autocast": autocast,
    "calls": calls,
    "pinned": pinned,
    "decided": decided,
}


class Net(nn.Module):
    """Parameters, buffers, and constants made in forward."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 5))
        self.register_buffer("scale", torch.linspace(1, 2, 5))

    def forward(self, x: Tensor) -> Tensor:
        mask = torch.zeros(5, device=x.device)
        mask[1:] = 1
        return self.layers(x) * self.scale * mask


class Split(nn.Module):
    """Two layers on two devices."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(3, 4).to("cuda:0"), nn.Linear(4, 2).to("cuda:1")

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.first(x).to("cuda:1"))


def exported(model: nn.Module, x: Tensor) -> dict[str, Any]:
    """What became of a model."""
    try:
        program = opbridge.export(model, (x,))
    except opbridge.OpbridgeError as error:
        return {"error": f"{type(error).__name__}: {error}"}
    content = program.to_bytes()
    operators = [node.op_type for node in program.model.graph]
    return {"ok": program.verification.ok, "operators": operators, "hash": hashlib.sha256(content).hexdigest()}


def main() -> None:
    """Prints a line of JSON."""
    warnings.simplefilter("ignore")
    torch.backends.cudnn.enabled = False
    torch.manual_seed(0)
    net, image, found = Net().eval(), torch.randn(1, 3, 8, 8), {}
    found["net on the CPU"] = exported(copy.deepcopy(net), image)
    with OnHost():
        found["net"] = exported(copy.deepcopy(net).cuda(), image.cuda())
        found["input on the CPU"] = exported(copy.deepcopy(net).cuda(), image)
        found["split"] = exported(Split(), torch.randn(2, 3).cuda())
        for name, function in FUNCTIONS.items():
            found[name] = exported(Function(function).cuda(), torch.randn(3, 3).cuda())
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
