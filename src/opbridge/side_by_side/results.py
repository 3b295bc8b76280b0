"""What two models gave on the same inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

__all__ = ["Run", "SideBySide"]


@dataclass(frozen=True)
class Run:
    """One run of both models.

    Attributes:
        shapes: The shapes of the inputs by their names.
        largest: The largest difference of any element, relative to the largest element of its output where that is
            more than 1.
        matches: Whether that is within what rounding explains.
    """

    shapes: Mapping[str, Sequence[int]]
    largest: float
    matches: bool


@dataclass
class SideBySide:
    """The original and the new model, run on the same inputs.

    Attributes:
        runs: The runs that the original completed.
        note: Why there is none, or what was left out.
        output: The output that differs most where one does not match.
        failed: Why the new model does not run, where the original does.
        given: Whether the inputs were given, and not random.
        rejected: Whether the original loads, but runs on none of the inputs.
    """

    runs: list[Run] = field(default_factory=list)
    note: str = ""
    output: str = ""
    failed: str = ""
    given: bool = False
    rejected: bool = False

    @property
    def ok(self) -> bool:
        """Whether nothing speaks against the new model."""
        return not self.failed and all(each.matches for each in self.runs)

    @property
    def largest(self) -> float:
        """The largest difference of all runs."""
        return max((each.largest for each in self.runs), default=0.0)

    def summary(self) -> str:
        """The comparison in one sentence."""
        if self.failed:
            return f"The original model runs, but the new model fails: {self.failed}"
        if not self.runs:
            return f"Not compared. {self.note}"
        sizes = (
            f"{len(self.runs)} set{'s' if len(self.runs) > 1 else ''} of {'given' if self.given else 'random'} inputs"
        )
        if self.ok:
            said = f"The results agree in ONNX Runtime on {sizes}; the largest difference is {self.largest:.2g}."
        else:
            said = f"The results differ in ONNX Runtime by {self.largest:.2g}, at the output '{self.output}'."
        return f"{said} {self.note}".rstrip()
