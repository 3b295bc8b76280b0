"""The samples of a sweep, its settings, and the verdict on a sample: plain values that can be pickled."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from opbridge.coverage.databases import ORDER, database, pick
from opbridge.coverage.entries import Entry
from opbridge.runtimes import known

__all__ = ["KINDS", "OUTCOMES", "Settings", "Task", "Verdict", "grouped", "to_try"]

_TOGETHER = 10

OUTCOMES = (
    "wrong",
    "crash",
    "timeout",
    "sweep error",
    "export error",
    "fault",
    "load error",
    "parse error",
    "build error",
    "run error",
    "refused",
    "built",
    "pass",
    "left out",
)
"""The outcomes of a sample, the worst first; docs/coverage.md says what each means."""

KINDS = ("deterministic", "random", "undefined")
"""What the values of a sample's result are."""


@dataclass(frozen=True)
class Task:
    """Which sample: names only, so that any process can make it."""

    database: str
    key: str
    dtype: str
    index: int


@dataclass(frozen=True)
class Settings:
    """What the results of a sweep depend on; `opbridge.coverage.sweep` says what each is."""

    ops: tuple[str, ...] = ("*",)
    database: str = "torch"
    samples: int = 3
    dtypes: tuple[str, ...] | None = None
    opset: int | None = None
    exporter: str = "opbridge"
    allow: tuple[str, ...] = ()
    timeout: float = 60.0
    runtime: str = known.ONNXRUNTIME
    target: str | None = None


@dataclass
class Verdict:
    """What came of a sample.

    Attributes:
        outcome: One of `OUTCOMES`.
        message: Why, where it did not pass; and what was not compared, where it did.
        kind: One of `KINDS`; None where it is not known.
        compared: "values", "distribution" or "shape"; None where it did not come to that.
        route: The worst of the routes.
        routes: The route of every operator.
        capture: How opbridge captured the sample: "direct", or a mode of torch.export.
        missing: The operators that have none.
        predicted: The errors that lint finds in the file, where the runtime builds it.
        seconds: How long it took.
        cpu_seconds: How much of a processor it took.
        timings: Seconds by stage: sample, eager, export, load, compare; of a runtime that only builds, build in the
            place of the last two.
        onnx: Where it was exported and did not pass: the ONNX model as text.
    """

    outcome: str
    message: str = ""
    kind: str | None = None
    compared: str | None = None
    route: str | None = None
    routes: Mapping[str, str] = field(default_factory=dict)
    capture: str | None = None
    missing: Sequence[str] = ()
    predicted: Sequence[str] = ()
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    timings: dict[str, float] = field(default_factory=dict)
    onnx: str = ""

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        data = dataclasses.asdict(self)
        data["missing"], data["predicted"] = list(self.missing), list(self.predicted)
        if not self.onnx:
            del data["onnx"]
        data["seconds"], data["cpu_seconds"] = round(self.seconds, 5), round(self.cpu_seconds, 5)
        data["timings"] = {stage: round(seconds, 5) for stage, seconds in self.timings.items()}
        return data


def to_try(settings: Settings) -> tuple[list[Task], list[tuple[Task, str]]]:
    """The samples of a sweep, and what is left out before any is made, with the reason.

    Every operator is taken to have as many samples as wanted; those that it does not have give no verdict.

    Raises:
        UsageError: no operator fits.
    """
    tasks: list[Task] = []
    left_out: list[tuple[Task, str]] = []
    for key in pick(settings.database, settings.ops):
        entry = database(settings.database)[key]
        chosen, reasons = _dtypes(entry, settings.dtypes)
        for dtype in chosen:
            tasks.extend(Task(settings.database, key, dtype, index) for index in range(settings.samples))
        left_out.extend((Task(settings.database, key, dtype, 0), reason) for dtype, reason in reasons)
    return tasks, left_out


def grouped(tasks: Iterable[Task]) -> Iterator[list[Task]]:
    """Samples that one worker should try, as what it has learnt of an operator from one makes the next one cheaper."""
    for _, group in itertools.groupby(tasks, key=lambda task: (task.key, task.dtype)):
        while some := list(itertools.islice(group, _TOGETHER)):
            yield some


def _dtypes(entry: Entry, wanted: tuple[str, ...] | None) -> tuple[list[str], list[tuple[str, str]]]:
    """The dtypes in which an operator is tried, and those in which it is not, with the reason."""
    taken = {str(dtype).removeprefix("torch.") for dtype in entry.dtypes}
    known = [str(dtype).removeprefix("torch.") for dtype in ORDER]
    shared = [name for name in known if name in taken]
    foreign = sorted(taken.difference(known))
    if not taken:
        return [], [("", "it supports no dtype on the CPU")]
    if not shared:
        return [], [("", f"ONNX has none of its dtypes ({', '.join(foreign)})")]
    if wanted is None:
        return shared[:1], []
    if wanted == ("all",):
        return shared, [(name, f"ONNX has no {name}") for name in foreign]
    return [name for name in shared if name in wanted], []
