"""One report, collected while the stages run, and written at the end: also where they end in an error."""

from __future__ import annotations

import contextlib
import datetime
import importlib.metadata
import os
import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from opbridge.base.version import __version__
from opbridge.errors import OpbridgeError, SaveError
from opbridge.pages import rendering, writing
from opbridge.reports.answers import answers, verdict
from opbridge.reports.picture import Picture

__all__ = ["Report", "created", "files_of", "reporting", "told_of", "versions", "written"]

_WRONG_USE = 2
"""The exit status of an error that says that the question was wrong: of that there is nothing to report."""


@dataclass
class Report:
    """What a report shows, as far as it is known.

    Attributes:
        kind: The command: "export", "check", "verify", "lint" or "fix".
        subject: What it is about: a file, or a model's name.
        plan: `Plan.to_json()`.
        verifications: `Verification.to_json()`, one for each runtime.
        findings: `Findings.document()`.
        fixed: `Fixed.document()`.
        stages: What was done, with seconds and the peak of memory: {name, seconds, peak}.
        files: What was written: {path, bytes}.
        unverified: Why it was not compared.
        notes: What else a person should know.
        error: How it ended, where it did not as it should: {kind, message}.
        draw: Collects the picture; None: there is none.
        late: Tells the report the rest before it is written.
    """

    kind: str
    subject: str
    plan: Mapping[str, Any] | None = None
    verifications: Sequence[Mapping[str, Any]] = ()
    findings: Mapping[str, Any] | None = None
    fixed: Mapping[str, Any] | None = None
    stages: list[dict[str, Any]] = field(default_factory=list)
    files: Sequence[Mapping[str, Any]] = ()
    unverified: str = ""
    notes: Sequence[str] = ()
    error: Mapping[str, str] | None = None
    draw: Callable[[], Picture] | None = None
    late: Callable[[Report], None] | None = None

    def document(self) -> dict[str, Any]:
        """The whole as plain data."""
        if self.late is not None:
            self.late(self)
        found: dict[str, Any] = {
            "kind": self.kind,
            "subject": self.subject,
            "created": created(),
            "versions": versions(),
            "plan": self.plan,
            "verification": next(
                (each for each in self.verifications if not each["ok"]), *(self.verifications[:1] or (None,))
            ),
            "verifications": list(self.verifications),
            "findings": self.findings,
            "fixed": self.fixed,
            "stages": self.stages,
            "files": list(self.files),
            "unverified": self.unverified,
            "notes": list(self.notes),
            "error": self.error,
            "graph": None if self.draw is None else self.draw().document(),
        }
        return found | {"verdict": verdict(found), "answers": answers(found)}

    def page(self) -> str:
        """The report as a page of HTML."""
        return self.page_of(self.document())

    def page_of(self, document: Mapping[str, Any]) -> str:
        """The page of a document that this report gave."""
        return rendering.render("report.html", document, **told_of(document))


class _Page(Protocol):
    error: Mapping[str, str] | None

    def page(self) -> str: ...


@contextlib.contextmanager
def reporting(path: str | os.PathLike[str] | Report | None, kind: str, subject: str = "") -> Iterator[Report]:
    """A report to fill in; when the context ends, it is written, also where an error says that the answer is no.

    Args:
        path: The page to write; None: none is. A report that another call began, and writes, is filled in.
        kind: As in `Report`.
        subject: As in `Report`.

    Raises:
        UsageError: No page can be written there; said before the work.
        SaveError: It could not be written.
    """
    if isinstance(path, Report):
        try:
            yield path
        except OpbridgeError as error:
            path.error = _told(error)
            raise
        return
    report = Report(kind, subject)
    with written(path, report):
        yield report


@contextlib.contextmanager
def written(path: str | os.PathLike[str] | None, report: _Page) -> Iterator[None]:
    """Writes a report when the context ends, as `reporting` does.

    Raises:
        UsageError: No page can be written there; said before the work.
        SaveError: It could not be written.
    """
    if path is None:
        yield
        return
    target = writing.refuse_unwritable(path)
    try:
        yield
    except OpbridgeError as error:
        if error.exit_status != _WRONG_USE:
            report.error = _told(error)
            with contextlib.suppress(SaveError):
                error.report = writing.write(target, report.page())
        raise
    writing.write(target, report.page())


def _told(error: OpbridgeError) -> dict[str, str]:
    return {"kind": type(error).__name__, "message": str(error)}


def told_of(document: Mapping[str, Any]) -> dict[str, Any]:
    """What a template sees beside the document: bars of time and memory, and all notes."""
    stages = document["stages"]
    times = [{"name": each["name"], "value": each["seconds"], "text": _seconds(each["seconds"])} for each in stages]
    held = [{"name": each["name"], "value": each["peak"], "text": _megabytes(each["peak"])} for each in stages]
    return {
        "times": times,
        "peaks": held if all(each["value"] for each in held) else [],
        "notes": [*(document["plan"] or {}).get("notes", ()), *document["notes"]],
    }


def files_of(paths: Sequence[Path]) -> list[dict[str, Any]]:
    """Files that were written, with their sizes."""
    return [{"path": str(path), "bytes": path.stat().st_size} for path in paths]


def created() -> str:
    """When a report was made: now."""
    return datetime.datetime.now().astimezone().strftime("%Y-%m-%d %H:%M")


def versions() -> dict[str, str]:
    """The releases of what a report depends on."""
    found = {"opbridge": __version__, "python": platform.python_version()}
    for name in ("torch", "onnx", "onnxruntime", "onnxscript"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found


def _seconds(value: float) -> str:
    return f"{value * 1000:.0f} ms" if value < 0.0995 else f"{value:.1f} s"


def _megabytes(count: int) -> str:
    return f"{count / 1e6:,.0f} MB" if count < 1e9 else f"{count / 1e9:.1f} GB"
