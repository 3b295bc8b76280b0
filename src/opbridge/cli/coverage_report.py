"""What a person sees of a sweep over operators: the tables when it is done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console

from opbridge.base.routes import ALLOWED_BY_DEFAULT, ROUTES
from opbridge.base.wording import counted, listed
from opbridge.cli.console import aligned
from opbridge.cli.sweep_bar import LONGEST_MESSAGE, cut
from opbridge.coverage.databases import key_of
from opbridge.coverage.engine.results import PASSING
from opbridge.coverage.results import Results
from opbridge.coverage.tasks import KINDS, OUTCOMES

__all__ = ["comparison", "failures", "print_results"]

_MOST_OPERATORS = 12
_MOST_FAILURES = 80


def print_results(console: Console, results: Results) -> None:
    """The figures, what fails and why, and what was left out."""

    def plain(text: str) -> None:
        console.out(text, highlight=False)

    document = results.document
    plain(_versions(document))
    plain("")
    plain(_outcomes(document["summary"]))
    if document["summary"]["routes"]:
        plain(f"operators by route (the least portable one of their samples): {_routes(document['summary']['routes'])}")
    if counted_by := _routes_counted(results):
        plain(counted_by)
    longest = LONGEST_MESSAGE if console.is_terminal else None
    failed = failures(results, longest)
    if failed:
        plain(f"\n{counted(len(failed), 'operator')} that did not pass:")
        plain(aligned(failed[:_MOST_FAILURES]))
        if len(failed) > _MOST_FAILURES:
            where = f": see {results.path}" if results.path is not None else ""
            plain(f"and {len(failed) - _MOST_FAILURES} more{where}")
    captures = dict(document["summary"].get("captures", {}))
    captures.pop("direct", None)
    if captures:
        plain(f"samples that needed torch.export for their capture: {sum(captures.values())}")
    if document["summary"]["left_out"]:
        plain("\nleft out:")
        for each in document["summary"]["left_out"]:
            samples = counted(each["samples"], "sample")
            plain(f"  {samples}: {cut(each['reason'], longest)}: {listed(each['operators'], _MOST_OPERATORS)}")
    run = document["run"]
    rate = len(results.samples) / run["cpu_seconds"] if run["cpu_seconds"] else 0.0
    plain(f"\n{results.summary()}; {run['seconds']:.1f} s, {rate:.1f} samples a second of processor time")
    if results.path is not None:
        plain(f"written: {results.path}")


def failures(results: Results, longest: int | None = LONGEST_MESSAGE) -> list[tuple[str, ...]]:
    """The operators that did not pass: outcome, name, how many samples failed, why; the worst first."""
    found = [each for each in results.operators if each["outcome"] not in (*PASSING, "left out")]
    found.sort(key=lambda each: OUTCOMES.index(each["outcome"]))
    return [
        (
            each["outcome"],
            key_of(each["operator"], each["variant"])
            + ("" if each["kind"] == "deterministic" else f" ({each['kind']})"),
            f"{_failing(each['samples'])} of {sum(each['samples'].values())}",
            cut(each["message"], longest),
        )
        for each in found
    ]


def _failing(samples: Mapping[str, int]) -> int:
    return sum(count for name, count in samples.items() if name not in PASSING)


def comparison(found: Sequence[Results]) -> str:
    """A table in Markdown: one line for each exporter, over the deterministic operators."""
    lines = [
        "| exporter | pass | refused | silently wrong | does not load or run | crash or hang |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for results in found:
        settings, versions = results.document["settings"], results.document["versions"]
        name = _NAMES[settings["exporter"]].format(**versions)
        if settings["exporter"] == "opbridge":
            name += f" ({', '.join(settings['allow'])})"

        def count(*outcomes: str, among: Results = results) -> int:
            return among.count(*outcomes, kind="deterministic")

        tried = count()
        share = f" ({100 * count(*PASSING) / tried:.1f} %)" if tried else ""
        cells = [
            f"{count(*PASSING)} of {tried}{share}",
            count("refused", "export error", "fault"),
            count("wrong"),
            count("load error", "parse error", "build error", "run error"),
            count("crash", "timeout", "sweep error"),
        ]
        lines.append(f"| {name} | {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


_NAMES = {
    "opbridge": "opbridge {opbridge}",
    "torch": "torch.onnx {torch} (dynamo)",
    "torchscript": "torch.onnx {torch} (TorchScript)",
}


def _routes_counted(results: Results) -> str:
    """Which routes the numbers count, and how many operators pass by those that an export takes by default."""
    settings = results.document["settings"]
    if settings["exporter"] != "opbridge":
        return ""
    allowed = settings["allow"]
    said = f"routes counted: {', '.join(allowed)}"
    off = [route for route in allowed if route not in ALLOWED_BY_DEFAULT]
    if not off:
        return said
    passing = [each for each in results.operators if each["outcome"] in PASSING and each["kind"] == "deterministic"]
    others = sum(each["route"] not in ALLOWED_BY_DEFAULT for each in passing)
    return (
        f"{said}; {others} of the {len(passing)} deterministic operators that pass use {' or '.join(off)}, which "
        f"is off by default; --allow {','.join(ALLOWED_BY_DEFAULT)} counts the default routes"
    )


def _versions(document: Mapping[str, Any]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in document["versions"].items())
    return f"exporter {document['settings']['exporter']}; {versions}"


def _outcomes(summary: Mapping[str, Any]) -> str:
    """A table of outcomes by what is counted."""
    kinds = [kind for kind in KINDS if summary["operators"][kind]]
    rows = [("", *kinds, "samples")]
    for outcome in reversed(OUTCOMES):
        counts = [summary["operators"][kind].get(outcome, 0) for kind in kinds] + [summary["samples"].get(outcome, 0)]
        if any(counts):
            rows.append((outcome, *map(str, counts)))
    return aligned(rows, right=range(1, len(kinds) + 2))


def _routes(routes: Mapping[str, int]) -> str:
    return ", ".join(f"{routes[route]} {route}" for route in ROUTES if route in routes)
