"""What a person sees of a sweep over models."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Console

from opbridge.base.wording import counted, listed
from opbridge.cli.console import aligned
from opbridge.cli.sweep_bar import LONGEST_MESSAGE, cut
from opbridge.coverage.engine.results import PASSING
from opbridge.coverage.models.results import MOST_RATIO, Results
from opbridge.coverage.models.tasks import OUTCOMES

__all__ = ["print_results"]

_MOST_FAILURES = 80
_MOST_NAMES = 12
_MOST_SLOW = 8


def print_results(console: Console, results: Results) -> None:
    """The figures by family, what fails by cause, what is slow, and what was left out."""

    def plain(text: str) -> None:
        console.out(text, highlight=False)

    longest = LONGEST_MESSAGE if console.is_terminal else None
    document = results.document
    versions = ", ".join(f"{name} {version}" for name, version in document["versions"].items())
    settings = document["settings"]
    plain(f"exporter {settings['exporter']}, dynamic {settings['dynamic']}; {versions}\n")
    plain(_by_family(results))
    for title, lines in (
        ("models that did not pass", _failures(results, longest)),
        ("by cause", _causes(results)),
        ("the slowest", _slowest(results)),
        (f"exports that take more than {MOST_RATIO:g} times as long as their capture", _ratios(results)),
    ):
        found = list(lines)
        if found:
            plain(f"\n{title}:\n{aligned(found[:_MOST_FAILURES])}")
            if len(found) > _MOST_FAILURES:
                where = f": see {results.path}" if results.path is not None else ""
                plain(f"and {len(found) - _MOST_FAILURES} more{where}")
    left_out = list(_left_out(results, longest))
    if left_out:
        plain("\nleft out:")
        for line in left_out:
            plain(f"  {line}")
    run = document["run"]
    plain(f"\n{results.summary()}; {run['seconds']:.1f} s, {run['cpu_seconds']:.1f} s of processor time")
    if results.path is not None:
        plain(f"written: {results.path}")


def _by_family(results: Results) -> str:
    """A table of outcomes by family."""
    totals = results.document["summary"]["models"]
    outcomes = [name for name in reversed(OUTCOMES) if totals.get(name)]
    rows = [("", *outcomes, "seconds")]
    for each in results.families:
        cells = [str(each["models"].get(name, 0)) for name in outcomes]
        rows.append((each["family"], *cells, f"{each['seconds']:.0f}"))
    if len(results.families) > 1:
        seconds = sum(each["seconds"] for each in results.families)
        rows.append(("all", *(str(totals[name]) for name in outcomes), f"{seconds:.0f}"))
    return aligned(rows, right=range(1, len(outcomes) + 2))


def _failures(results: Results, longest: int | None) -> Iterator[tuple[str, ...]]:
    """The models that did not pass: outcome, name, cause, why; the worst first."""
    failed = [each for each in results.models if each["outcome"] not in (*PASSING, "left out")]
    for each in sorted(failed, key=lambda each: OUTCOMES.index(each["outcome"])):
        yield each["outcome"], f"{each['family']}/{each['model']}", each["cause"], cut(each["message"], longest)


def _causes(results: Results) -> Iterator[tuple[str, ...]]:
    """The causes that several models share."""
    for each in results.document["summary"]["causes"]:
        if len(each["models"]) > 1:
            yield each["outcome"], each["cause"], str(len(each["models"])), listed(each["models"], 4)


def _slowest(results: Results) -> Iterator[tuple[str, ...]]:
    """The models that took longest, with the stage that took most of it."""
    for each in sorted(results.models, key=lambda each: -each["seconds"])[:_MOST_SLOW]:
        stage, seconds = _longest_stage(each)
        if stage:
            yield f"{each['family']}/{each['model']}", f"{each['seconds']:.1f} s", f"{stage} {seconds:.1f} s"


def _ratios(results: Results) -> Iterator[tuple[str, ...]]:
    """The exports that take long beside their capture, with the stage after it that took most."""
    found = [each for each in results.models if each["ratio"] is not None and each["ratio"] > MOST_RATIO]
    for each in sorted(found, key=lambda each: -each["ratio"]):
        later = {name: value for name, value in each["stages"].items() if name not in ("capture", "verify")}
        stage = max(later, key=lambda name: later[name])
        took = f"capture {each['stages']['capture']:.2f} s, {stage} {later[stage]:.2f} s"
        yield f"{each['family']}/{each['model']}", f"{each['ratio']:.1f}", took


def _longest_stage(model: Mapping[str, Any]) -> tuple[str, float]:
    """The stage that took longest; of an export, its own stage."""
    timings: dict[str, float] = dict(model["timings"])
    stages: dict[str, float] = dict(model["stages"])
    if stages:
        timings.pop("export", None)
        timings.update({f"export: {name}": seconds for name, seconds in stages.items()})
    if not timings:
        return "", 0.0
    longest = max(timings, key=lambda name: timings[name])
    return longest, timings[longest]


def _left_out(results: Results, longest: int | None) -> Iterator[str]:
    """The families and models that were not tried, with the reason."""
    for family, reason in results.document["summary"]["families_left_out"].items():
        yield f"{family}: {cut(reason, longest)}"
    reasons: dict[str, list[str]] = {}
    for each in results.models:
        if each["outcome"] == "left out":
            reasons.setdefault(each["message"], []).append(f"{each['family']}/{each['model']}")
    for reason, names in reasons.items():
        yield f"{counted(len(names), 'model')}: {cut(reason, longest)}: {listed(names, _MOST_NAMES)}"
