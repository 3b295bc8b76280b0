"""Two files, output by output, with the judge of a verification."""

from __future__ import annotations

import os
import time
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from opbridge.base.wording import counted, duration
from opbridge.errors import UsageError
from opbridge.rules.measured import Inputs
from opbridge.runtimes.limits import Limits
from opbridge.verification.bisection.feeding import mapped, outputs_of, runs_of
from opbridge.verification.bisection.files import FileSide, Setting
from opbridge.verification.bisection.judging import Judge
from opbridge.verification.bisection.types import coarsest, random_values
from opbridge.verification.compare import Comparison

__all__ = ["FileComparison", "FileRun", "Pair", "compare", "judge_of", "paired", "pairs_of_runs"]


@dataclass(frozen=True)
class FileRun:
    """The comparison on one set of inputs.

    Attributes:
        shapes: The shapes of the inputs by name.
        comparisons: One for each output.
    """

    shapes: dict[str, list[int]]
    comparisons: tuple[Comparison, ...]

    @property
    def ok(self) -> bool:
        """Whether all outputs agree."""
        return all(each.ok for each in self.comparisons)


@dataclass
class FileComparison:
    """Two files, compared output by output.

    Attributes:
        sides: The files: of the expected outputs, and of the actual ones.
        settings: Where they ran.
        runs: The runs.
        reason: Why they cannot be compared; "": they can.
        notes: What else there is to say.
        seconds: How long it took.
    """

    sides: tuple[str, str]
    settings: tuple[str, str]
    runs: list[FileRun] = field(default_factory=list)
    reason: str = ""
    notes: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        """Whether all outputs agree in all runs, of which there is one at least."""
        return bool(self.runs) and not self.reason and all(each.ok for each in self.runs)

    def to_json(self) -> dict[str, Any]:
        """The result as plain data."""
        return {
            "ok": self.ok,
            "sides": list(self.sides),
            "settings": list(self.settings),
            "reason": self.reason,
            "runs": [
                {
                    "ok": run.ok,
                    "shapes": run.shapes,
                    "outputs": [
                        {
                            "name": each.name,
                            "ok": each.ok,
                            "absolute": each.absolute,
                            "relative": each.relative,
                            "excess": each.excess,
                            "text": each.text(self.sides[0]),
                        }
                        for each in run.comparisons
                    ],
                }
                for run in self.runs
            ],
            "notes": list(self.notes),
            "seconds": self.seconds,
        }

    def __str__(self) -> str:
        lines = [f"{self.sides[0]} ({self.settings[0]}) and {self.sides[1]} ({self.settings[1]})"]
        if self.reason:
            lines.append(f"The files cannot be compared: {self.reason}.")
        for run in self.runs:
            shapes = ", ".join(f"{name} {shape}" for name, shape in run.shapes.items())
            lines.append(f"inputs {shapes or 'none'}: {'agree' if run.ok else 'DIFFER'}")
            lines += [f"  output {each.text(self.sides[0])}" for each in run.comparisons]
        lines += [f"Note: {each}." for each in self.notes]
        if self.runs:
            said = "All outputs agree" if self.ok else "The outputs differ"
            lines.append(f"{said} on {counted(len(self.runs), 'set')} of inputs ({duration(self.seconds)}).")
        return "\n".join(lines)


def compare(
    first: str | os.PathLike[str] | bytes,
    second: str | os.PathLike[str] | bytes,
    *,
    inputs: Inputs | None = None,
    runtime: str = "onnxruntime",
    against: str | None = None,
    optimization: str = "all",
    rtol: float | None = None,
    atol: float | None = None,
    isolated: bool | Limits = True,
) -> FileComparison:
    """Compares two ONNX files on the same inputs, output by output.

    1. Inputs that are not given are random, by the types that the first file declares; where it has dynamic
       dimensions, of several sizes.
    2. Inputs and outputs are matched by their names where the names are the same, else by their position.
    3. Each output is compared in shape, dtype and every value, with the tolerances of `opbridge.verify`.
    4. Outputs that depend on random numbers are compared in shape and dtype.

    Args:
        first: The path or content of the file whose outputs are expected.
        second: The path or content of the other file.
        inputs: Arrays by the names of the first file's inputs or in their order, or the path of an .npz file of them.
        runtime: The runtime of both files.
        against: The runtime of the first file, where it is another.
        optimization: ONNX Runtime's level of graph optimisations: disabled, basic, extended or all.
        rtol: The relative difference allowed, instead of one by dtype.
        atol: The absolute difference allowed, instead of one by dtype.
        isolated: Whether the files run in processes of their own, or with which limits. False: they run in this
            process, but for what holds a Loop whose number of iterations is no constant. A run of that may never end,
            and only a process of its own can be ended: it has the limits of `Limits()`.

    Returns:
        The comparison, which is not ok where the files have different outputs.

    Raises:
        ModelFileError: A file cannot be read, or the runtime refuses it.
        RunError: A run ends its process or is over the limits.
        UsageError: The inputs are not those of the file, or there is no such runtime.
    """
    start = time.perf_counter()
    settings = [Setting(each, _level(each, optimization), isolated) for each in (against or runtime, runtime)]
    with FileSide.of_file(first, settings[0]) as left, FileSide.of_file(second, settings[1]) as right:
        result = FileComparison((left.label, right.label), (settings[0].label, settings[1].label))
        found = paired(left, right)
        result.notes += found.notes
        result.reason = found.reason
        if not found.reason:
            judge = judge_of(left, right, rtol, atol)
            for feeds, expected, actual in pairs_of_runs(left, right, inputs):
                comparisons = found.compared(judge, expected, actual)
                shapes = {name: list(each.shape) for name, each in feeds.items()}
                result.runs.append(FileRun(shapes, tuple(comparisons)))
        result.seconds = time.perf_counter() - start
        return result


