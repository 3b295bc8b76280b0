"""The parts of a set as they are given, and what becomes of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from opbridge.program import Program
    from opbridge.verification import Verification

__all__ = ["ExportedParts", "GivenParts", "Part", "PartsVerification"]


@dataclass(frozen=True)
class Part:
    """One part of a set.

    Attributes:
        model: A module, a function or an ExportedProgram.
        args: The positional example inputs.
        keywords: Keywords of `opbridge.export`: kwargs, dynamic_shapes, input_names, inputs, ...
    """

    model: Any
    args: tuple[Any, ...]
    keywords: dict[str, Any] = field(default_factory=dict)

    @property
    def kwargs(self) -> dict[str, Any]:
        """The keyword example inputs."""
        return dict(self.keywords.get("kwargs") or {})


@dataclass
class GivenParts:
    """The parts of a set, and the pipeline that they make.

    Attributes:
        parts: The parts by name.
        run: The pipeline: `run(parts, *args, **kwargs)`; None where there is none.
        args: The positional example inputs of `run`.
        kwargs: Its keyword example inputs.
        inputs: Its further inputs, in the place of fresh ones; None where there are none.
    """

    parts: dict[str, Part]
    run: Callable[..., Any] | None
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    inputs: Any


@dataclass
class ExportedParts:
    """A set that was exported: what `Parts.export` returns.

    Attributes:
        programs: The program of each part.
        path: The folder; None where the set was not written.
        files: The files that were written.
        verification: The comparison of the pipeline; None where none was made. Those of the parts are the programs'.
        unverified: Why the pipeline could not be compared although that was asked for; "" where it was, or was not
            asked for.
        timings: Seconds that each stage took, over all parts.
    """

    programs: dict[str, Program]
    path: Path | None = None
    files: list[Path] = field(default_factory=list)
    verification: Verification | None = None
    unverified: str = ""
    timings: dict[str, float] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Program:
        return self.programs[name]


@dataclass(frozen=True)
class PartsVerification:
    """The comparison of a set with PyTorch.

    Attributes:
        parts: The comparison of each part.
        run: The comparison of the pipeline; None where there is no `run`, or a part differs.
    """

    parts: dict[str, Verification]
    run: Verification | None = None

    @property
    def ok(self) -> bool:
        """Whether all parts agree, and the pipeline."""
        return all(each.ok for each in self.parts.values()) and (self.run is None or self.run.ok)

    def all(self) -> list[Verification]:
        """The comparisons of the parts, and then that of the pipeline."""
        return [*self.parts.values(), *([self.run] if self.run else [])]

    def to_json(self) -> dict[str, Any]:
        """As data for JSON."""
        return {
            "ok": self.ok,
            "parts": {name: each.to_json() for name, each in self.parts.items()},
            "run": self.run.to_json() if self.run else None,
        }

    def __str__(self) -> str:
        return "\n".join(map(str, self.all()))
