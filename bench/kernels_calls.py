"""What a kernel of one's own costs, for kernels.py: a build of my_add.cpp from nothing, and calls on small tensors."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from kernels_cases import Case, Machine, Measured, Section, one_node

import opbridge

__all__ = ["SECTIONS"]

MY_ADD = Path(__file__).parents[1] / "examples" / "my_add.cpp"


def built_from_nothing() -> None:
    """Builds my_add.cpp with an empty cache."""
    before = os.environ.get("OPBRIDGE_CACHE")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["OPBRIDGE_CACHE"] = folder
        try:
            opbridge.build(MY_ADD)
        finally:
            if before is None:
                del os.environ["OPBRIDGE_CACHE"]
            else:
                os.environ["OPBRIDGE_CACHE"] = before


def cases() -> Iterator[Case]:
    ops = opbridge.load(MY_ADD)
    a, b = torch.randn(2, 64)
    feeds = {"x0": a.numpy(), "x1": b.numpy()}

    def calls(model: bytes) -> Callable[[], object]:
        session = opbridge.session(model, threads=1, kernels=[ops.path])
        return lambda: session.run(None, feeds)

    mine = torch.ops.mylib.my_add.default
    yield Case(
        "my_add, 64 floats",
        {
            "Add": calls(one_node("Add", (a, b), "")),
            "kernel": calls(one_node("my_add", (a, b), "mylib", alpha=2.0)),
            "torch.add": lambda: torch.add(a, b, alpha=2.0),
            "kernel in PyTorch": lambda: mine(a, b),
            "build": built_from_nothing,
        },
    )


def row(case: Case, measured: Measured, machine: Machine) -> list[str]:
    columns = ("Add", "kernel", "torch.add", "kernel in PyTorch")
    microseconds = [f"{measured.seconds[name] * 1e6:.2f}" for name in columns]
    return [case.name, *microseconds, f"{measured.seconds['build']:.2f}"]


SECTIONS = [
    Section(
        "Calls and builds",
        [
            "us per call",
            "ONNX Runtime's Add",
            "my_add in ONNX Runtime",
            "torch.add",
            "my_add in PyTorch",
            "build from nothing, s",
        ],
        cases,
        row,
    )
]
