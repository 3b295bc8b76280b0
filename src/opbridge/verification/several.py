"""One file in several runtimes, each compared with PyTorch by the same rules, side by side."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opbridge.errors import ModelFileError, UsageError
from opbridge.runtimes.onnxruntime.model_file import checked_model
from opbridge.verification import dispatch
from opbridge.verification.report import LOADING, Run, Verification
from opbridge.verification.runtime_failure import RuntimeFailure
from opbridge.verification.verifier import runtime_label

if TYPE_CHECKING:
    from opbridge.verification.options import Options

__all__ = ["Verifications", "checked", "verify_in_each"]

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


def checked(runtimes: Sequence[str]) -> list[str]:
    """The names of runtimes, each once.

    Raises:
        UsageError: They are none.
    """
    names = list(dict.fromkeys(runtimes))
    if not names or not all(isinstance(each, str) for each in names):
        raise UsageError(
            f"runtime={runtimes!r} contains no runtime. Expected names such as runtime=['onnxruntime', 'openvino']."
        )
    return names


def verify_in_each(
    path_or_program: Any,
    model: Any,
    args: Any,
    kwargs: Mapping[str, Any] | None,
    dynamic_shapes: Any,
    chosen: Sequence[Options],
) -> Verifications:
    """`opbridge.verify` for several runtimes.

    Raises:
        ModelFileError: The file is missing or cannot be read.
        UsageError: As for one runtime.
    """
    is_file = isinstance(path_or_program, (str, os.PathLike))
    if is_file:
        checked_model(path_or_program)
    found = []
    for options in chosen:
        start = time.perf_counter()
        try:
            if is_file:
                found.append(dispatch.verify_file(path_or_program, model, args, kwargs, dynamic_shapes, options))
            else:
                found.append(dispatch.verify_program(path_or_program, model, args, kwargs, options))
        except ModelFileError as error:
            run = Run("example", LOADING, failure=RuntimeFailure(str(error)))
            name = str(Path(path_or_program))
            seconds = time.perf_counter() - start
            found.append(Verification(name, runtime_label(options.runtime), (run,), seconds=seconds))
    return Verifications(tuple(found))
