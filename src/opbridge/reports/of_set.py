"""The report of a set of models: one page, with the report of each of its parts."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from opbridge.base.wording import counted, duration, listed
from opbridge.pages import rendering
from opbridge.reports.answers import NOT_DONE
from opbridge.reports.report import Report, created, told_of, versions, written

__all__ = ["SetReport", "reporting_set"]

_STATES = ("bad", "warn", "good", "plain")
"""From the worst on: one of a part is that of the set."""

_OF_KINDS = {
    "check": "Every operator has a route to ONNX",
    "verify": "The files agree with PyTorch",
    "export": "The exported models agree with PyTorch",
}


@dataclass
class SetReport:
    """What the page of a set shows, as far as it is known.

    Attributes:
        kind: The command: "export", "check" or "verify".
        subject: The folder, or what else the set is called.
        parts: The reports of the parts that have been begun, by name.
        run: `Verification.to_json()` of the whole pipeline; None where it was not compared.
        seconds: What each stage took over all parts; empty: the sum of the parts' own.
        files: What was written: {path, bytes}.
        unverified: Why the pipeline was not compared although that was asked for.
        error: As in `Report`.
        late: Tells the report the rest before it is written.
    """

    kind: str
    subject: str
    parts: dict[str, Report] = field(default_factory=dict)
    run: Mapping[str, Any] | None = None
    seconds: Mapping[str, float] = field(default_factory=dict)
    files: Sequence[Mapping[str, Any]] = ()
    unverified: str = ""
    error: Mapping[str, str] | None = None
    late: Callable[[], None] | None = None

    def part(self, name: str) -> Report:
        """The report of a part, to be filled in."""
        return self.parts.setdefault(name, Report(self.kind, f"{self.subject}: {name}"))

    def documents(self) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
        """That of the set, and those of the parts by name, as plain data."""
        if self.late is not None:
            self.late()
        parts = {name: report.document() for name, report in self.parts.items()}
        found = {
            "kind": self.kind,
            "subject": self.subject,
            "created": created(),
            "versions": versions(),
            "plan": None,
            "graph": None,
            "findings": None,
            "fixed": None,
            "verification": self.run,
            "verifications": [] if self.run is None else [self.run],
            "stages": [{"name": name, "seconds": each, "peak": 0} for name, each in self._seconds(parts).items()],
            "files": list(self.files),
            "unverified": self.unverified,
            "notes": [],
            "error": self.error,
            "parts": [_row(name, document) for name, document in parts.items()],
        }
        return found | {"verdict": _verdict(found, parts), "answers": list(_answers(found, parts))}, parts

    def page(self) -> str:
        """The report as a page of HTML."""
        whole, parts = self.documents()
        views = [
            {"name": name, "document": rendering.plain_data(document), **told_of(document)}
            for name, document in parts.items()
        ]
        return rendering.render("set.html", whole, views=views, **told_of(whole))

    def _seconds(self, parts: Mapping[str, Mapping[str, Any]]) -> dict[str, float]:
        if self.seconds:
            return dict(self.seconds)
        found: dict[str, float] = {}
        for document in parts.values():
            for stage in document["stages"]:
                found[stage["name"]] = found.get(stage["name"], 0.0) + stage["seconds"]
        return found


@contextlib.contextmanager
def reporting_set(path: str | os.PathLike[str] | None, kind: str, subject: str | Path | None) -> Iterator[SetReport]:
    """A report to fill in; when the context ends, it is written, also where an error says that the answer is no.

    Args:
        path: The page to write; None: none is.
        kind: As in `SetReport`.
        subject: As in `SetReport`; None: the set was given no folder.

    Raises:
        UsageError: No page can be written there; said before the work.
        SaveError: It could not be written.
    """
    report = SetReport(kind, "the set" if subject is None else str(subject))
    with written(path, report):
        yield report


def _row(name: str, document: Mapping[str, Any]) -> dict[str, Any]:
    """What the table of parts shows of one."""
    plan, found = document["plan"], document["verification"]
    return {
        "name": name,
        "state": document["verdict"]["state"],
        "headline": document["verdict"]["headline"],
        "calls": sum(row["count"] for row in plan["operators"]) if plan else None,
        "routes": plan["routes"] if plan else {},
        "compared": found["summary"] if found else document["unverified"],
    }


def _verdict(whole: Mapping[str, Any], parts: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    bad = [name for name, document in parts.items() if document["verdict"]["state"] == "bad"]
    run, error = whole["verification"], whole["error"]
    if bad:
        first = parts[bad[0]]["verdict"]
        verb = "it fails" if len(bad) == 1 else "they fail"
        headline = f"Part {bad[0]}: {first['headline']}" if len(bad) == 1 else f"{listed(bad, 4)}: {verb}"
        return {"state": "bad", "headline": headline, "line": first["line"]}
    if run is not None and not run["ok"]:
        return {"state": "bad", "headline": "The whole pipeline does not agree with PyTorch", "line": run["summary"]}
    if error is not None:
        return {"state": "bad", "headline": f"The set was not {NOT_DONE[whole['kind']]}", "line": error["message"]}
    warned = [name for name, document in parts.items() if document["verdict"]["state"] == "warn"]
    if warned:
        first = parts[warned[0]]["verdict"]
        return {"state": "warn", "headline": f"Part {warned[0]}: {first['headline']}", "line": first["line"]}
    line = run["summary"] if run is not None else whole["unverified"]
    state = "warn" if whole["unverified"] else "good"
    return {"state": state, "headline": _OF_KINDS[whole["kind"]], "line": line or counted(len(parts), "part")}


def _answers(whole: Mapping[str, Any], parts: Mapping[str, Mapping[str, Any]]) -> Iterator[dict[str, str]]:
    """The questions of the parts, each answered for the set by the part that is worst off."""
    asked: dict[str, list[tuple[str, Mapping[str, str]]]] = {}
    for name, document in parts.items():
        for row in document["answers"]:
            if row["question"] != "How long did it take?":
                asked.setdefault(row["question"], []).append((name, row))
    for question, rows in asked.items():
        name, worst = min(rows, key=lambda each: _STATES.index(each[1]["state"]))
        is_same = len({row["answer"] for _, row in rows}) == 1 and len(rows) == len(parts)
        alike = f"in {'both' if len(rows) == 2 else f'all {len(rows)}'} parts" if len(rows) > 1 else f"part {name}"
        detail = alike if is_same and worst["state"] in ("good", "plain") else f"{name}: {worst['detail']}"
        yield {**worst, "question": question, "detail": detail}
    if (run := whole["verification"]) is not None:
        runs = sum(each["left_out"] is None for each in run["runs"])
        yield {
            "question": "Do the parts work together?",
            "state": "good" if run["ok"] else "bad",
            "answer": "Yes" if run["ok"] else "No",
            "detail": f"the whole pipeline was compared on {counted(runs, 'run')}",
        }
    if whole["stages"]:
        seconds = sum(each["seconds"] for each in whole["stages"])
        yield {"question": "How long did it take?", "state": "plain", "answer": duration(seconds), "detail": ""}
