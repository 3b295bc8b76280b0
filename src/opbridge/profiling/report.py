"""A profile: what `opbridge.profile` returns."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from opbridge.base.version import __version__
from opbridge.base.wording import counted
from opbridge.errors import UsageError
from opbridge.profiling import grouping
from opbridge.profiling.code import with_code
from opbridge.profiling.data import Kernel, TorchTimes
from opbridge.profiling.file_graph import short_name
from opbridge.profiling.grouping import BY, Row

__all__ = ["Own", "Profile"]

_STEADY = 1.5
"""How many times as long as the fastest run the median may take on an idle machine."""


@dataclass(frozen=True)
class Own:
    """Nodes that the runtime runs and the file does not have as they are.

    Attributes:
        what: What they are: "inserted Cast", "copy to the CPU", "on the CPU", "Conv + Relu as Conv".
        nodes: How many there are.
        milliseconds: Their time in one run.
        places: The lines, or else the modules, that they count for, the one with the most time first.
    """

    what: str
    nodes: int
    milliseconds: float
    places: tuple[str, ...]


@dataclass(frozen=True)
class Profile:
    """Where the time of an ONNX file goes, beside eager PyTorch's.

    Attributes:
        file: The path of the file.
        runtime: The runtime with its version: "onnxruntime 1.32.0".
        threads: The number of threads of an operator, in the runtime and in PyTorch.
        warmup: How many runs preceded those that count.
        runs: How many runs count.
        plain: The milliseconds of a run without the profiler, median.
        fastest: The same of the fastest run.
        profiled: The milliseconds of a run with it, median.
        kernels: The nodes that the runtime ran, each with the median of its time.
        torch: Eager PyTorch on the same inputs; None where no model was given.
        shapes: The shapes of the inputs, by their names.
        sizes: The sizes of dynamic dimensions that were chosen for random inputs.
        notes: How the runtime runs the file otherwise than it says.
    """

    file: str
    runtime: str
    threads: int
    warmup: int
    runs: int
    plain: float
    fastest: float
    profiled: float
    kernels: Sequence[Kernel]
    torch: TorchTimes | None = None
    shapes: Mapping[str, Sequence[int]] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def milliseconds(self) -> float:
        """The time of all kernels in one run."""
        return sum(each.milliseconds for each in self.kernels)

    @property
    def has_lines(self) -> bool:
        """Whether the file says which lines of the model's code its nodes come from."""
        return any(node.line for each in self.kernels for node in each.places)

    @property
    def usual(self) -> str:
        """What is shown beside the operators where nothing is asked for: "line" or "module".

        The lines that torch.onnx.export writes are those of `forward` methods alone, which are not always those at
        which PyTorch is seen to call an operator: beside PyTorch, the modules of such a file are compared.
        """
        is_ours = any(node.torch for each in self.kernels for node in each.places)
        return "line" if self.has_lines and (self.torch is None or is_ours) else "module"

    def rows(self, by: str = "line", depth: int | None = None) -> list[Row]:
        """The times, added up.

        Args:
            by: "operator", "module", "line" or "node".
            depth: By module: how many parts of a module's path are kept; None: all.

        Returns:
            The rows, whose shares add up to 1. Where a model was given, those that are slower than PyTorch are first,
            the one that loses most at the top; the others follow by their time. By operator, all do.

        Raises:
            UsageError: There is no such grouping, or the depth is no number above 0.
        """
        if by not in BY:
            raise UsageError(f"Unknown grouping '{by}'. Expected {', '.join(BY[:-1])} or {BY[-1]}.")
        if depth is not None and (type(depth) is not int or depth < 1):
            raise UsageError(f"depth={depth!r} is invalid; expected 1 or more.")
        if depth is not None and by != "module":
            raise UsageError("depth= (--depth) is valid only by module. Leave it out, or use --by module.")
        calls = None if self.torch is None else self.torch.calls
        found = grouping.rows(self.kernels, calls, by, depth)
        return with_code(found, self.kernels) if by == "line" else found

    def torch_rows(self) -> list[tuple[str, float, float]]:
        """PyTorch's operators with their calls and milliseconds in one run, those that take most first."""
        found: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
        for each in () if self.torch is None else self.torch.calls:
            found[each.operator][0] += each.calls
            found[each.operator][1] += each.milliseconds
        rows = [(name, calls, spent) for name, (calls, spent) in found.items()]
        return sorted(rows, key=lambda row: -row[2])

    def own(self) -> list[Own]:
        """What the runtime runs that is not in the file as it is, that with the most time first."""
        groups: dict[str, list[Kernel]] = defaultdict(list)
        for each in self.kernels:
            if each.kind == "fused":
                groups[f"{each.stands_for} as {short_name(each.operator)}"].append(each)
            elif each.kind:
                says_all = each.operator.endswith(("Cast", "Host"))
                groups[each.kind if says_all else f"{each.kind} ({short_name(each.operator)})"].append(each)
            if each.on_cpu:
                groups[f"{short_name(each.operator)} on the CPU"].append(each)
        found = []
        for what, members in groups.items():
            spent: defaultdict[str, float] = defaultdict(float)
            for each in members:
                if (node := each.main) is not None:
                    spent[node.line or node.module or node.shown] += each.milliseconds
            places = tuple(sorted(spent, key=spent.__getitem__, reverse=True))
            found.append(Own(what, len(members), sum(each.milliseconds for each in members), places))
        return sorted(found, key=lambda each: -each.milliseconds)

    def summary(self) -> str:
        """The time of one run, and of eager PyTorch, in a few lines."""
        threads = counted(self.threads, "thread")
        lines = [
            f"{self.file} in {self.runtime}, {threads}: median of {counted(self.runs, 'run')} after {self.warmup}",
            f"one run {self.plain:.3f} ms (the fastest {self.fastest:.3f}), with the profiler {self.profiled:.3f} ms; "
            f"{counted(len(self.kernels), 'kernel')} {self.milliseconds:.3f} ms",
        ]
        if self.torch is not None:
            times = self.torch
            spent = sum(each.milliseconds for each in times.calls)
            lines.append(
                f"PyTorch {times.version} on {times.device}: one run {times.plain:.3f} ms (the fastest "
                f"{times.fastest:.3f}), with each operator timed {times.timed:.3f} ms; operators {spent:.3f} ms"
            )
        shapes = ", ".join(f"{name} {list(shape)}" for name, shape in self.shapes.items())
        if shapes:
            lines.append(f"inputs {shapes}")
        if self.sizes:
            chosen = ", ".join(f"{name}={size}" for name, size in self.sizes.items())
            lines.append(f"sizes {chosen}")
        return "\n".join([*lines, *(f"note: {each}" for each in (*self.notes, *self.unmatched(), *self.busy()))])

    def busy(self) -> list[str]:
        """A note that the machine was busy, where runs of the same differ much; else nothing."""
        slowest = self.plain / self.fastest if self.fastest else 1.0
        if self.torch is not None and self.torch.fastest:
            slowest = max(slowest, self.torch.plain / self.torch.fastest)
        if slowest < _STEADY:
            return []
        return [
            f"the median run took {slowest:.1f} times as long as the fastest: other processes use the processor, and "
            "the times are not exact. Profile on a machine that is idle"
        ]

    def unmatched(self) -> list[str]:
        """A note that PyTorch ran none of the lines that the file names; nothing where it ran some or was not timed."""
        lines = {node.line for each in self.kernels for node in each.places} - {""}
        if self.torch is None or not lines or lines & {each.line for each in self.torch.calls}:
            return []
        return [
            "PyTorch ran none of the source lines that the file names: the file was exported from another model, or "
            "from another version of its code"
        ]

    def __str__(self) -> str:
        return self.summary()

    def document(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "file": self.file,
            "runtime": self.runtime,
            "opbridge": __version__,
            "threads": self.threads,
            "warmup": self.warmup,
            "runs": self.runs,
            "statistic": "median",
            "run_ms": self.plain,
            "fastest_run_ms": self.fastest,
            "profiled_run_ms": self.profiled,
            "kernels_ms": self.milliseconds,
            "inputs": {name: list(shape) for name, shape in self.shapes.items()},
            "sizes": dict(self.sizes),
            "notes": [*self.notes, *self.unmatched(), *self.busy()],
            "torch": None if self.torch is None else self._torch_document(self.torch),
            "operators": [_row(each) for each in self.rows("operator")],
            "modules": [_row(each) for each in self.rows("module")],
            "lines": [_row(each) for each in self.rows("line")],
            "not_in_file": [asdict(each) for each in self.own()],
            "nodes": [_kernel(each) for each in self.kernels],
        }

    @staticmethod
    def _torch_document(times: TorchTimes) -> dict[str, Any]:
        return {
            "version": times.version,
            "device": times.device,
            "threads": times.threads,
            "runs": times.runs,
            "run_ms": times.plain,
            "fastest_run_ms": times.fastest,
            "timed_run_ms": times.timed,
            "operators_ms": sum(each.milliseconds for each in times.calls),
            "calls": [asdict(each) for each in times.calls],
        }

    def html(self) -> str:
        """A page with the tables and a flame graph, which loads nothing from anywhere."""
        from opbridge.pages import rendering
        from opbridge.profiling import page

        return rendering.render("profile.html", page.document(self))

    def write_html(self, path: str | os.PathLike[str]) -> Path:
        """Writes the page.

        Raises:
            SaveError: It cannot be written.
        """
        from opbridge.pages import writing

        return writing.write(path, self.html())


def _row(row: Row) -> dict[str, Any]:
    return {
        "label": row.label,
        "calls": row.calls,
        "ms": row.milliseconds,
        "share": row.share,
        "torch_ms": row.torch,
        "lost_ms": row.lost,
        "operators": list(row.operators),
        "lines": list(row.lines),
        "code": row.code,
    }


def _kernel(kernel: Kernel) -> dict[str, Any]:
    return {
        "name": kernel.name,
        "operator": kernel.operator,
        "provider": kernel.provider,
        "calls": kernel.calls,
        "ms": kernel.milliseconds,
        "total_ms": kernel.total,
        "kind": kernel.kind,
        "on_cpu": kernel.on_cpu,
        "inside": kernel.holder,
        "stands_for": [
            {"node": one.shown, "operator": one.operator, "module": one.module, "line": one.line, "torch": one.torch}
            for one in kernel.of
        ],
        "inserted_for": None if kernel.near is None else kernel.near.shown,
    }
