"""What a profile consists of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from opbridge.profiling.file_graph import FileNode, core_name

__all__ = ["Kernel", "TorchCall", "TorchTimes"]


@dataclass(frozen=True)
class Kernel:
    """A node that the runtime runs.

    Attributes:
        name: Its name in the runtime.
        operator: Its operator: "Conv", "com.microsoft::FusedMatMul".
        provider: The execution provider that ran it.
        calls: How often it is computed in one run.
        milliseconds: The time in one run, without that of the nodes in its bodies.
        total: The same, with that of the nodes in its bodies.
        of: The nodes of the file that it stands for; none where the runtime inserted it.
        near: For an inserted node, the node of the file that it was inserted for.
        kind: What it is, where it is no node of the file: see `kinds.kind_of`.
        on_cpu: Whether it ran on the CPU in a runtime that computes on a GPU.
        holder: The node whose body it is in, such as a Loop; "" for none.
    """

    name: str
    operator: str
    provider: str
    calls: float
    milliseconds: float
    total: float
    of: tuple[FileNode, ...] = ()
    near: FileNode | None = None
    kind: str = ""
    on_cpu: bool = False
    holder: str = ""

    @property
    def places(self) -> tuple[FileNode, ...]:
        """The nodes of the file that its time counts for."""
        return self.of or (() if self.near is None else (self.near,))

    @property
    def main(self) -> FileNode | None:
        """Of the nodes that its time counts for, the one with its operator, or else the one that it is named after."""
        own = (each for each in self.of if core_name(each.operator) == core_name(self.operator))
        return next(own, next(iter(self.places), None))

    @property
    def stands_for(self) -> str:
        """The operators of the file that it stands for: "Conv + BatchNormalization + Relu"."""
        names = Counter(each.operator for each in sorted(self.of, key=lambda node: node.position))
        return " + ".join(name if count == 1 else f"{count} {name}" for name, count in names.items())


@dataclass(frozen=True)
class TorchCall:
    """The calls of a PyTorch operator at one line of one module.

    Attributes:
        operator: The operator: "aten::addmm".
        module: The path of the module that calls it.
        line: The line of the model's code, "net.py:12"; "" where it is none of the user's.
        calls: How often it is called in one run.
        milliseconds: The time of these calls.
    """

    operator: str
    module: str
    line: str
    calls: float
    milliseconds: float


@dataclass(frozen=True)
class TorchTimes:
    """Eager PyTorch on the same inputs.

    Attributes:
        version: The release of torch.
        device: Where the model is: "cpu", "cuda:0".
        threads: The number of threads of an operator.
        runs: How many runs were timed.
        plain: The milliseconds of a run, median.
        fastest: The same of the fastest run.
        timed: The milliseconds of a run in which each operator is timed, median.
        calls: The operators.
    """

    version: str
    device: str
    threads: int
    runs: int
    plain: float
    fastest: float
    timed: float
    calls: Sequence[TorchCall] = field(default_factory=tuple)
