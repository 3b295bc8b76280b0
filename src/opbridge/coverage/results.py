"""What a sweep found: the samples, the operators, and the file that holds both."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opbridge.base.routes import ROUTES
from opbridge.coverage.databases import database, key_of
from opbridge.coverage.engine import files
from opbridge.coverage.engine.results import PASSING, SweepResults, share
from opbridge.coverage.tasks import KINDS, OUTCOMES, Task, Verdict

__all__ = ["Results", "read", "row"]


@dataclass(frozen=True)
class Results(SweepResults):
    """The results of a sweep; docs/formats.md describes `document`."""

    OUTCOMES = OUTCOMES

    @property
    def measured(self) -> Sequence[Mapping[str, Any]]:
        """The operators."""
        return self.operators

    @property
    def operators(self) -> Sequence[Mapping[str, Any]]:
        """One entry for each operator and variant."""
        return self.document["operators"]

    @property
    def samples(self) -> Sequence[Mapping[str, Any]]:
        """One entry for each sample."""
        return self.document["samples"]

    def count(self, *outcomes: str, kind: str | None = None) -> int:
        """How many operators have one of some outcomes.

        Args:
            *outcomes: All but "left out" if none is given.
            kind: Only those whose results are of this kind.
        """
        return self._counted([each for each in self.operators if kind in (None, each["kind"])], outcomes)

    def summary(self) -> str:
        """One line: how many operators pass, of how many."""
        tried, passed = self.count(kind="deterministic"), self.count(*PASSING, kind="deterministic")
        of_all = f"{self.count(*PASSING)} of {self.count()} of all"
        done = "are built, not run" if self.count("built") else "pass"
        return f"{passed} of {tried} deterministic operators {done}{share(passed, tried)}, {of_all}"


def row(task: Task, verdict: Verdict) -> dict[str, Any]:
    """A sample as the file has it."""
    entry = database(task.database)[task.key]
    return {
        "operator": entry.operator,
        "variant": entry.variant,
        "dtype": task.dtype,
        "index": task.index,
        **verdict.to_json(),
    }


def document(
    head: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], run: Mapping[str, Any], missing_index: int
) -> dict[str, Any]:
    """The content of a results file.

    Args:
        head: The versions and settings.
        rows: The samples, in order.
        run: How the sweep was made: processes, seconds.
        missing_index: How many samples were asked for that operators do not have.
    """
    operators = _operators(rows)
    return {
        "format": files.FORMAT,
        **head,
        "run": dict(run),
        "summary": {
            "samples": _counted(each["outcome"] for each in rows),
            "samples_that_operators_do_not_have": missing_index,
            "operators": {
                kind: _counted(each["outcome"] for each in operators if each["kind"] == kind) for kind in KINDS
            },
            "routes": dict(Counter(each["route"] for each in operators if each["route"] is not None)),
            "captures": dict(Counter(each["capture"] for each in rows if each.get("capture") is not None)),
            "left_out": _left_out(rows),
        },
        "operators": operators,
        "samples": list(rows),
    }


def write(path: Path, content: Mapping[str, Any]) -> None:
    """Writes a results file, whole or not at all.

    Raises:
        SaveError: it cannot be written.
    """
    files.write(path, content, ("samples", "operators"))


def read(path: str | os.PathLike[str]) -> Results:
    """The results that a sweep wrote.

    Raises:
        UsageError: there is no such file, or it is something else.
    """
    return Results(files.read(path, {"operators", "samples", "settings"}, "coverage"), Path(path))


def _counted(outcomes: Iterable[str]) -> dict[str, int]:
    return files.counted_by(OUTCOMES, outcomes)


def _operators(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The worst outcome of each operator's samples; it passes where all that were tried pass."""
    grouped: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for each in rows:
        grouped.setdefault((each["operator"], each["variant"]), []).append(each)
    found = []
    for (operator, variant), samples in grouped.items():
        worst = min(samples, key=lambda each: OUTCOMES.index(each["outcome"]))
        kinds = {each["kind"] for each in samples}
        routes = [each["route"] for each in samples if each["route"] is not None]
        found.append(
            {
                "operator": operator,
                "variant": variant,
                "outcome": worst["outcome"],
                "kind": next((kind for kind in ("undefined", "random") if kind in kinds), "deterministic"),
                "route": max(routes, key=ROUTES.index, default=None),
                "samples": _counted(each["outcome"] for each in samples),
                "message": "" if worst["outcome"] in PASSING else worst["message"],
            }
        )
    return found


def _left_out(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """What was left out, by reason."""
    reasons: dict[str, list[Mapping[str, Any]]] = {}
    for each in rows:
        if each["outcome"] == "left out":
            reasons.setdefault(each["message"], []).append(each)
    return [
        {
            "reason": reason,
            "samples": len(samples),
            "operators": list(dict.fromkeys(key_of(each["operator"], each["variant"]) for each in samples)),
        }
        for reason, samples in sorted(reasons.items())
    ]
