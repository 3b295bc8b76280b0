"""One file in several runtimes, each compared with PyTorch by the same rules, side by side."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opbridge.errors import ModelFileError
from opbridge.runtimes import known
from opbridge.runtimes.onnxruntime.model_file import checked_model
from opbridge.verification import dispatch
from opbridge.verification.report import LOADING, Run, Verification
from opbridge.verification.runtime_failure import RuntimeFailure

if TYPE_CHECKING:
    from opbridge.request.verification_request import VerificationRequest

__all__ = ["Verifications", "verify_in_each"]

_HEADINGS = ("runtime", "loads", "runs", "absolute", "relative", "verdict")


@dataclass(frozen=True)
class Verifications:
    """The comparisons of one file in several runtimes with eager PyTorch.

    Attributes:
        each: One for each runtime, in the order that was asked for.
    """

    each: tuple[Verification, ...]

    @property
    def ok(self) -> bool:
        """Whether every runtime that ran the file gives what PyTorch gives, and the others build it."""
        return all(each.ok for each in self.each)

    def rows(self) -> list[tuple[str, ...]]:
        """For each runtime: its version, whether it loads the file, on how many inputs it was compared, the largest
        differences, and the verdict."""
        return [_row(each) for each in self.each]

    def table(self) -> list[tuple[str, ...]]:
        """The rows below their headings."""
        return [_HEADINGS, *self.rows()]

    def summary(self) -> str:
        """One line: how many of the runtimes agree."""
        agreeing = sum(each.ok and not each.unrun for each in self.each)
        unrun = [each.stage for each in self.each if each.unrun]
        did = " or ".join(dict.fromkeys(unrun))
        also = f", {len(unrun)} {did} the file and did not run it" if unrun else ""
        return f"{self.each[0].subject}: {agreeing} of {len(self.each)} runtimes agree with PyTorch{also}"

    def to_json(self) -> dict[str, Any]:
        """As data for JSON."""
        return {"ok": self.ok, "summary": self.summary(), "runtimes": [each.to_json() for each in self.each]}

    def __str__(self) -> str:
        table = self.table()
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in table
        ]
        for each in self.each:
            if each.unrun:
                lines += [f"{each.runtime}: {said}" for said in (each.summary(), *each.notes)]
            elif each.runtime.startswith("cuda "):  # which nodes ran where
                lines += [f"{each.runtime}: {said}" for said in each.notes]
            if not each.ok:
                said = each.describe_mismatch()
                lines.append(said if said.startswith(each.runtime) else f"{each.runtime}: {said}")
        return "\n".join([self.summary(), *lines])


def _row(found: Verification) -> tuple[str, ...]:
    refused = any(run.label == LOADING and run.failure is not None for run in found.runs)
    compared = [run for run in found.runs if run.comparisons]
    worst = [each.worst for each in found.outputs if not each.worst.random and each.worst.reason is None]
    absolute = f"{max(each.absolute for each in worst):.1e}" if worst else "-"
    relative = f"{max(each.relative for each in worst):.1e}" if worst else "-"
    agreed = "matches" if found.verdict == "verified" else found.verdict
    verdict = agreed if found.ok else "refused" if refused else "differs"
    if not found.ok and not refused and any(run.failure is not None for run in found.runs):
        verdict = "raises"
    return found.runtime, "no" if refused else "yes", str(len(compared)), absolute, relative, verdict


def verify_in_each(request: VerificationRequest) -> Verifications:
    """`opbridge.verify` for several runtimes.

    Raises:
        ModelFileError: The file is missing or cannot be read.
        UsageError: As for one runtime.
    """
    if request.is_file:
        checked_model(request.subject)
    found = []
    for config in request.configs:
        start = time.perf_counter()
        try:
            found.append(dispatch.verify_in(request, config))
        except ModelFileError as error:
            run = Run("example", LOADING, failure=RuntimeFailure(str(error)))
            name = str(Path(request.subject))
            seconds = time.perf_counter() - start
            found.append(Verification(name, known.label(config.runtime), (run,), seconds=seconds))
    return Verifications(tuple(found))
