"""What a sweep over models found: the models, the families, and the file that holds both."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opbridge.coverage.engine import files
from opbridge.coverage.engine.results import PASSING, SweepResults, share
from opbridge.coverage.models.catalogue import packages_of
from opbridge.coverage.models.tasks import OUTCOMES, ModelTask, ModelVerdict

__all__ = ["MOST_RATIO", "Results", "document", "read", "row"]

MOST_RATIO = 3.0
"""An export that takes more times as long as its capture is listed."""


@dataclass(frozen=True)
class Results(SweepResults):
    """The results of a sweep over models; docs/formats.md describes `document`."""

    OUTCOMES = OUTCOMES

    @property
    def measured(self) -> Sequence[Mapping[str, Any]]:
        """The models."""
        return self.models

    @property
    def models(self) -> Sequence[Mapping[str, Any]]:
        """One entry for each model."""
        return self.document["models"]

    @property
    def families(self) -> Sequence[Mapping[str, Any]]:
        """One entry for each family."""
        return self.document["families"]

    def count(self, *outcomes: str) -> int:
        """How many models have one of some outcomes: all but "left out" if none is given."""
        return self._counted(self.models, outcomes)

    def summary(self) -> str:
        """One line: how many models pass, of how many."""
        tried, passed, built = self.count(), self.count("pass"), self.count("built")
        if built:
            return f"{passed + built} of {tried} models are built, not run{share(passed + built, tried)}"
        return f"{passed} of {tried} models pass{share(passed, tried)}"


def row(task: ModelTask, verdict: ModelVerdict) -> dict[str, Any]:
    """A model as the file has it."""
    ratio = verdict.ratio
    return {
        "family": task.family,
        "model": task.name,
        **verdict.to_json(),
        "ratio": None if ratio is None else round(ratio, 2),
    }


def document(
    head: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], run: Mapping[str, Any], missing: Mapping[str, str]
) -> dict[str, Any]:
    """The content of a file of results.

    Args:
        head: The versions and settings.
        rows: The models, in order.
        run: How the sweep was made: processes, seconds.
        missing: The families that were left out, with the reason.
    """
    families = [_family(name, [each for each in rows if each["family"] == name]) for name in _families(rows)]
    return {
        "format": files.FORMAT,
        **head,
        "run": dict(run),
        "summary": {
            "models": _counted(rows),
            "families": len(families),
            "families_left_out": dict(missing),
            "causes": _causes(rows),
        },
        "families": families,
        "models": list(rows),
    }


def read(path: str | os.PathLike[str]) -> Results:
    """The results that a sweep over models wrote.

    Raises:
        UsageError: There is no such file, or it is something else.
    """
    return Results(files.read(path, {"families", "models", "settings"}, "opbridge models"), Path(path))


def _counted(rows: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    return files.counted_by(OUTCOMES, (each["outcome"] for each in rows))


def _families(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    return list(dict.fromkeys(each["family"] for each in rows))


def _family(name: str, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {
        "family": name,
        "packages": list(packages_of(name)),
        "models": _counted(rows),
        "seconds": round(sum(each["seconds"] for each in rows), 3),
        "export_seconds": round(sum(each["timings"].get("export", 0.0) for each in rows), 3),
    }


def _causes(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """What keeps models from passing, by outcome and cause: the worst outcome first, then the most frequent cause."""
    found: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for each in rows:
        if each["outcome"] not in (*PASSING, "left out"):
            found.setdefault((each["outcome"], each["cause"]), []).append(each)
    order = sorted(found, key=lambda key: (OUTCOMES.index(key[0]), -len(found[key]), key[1]))
    return [
        {
            "outcome": key[0],
            "cause": key[1],
            "models": [f"{each['family']}/{each['model']}" for each in found[key]],
            "message": found[key][0]["message"],
        }
        for key in order
    ]
