"""Where the nodes of a model run on CUDA: on the GPU, or on the CPU, with the copies between the two."""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import onnx

from opbridge.base.wording import counted, listed
from opbridge.errors import ModelFileError
from opbridge.runtimes.onnxruntime import cuda_provider
from opbridge.runtimes.onnxruntime.model_file import checked_model
from opbridge.runtimes.placement.asking import asked

__all__ = ["Copy", "Placed", "Placement", "placement"]

_SIZES = ("Shape", "Size")
_MOST_SHOWN = 5


@dataclass(frozen=True)
class Placed:
    """A node on the CPU.

    Attributes:
        operator: Its operator: "Det", "com.microsoft::Inverse".
        node: Its name; "" where it has none.
        place: The line of the model's code that it comes from, where the file says it.
        of_sizes: Whether it computes with sizes of tensors alone, which ONNX Runtime has on the CPU by intention.
    """

    operator: str
    node: str
    place: str
    of_sizes: bool

    def __str__(self) -> str:
        where = f" at {self.place}" if self.place else f" ('{self.node}')" if self.node else ""
        return f"{self.operator}{where}"


@dataclass(frozen=True)
class Copy:
    """A tensor that is copied between the GPU and the CPU in each run.

    Attributes:
        value: Its name in the model.
        to_cpu: Whether it is copied from the GPU to the CPU.
        before: The operator that computes it, with its line; "" for an input.
        after: The operator that reads the copy, with its line; "" for an output.
    """

    value: str
    to_cpu: bool
    before: str
    after: str

    def __str__(self) -> str:
        device = "CPU" if self.to_cpu else "GPU"
        read = f" for {self.after}" if self.after else ""
        return f"'{self.value}' to the {device}{read}"


@dataclass(frozen=True)
class Placement:
    """Where the nodes of a model run, after ONNX Runtime's optimisations.

    Attributes:
        on_gpu: How many nodes run on the GPU.
        on_cpu: The nodes that run on the CPU, because CUDA has no kernel for them or they compute with sizes.
        copies: The tensors that are copied between the two in each run.
        operators: How often each operator runs on the GPU.
    """

    on_gpu: int
    on_cpu: Sequence[Placed]
    copies: Sequence[Copy]
    operators: Mapping[str, int] = field(default_factory=dict)

    @property
    def fallen(self) -> list[Placed]:
        """The nodes that run on the CPU, without those that compute with sizes of tensors alone."""
        return [each for each in self.on_cpu if not each.of_sizes]

    def summary(self) -> str:
        """One line: how many nodes run where, and how many copies there are."""
        of_sizes = len(self.on_cpu) - len(self.fallen)
        also = f" and {of_sizes} that compute with sizes" if of_sizes else ""
        cpu = f"{len(self.fallen)} on the CPU{also}"
        copies = f"{len(self.copies)} {'copy' if len(self.copies) == 1 else 'copies'}"
        return f"{counted(self.on_gpu, 'node')} on the GPU, {cpu}, {copies} between them"

    def notes(self) -> list[str]:
        """What there is to say of the nodes on the CPU and of the copies, in the words of a report's notes."""
        found = [self.summary()]
        if self.fallen:
            found.append(f"on the CPU, as CUDA has no kernel: {_counted(map(str, self.fallen))}")
        if self.copies:
            found.append(f"copied in each run: {_counted(map(str, self.copies))}")
        return found

    def document(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "gpu": self.on_gpu,
            "cpu": [dict(vars(each)) for each in self.on_cpu],
            "copies": [dict(vars(each)) for each in self.copies],
            "operators": dict(self.operators),
        }


def _counted(texts: Iterator[str] | Any) -> str:
    """Texts, each once with how often there is such a one."""
    found = Counter(texts)
    return listed([text if count == 1 else f"{text} ({count} times)" for text, count in found.items()], _MOST_SHOWN)


def placement(
    model: str | os.PathLike[str] | bytes, *, kernels: Sequence[str | os.PathLike[str]] = (), device: int = 0
) -> Placement:
    """Where the nodes of a model run on CUDA. On Linux no GPU is needed: ONNX Runtime only loads the model.

    Args:
        model: The path of an ONNX file, or the content of one.
        kernels: Libraries with kernels of the model, beside those that come with opbridge.
        device: The number of the GPU that is asked where no compiler is installed.

    Raises:
        UsageError: The installed ONNX Runtime has no CUDA, or it cannot be asked on this machine.
        ModelFileError: ONNX Runtime refuses the model.
        RunError: Loading it ended the process.
    """
    checked, label = checked_model(model)
    with tempfile.TemporaryDirectory(prefix="opbridge-placement-") as folder:
        path = checked if isinstance(checked, str) else str(Path(folder) / "model.onnx")
        if isinstance(checked, bytes):
            Path(path).write_bytes(checked)
        request = {"model": os.path.abspath(path), "kernels": [os.path.abspath(each) for each in kernels]}
        try:
            found = asked(request, device)
        except ModelFileError as error:
            raise ModelFileError(str(error).replace(os.path.abspath(path), label)) from None
        said = _Said(onnx.load(path, load_external_data=False).graph)
    on_gpu = [each for each in found["nodes"] if each[0] == cuda_provider.CUDA]
    on_cpu = [
        Placed(_operator(domain, op_type), name, said.place(name), said.is_of_sizes(name))
        for provider, name, domain, op_type in found["nodes"]
        if provider != cuda_provider.CUDA
    ]
    copies = [
        Copy(value, kind == "MemcpyToHost", said.named(before, of_before), said.named(after, of_after))
        for kind, value, before, of_before, after, of_after in found["copies"]
    ]
    operators = Counter(_operator(domain, op_type) for _, _, domain, op_type in on_gpu)
    return Placement(len(on_gpu), on_cpu, copies, dict(operators.most_common()))


def _operator(domain: str, op_type: str) -> str:
    return op_type if domain in ("", "ai.onnx") else f"{domain}::{op_type}"


class _Said:
    """What a file says of its nodes, by their names.

    Args:
        graph: The graph.
    """

    def __init__(self, graph: Any) -> None:
        self._nodes: dict[str, Any] = {}
        self._of_sizes: set[str] = {each.name for each in graph.initializer}
        self._is_of_sizes: set[str] = set()
        self._walk(graph)

    def _walk(self, graph: Any) -> None:
        self._of_sizes.update(each.name for each in graph.initializer)
        for node in graph.node:
            if node.name:
                self._nodes.setdefault(node.name, node)
            bodies = [body for each in node.attribute for body in (each.g, *each.graphs) if body.node]
            given = [each for each in node.input if each]
            if node.op_type in _SIZES or (not bodies and self._of_sizes.issuperset(given)):
                self._of_sizes.update(node.output)
                self._is_of_sizes.add(node.name)
            for body in bodies:
                self._walk(body)

    def place(self, name: str) -> str:
        """The line of the model's code that a node comes from; "" where the file does not say it."""
        node = self._nodes.get(name)
        found = {} if node is None else {each.key: each.value for each in node.metadata_props}
        return str(found.get("opbridge.source", ""))

    def is_of_sizes(self, name: str) -> bool:
        """Whether a node computes with sizes and constants alone."""
        return bool(name) and name in self._is_of_sizes

    def named(self, name: str, operator: str) -> str:
        """An operator with its line, or its node's name."""
        if not operator:
            return ""
        where = f" at {place}" if (place := self.place(name)) else f" ('{name}')" if name else ""
        return f"{operator}{where}"
