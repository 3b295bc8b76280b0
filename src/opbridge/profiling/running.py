"""A model run with ONNX Runtime's profiler, in a process of its own."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import onnx

from opbridge.errors import RunError, UsageError
from opbridge.profiling.file_graph import FileGraph, graph_of
from opbridge.runtimes import known
from opbridge.runtimes.arguments import NodeArgument
from opbridge.runtimes.child import Child
from opbridge.runtimes.limits import Limits
from opbridge.runtimes.onnxruntime import cuda_provider
from opbridge.runtimes.onnxruntime.isolated import tensor_to

__all__ = ["PROFILED", "Measured", "Profiled", "check_runtime"]

PROFILED = ("onnxruntime", "cuda")
"""The runtimes with a profiler that opbridge reads."""


@dataclass(frozen=True)
class Measured:
    """What the runs showed.

    Attributes:
        plain: The milliseconds of each run without the profiler.
        profiled: The milliseconds of each run with it.
        runs: How many runs of the profile are complete.
        kernels: For each node its name, its operator, its execution provider, its calls in a run and the median of its
            microseconds in one.
        graph: The graph that the runtime runs.
    """

    plain: Sequence[float]
    profiled: Sequence[float]
    runs: int
    kernels: Sequence[Sequence[Any]]
    graph: FileGraph


def check_runtime(name: str) -> None:
    """Checks that a runtime can be profiled on this machine.

    Raises:
        UsageError: There is no such runtime, it is not installed, has no profiler, or cannot run here.
    """
    kind, device = known.split(name)
    if kind not in PROFILED:
        raise UsageError(
            f"The runtime '{name}' has no profiler that opbridge reads. Those that have one are: {', '.join(PROFILED)}."
        )
    known.installed(name)
    if kind in known.ON_DEVICE and (why := cuda_provider.obstacle(device)):
        raise UsageError(f"ONNX Runtime cannot run models on CUDA: {why}.")


class Profiled:
    """A model in a process that profiles it.

    Attributes:
        inputs: The model's inputs.
        note: How ONNX Runtime runs the model otherwise than the file says; "": it does not.
        version: The release of ONNX Runtime.

    Args:
        model: The path of the file, or its content.
        runtime: The runtime.
        limits: What the process may use.
        folder: Where external data of a model in memory lies; "": it has none.
        kernels: Libraries with kernels of the model.
        aten: Operators that PyTorch may run for it.
        threads: The number of threads of an operator.

    Raises:
        ModelFileError: The file is damaged, or ONNX Runtime refuses it.
    """

    def __init__(
        self,
        model: str | bytes,
        runtime: str,
        limits: Limits,
        folder: str,
        kernels: Sequence[str | os.PathLike[str]],
        aten: Sequence[str],
        threads: int,
    ) -> None:
        kind, device = known.split(runtime)
        self._child = Child("opbridge.profiling.worker", limits)
        header = {
            "model": None if isinstance(model, bytes) else os.path.abspath(model),
            "size": len(model) if isinstance(model, bytes) else 0,
            "providers": cuda_provider.providers(device) if kind in known.ON_DEVICE else None,
            "kernels": [os.path.abspath(each) for each in kernels],
            "aten": list(aten),
            "folder": folder,
            "threads": threads,
            "limits": asdict(limits),
        }
        answer = self._child.start(header, [model] if isinstance(model, bytes) else [])
        self.inputs = [NodeArgument(*each) for each in answer["inputs"]]
        self.note, self.version = str(answer["note"]), str(answer["version"])

    def runs_on(self, values: Mapping[str, Any]) -> str:
        """Why the model fails on inputs; "" where it runs.

        Args:
            values: The inputs, as OrtValues.

        Raises:
            ProcessEnded: The run ended the process.
        """
        try:
            self._ask(values, only_try=True)
        except RunError as error:
            if not self._child.runs:
                raise
            return str(error)
        return ""

    def measure(self, values: Mapping[str, Any], runs: int, warmup: int, seconds: float) -> Measured:
        """Runs the model without the profiler and with it.

        Args:
            values: The inputs, as OrtValues.
            runs: How many runs are measured each time.
            warmup: How many runs precede them.
            seconds: After so many seconds no further run is begun, but for the first three.

        Raises:
            RunError: It does not run, or ended its process.
        """
        answer, read = self._ask(values, runs=runs, warmup=warmup, seconds=seconds)
        found = json.loads(bytes(read(int(answer["size"]))))
        graph = onnx.ModelProto.FromString(bytes(read(int(answer["graph"])))).graph
        if not found["runs"]:
            raise RunError(
                "One run of the model has more kernels than the million that ONNX Runtime's profiler keeps. Give "
                "smaller inputs, or profile a part of the model."
            )
        return Measured(found["plain"], found["profiled"], found["runs"], found["kernels"], graph_of(graph))

    def _ask(self, values: Mapping[str, Any], only_try: bool = False, **options: Any) -> tuple[dict[str, Any], Any]:
        feeds, blocks = [], []
        for name, value in values.items():
            described, block = tensor_to(value)
            feeds.append({"name": name, **described})
            blocks.append(block)
        with self._child.exclusive():
            if not self._child.runs:
                raise RunError("The process of the model has ended. Profile the model again.")
            return self._child.ask({"feeds": feeds, "only_try": only_try, **options}, blocks)

    def close(self) -> None:
        """Ends the process."""
        self._child.close()
