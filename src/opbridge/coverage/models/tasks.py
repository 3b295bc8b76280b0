"""The models of a sweep, its settings, and the verdict on a model: plain values that can be pickled."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

__all__ = ["OUTCOMES", "ModelSettings", "ModelTask", "ModelVerdict"]

OUTCOMES = (
    "wrong",
    "crash",
    "timeout",
    "memory",
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
"""The outcomes of a model, the worst first; docs/models.md says what each means."""


@dataclass(frozen=True)
class ModelTask:
    """Which model: names only, so that any process can build it."""

    family: str
    name: str


@dataclass(frozen=True)
class ModelSettings:
    """What the results of a sweep depend on; `opbridge.coverage.models.sweep` says what each is."""

    families: tuple[str, ...]
    names: tuple[str, ...] = ("*",)
    dynamic: str = "batch"
    exporter: str = "opbridge"
    timeout: float = 300.0
    memory: float | None = None
    shard: str | None = None
    target: str | None = None
    dtype: str | None = None


@dataclass
class ModelVerdict:
    """What came of a model.

    Attributes:
        outcome: One of `OUTCOMES`.
        message: Why, where it did not pass.
        cause: What kind of error it was, where there was one: its class, and that of the error below it.
        capture: How opbridge captured it: "direct", or a mode of torch.export.
        routes: How many of its operators have each route.
        missing: The operators that have none.
        nodes: How many nodes the ONNX graph has.
        notes: What opbridge noted of the capture.
        predicted: The errors that lint finds in the file, where a target builds it.
        seconds: How long it took.
        cpu_seconds: How much of a processor it took.
        export_cpu_seconds: How much of a processor its export took; None where none ended.
        timings: Seconds by stage: build, eager, export, load, compare; of a target that only builds, target in the
            place of the last two.
        stages: Seconds of the export by its own stages: capture, plan, translate, save, verify.
    """

    outcome: str
    message: str = ""
    cause: str = ""
    capture: str | None = None
    routes: Mapping[str, int] = field(default_factory=dict)
    missing: Sequence[str] = ()
    nodes: int | None = None
    notes: Sequence[str] = ()
    predicted: Sequence[str] = ()
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    export_cpu_seconds: float | None = None
    timings: dict[str, float] = field(default_factory=dict)
    stages: dict[str, float] = field(default_factory=dict)

    @property
    def ratio(self) -> float | None:
        """How many times as long as its capture the export takes, without its verification; None if not known."""
        capture = self.stages.get("capture")
        if not capture or "translate" not in self.stages:
            return None
        return sum(seconds for name, seconds in self.stages.items() if name != "verify") / capture

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        data = dataclasses.asdict(self)
        for name in ("missing", "notes", "predicted"):
            data[name] = list(data[name])
        for name in ("seconds", "cpu_seconds", "export_cpu_seconds"):
            data[name] = None if data[name] is None else round(data[name], 3)
        for name in ("timings", "stages"):
            data[name] = {stage: round(seconds, 4) for stage, seconds in data[name].items()}
        return data