def _level(runtime: str, optimization: str) -> str:
    return optimization if runtime == "onnxruntime" else "disabled"


@dataclass
class Pair:
    """The outputs of two files that belong together.

    Attributes:
        names: The names of the first file's outputs.
        places: For each, the position of the second's.
        random: The names of those that are random.
        notes: What there is to say of that.
        reason: Why they do not belong together; "": they do.
    """

    names: list[str]
    places: list[int]
    random: set[str]
    notes: list[str] = field(default_factory=list)
    reason: str = ""

    def compared(
        self, judge: Judge, expected: Sequence[torch.Tensor], actual: Sequence[torch.Tensor]
    ) -> list[Comparison]:
        """The comparisons of all outputs."""
        return [
            judge.compare(name, each, actual[place], random=name in self.random)
            for name, each, place in zip(self.names, expected, self.places, strict=True)
        ]


def paired(left: FileSide, right: FileSide) -> Pair:
    """Which output of one file is which of the other."""
    names, others = left.index.outputs, right.index.outputs
    random = random_values(left.index)
    found = Pair(list(names), list(range(len(names))), {name for name in names if name in random})
    found.notes += [
        f"output '{name}' depends on random numbers: only its shape and dtype are compared"
        for name in names
        if name in random
    ]
    if len(names) != len(others):
        found.reason = (
            f"{left.label} has {counted(len(names), 'output')} ({', '.join(names)}), and {right.label} has "
            f"{counted(len(others), 'output')} ({', '.join(others)})"
        )
    elif set(names) == set(others):
        found.places = [others.index(name) for name in names]
    else:
        pairs = ", ".join(f"{name} and {other}" for name, other in zip(names, others, strict=True))
        found.notes.append(f"the names of the outputs differ, so they are matched by position: {pairs}")
    if not found.reason and set(left.index.inputs) != set(right.index.inputs):
        if len(left.index.inputs) != len(right.index.inputs):
            found.reason = (
                f"{left.label} has {counted(len(left.index.inputs), 'input')} ({', '.join(left.index.inputs)}), and "
                f"{right.label} has {counted(len(right.index.inputs), 'input')} ({', '.join(right.index.inputs)})"
            )
        else:
            pairs = ", ".join(
                f"{one} and {two}" for one, two in zip(left.index.inputs, right.index.inputs, strict=True)
            )
            found.notes.append(f"the names of the inputs differ, so they are matched by position: {pairs}")
    return found


def judge_of(left: FileSide, right: FileSide, rtol: float | None, atol: float | None) -> Judge:
    """What compares the values of two files, with the tolerance of the narrowest type that either computes in."""
    narrow = [
        coarsest(side.index, {name: each.type for name, each in side.index.types.items()}) for side in (left, right)
    ]
    found = [each for each in narrow if each is not None]
    precision = max(found, key=lambda each: torch.finfo(each).eps) if found else None
    labels = (left.label, right.label)
    if labels[0] == labels[1]:
        labels = (left.setting.label, right.setting.label)
    return Judge(labels, precision, rtol, atol)


def pairs_of_runs(
    left: FileSide, right: FileSide, inputs: Inputs | None
) -> Generator[tuple[dict[str, torch.Tensor], list[torch.Tensor], list[torch.Tensor]], None, None]:
    """The inputs and the outputs of both files in each run; the outputs of the first are expected.

    Raises:
        OpbridgeError: See `compare`.
    """
    with left.session() as one, right.session() as two:
        for run in runs_of(left, one, inputs):
            left.feeds, right.feeds = run.feeds, mapped(left, right, two, run.feeds)
            right.runs += 1
            try:
                actual = outputs_of(two, right.feeds)
            except UsageError as error:
                raise UsageError(f"{right.label} fails on inputs that {left.label} runs on: {error}") from error
            yield run.feeds, run.outputs, actual
