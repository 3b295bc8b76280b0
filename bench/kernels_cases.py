"""What the measurements of kernels share: cases, the machine's own speed, and models of one operator."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import onnx
import torch
from bound import Bound
from onnx import TensorProto, helper

import opbridge
from opbridge.kernels.builtin import load_builtin

__all__ = ["THREADS", "Case", "Machine", "Measured", "Section", "one_node", "runner"]

THREADS = 2


@dataclass(frozen=True)
class Machine:
    """What PyTorch reaches here, at its best.

    Attributes:
        flops: Operations a second, in a product of two matrices.
        bytes: Bytes a second that are read or written, in a copy.
        scaling: How many times as fast the copy is as on one thread.
    """

    flops: float
    bytes: float
    scaling: float

    @classmethod
    def measured(cls) -> Machine:
        a, b = torch.randn(2, 1024, 1024)
        source = torch.zeros(1 << 25)
        target = torch.zeros_like(source)
        product = _best(lambda: torch.mm(a, b))
        copy = _best(lambda: target.copy_(source))
        torch.set_num_threads(1)
        alone = _best(lambda: target.copy_(source))
        torch.set_num_threads(THREADS)
        return cls(2 * 1024**3 / product, 2 * source.nbytes / copy, alone / copy)

    def least(self, flops: float, bytes_: float) -> float:
        """The least seconds for so many operations and bytes."""
        return max(flops / self.flops, bytes_ / self.bytes)


def _best(call: Callable[[], object], runs: int = 20) -> float:
    taken = []
    for _ in range(runs):
        start = time.perf_counter()
        call()
        taken.append(time.perf_counter() - start)
    return min(taken)


class Measured:
    """The seconds of one call of each contender."""

    def __init__(self, seconds: Mapping[str, float]) -> None:
        self.seconds = seconds

    def ms(self, name: str) -> str:
        return f"{self.seconds[name] * 1e3:.3f}" if name in self.seconds else "-"

    def ratio(self, slower: str, faster: str) -> str:
        return f"{self.seconds[slower] / self.seconds[faster]:.1f}"


@dataclass(frozen=True)
class Case:
    """One size of one operator.

    Attributes:
        name: What the table calls it.
        contenders: What to time.
        flops: Its operations.
        bytes: What it reads and writes.
    """

    name: str
    contenders: dict[str, Callable[[], object]]
    flops: float = 0.0
    bytes: float = 0.0


@dataclass(frozen=True)
class Section:
    """One table.

    Attributes:
        title: Its heading.
        header: Its columns.
        cases: Makes the cases; compares the contenders' outputs.
        row: A case's row.
        notes: What stands below it.
    """

    title: str
    header: Sequence[str]
    cases: Callable[[], Iterable[Case]]
    row: Callable[[Case, Measured, Machine], list[str]]
    notes: str = ""


def one_node(
    operator: str, inputs: Sequence[torch.Tensor | None], domain: str = "opbridge_ops", opset: int = 18, **attributes
) -> bytes:
    """A model of one operator, whose inputs are called x0, x1, ..."""
    names = [f"x{i}" if value is not None else "" for i, value in enumerate(inputs)]
    graph = helper.make_graph(
        [helper.make_node(operator, names, ["y"], domain=domain, **attributes)],
        "one_node",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in names if name],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )
    opsets = [helper.make_opsetid("", opset)] + [helper.make_opsetid(domain, 1)] * bool(domain)
    model: onnx.ModelProto = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    return model.SerializeToString()


def runner(model: bytes, inputs: Sequence[torch.Tensor | None], threads: int = THREADS) -> Bound:
    """Runs a model in ONNX Runtime on these inputs."""
    session = opbridge.session(model, threads=threads, kernels=[load_builtin().path])
    return Bound(session, [value for value in inputs if value is not None])
