"""What a notebook shows of a plan, a verification or a program: parts of the pages, without scripts.

The picture of a model needs scripts: it is the whole report in a frame, which is opened by a click.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from opbridge.pages.rendering import render

__all__ = ["of_plan", "of_report", "of_verification"]

_LARGEST_FRAME = 4 << 20
"""Larger reports are not put into a notebook, which keeps what it shows."""

_LEAST, _MOST = -8.0, 3.0
"""The powers of ten of the share of what is allowed, between which errors are drawn."""


def of_plan(plan: Mapping[str, Any]) -> str:
    """A plan: how many operators take which route, and every operator."""
    return render("notebook.html", {"plan": plan, "verification": None, "report": None}, dots=[], page="")


def of_verification(verification: Mapping[str, Any]) -> str:
    """A verification: the errors by run, and each output at its worst."""
    document = {"plan": None, "verification": verification, "report": None}
    return render("notebook.html", document, dots=_dots(verification), page="")


def of_report(report: Mapping[str, Any], page: str) -> str:
    """A program: what stands on top of its report, its plan and verification, and the report itself in a frame.

    Args:
        report: The document of the report.
        page: The report as a page.
    """
    found = report["verification"]
    document = {"plan": report["plan"], "verification": found, "report": {**report, "graph": None}}
    shown = page if len(page) <= _LARGEST_FRAME else ""
    return render("notebook.html", document, dots=_dots(found) if found else [], page=shown)


def _dots(verification: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Where the errors of each run are drawn, in per cent of the width."""
    rows = []
    for run in verification["runs"]:
        compared = [each for each in run["errors"] if not each["random"] and each["reason"] is None]
        dots = [{"name": each["name"], "ok": each["ok"], "at": _place(float(each["excess"]))} for each in compared]
        if dots:
            rows.append({"label": run["label"], "dots": dots[:200]})
    return rows


def _place(ratio: float) -> float:
    power = _LEAST if ratio <= 0 else _MOST if math.isinf(ratio) else math.log10(ratio)
    return 100 * (min(max(power, _LEAST), _MOST) - _LEAST) / (_MOST - _LEAST)
