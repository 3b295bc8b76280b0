"""What lint says of problems that people reported in public trackers after it was written, and of clean twins.

    python bench/reported_patterns.py
    python bench/reported_patterns.py --print       # write nothing to RESULTS.md

A report is found where a rule says something of its model that it does not say of the clean one, for the target of the
report. It is false where the same rule, with the same message, speaks of both. `reported/` has the models.
"""

from __future__ import annotations

import argparse
from collections import Counter

import onnx
from reported import REPORTS, Report
from results import table, write_section

import opbridge

_BEFORE = (
    "When the models were written (2a81c355), before what they show was added: 13 found, 50 missed, 5 false. Afterwards"
    " the releases of five reports were corrected, microsoft/onnxruntime#29020 was moved from cuda to onnxruntime,"
    " whose results it reports, and the models of Pad got the value that Core ML requires."
)
_FAMILIES = ("onnxruntime", "cuda", "openvino", "tensorrt", "webgpu", "coreml", "qnn")


def judged(report: Report) -> tuple[str, str]:
    """Whether lint finds a report ("found", "missed" or "false"), and the rules that do."""
    models = report.models()
    for each in models:
        onnx.checker.check_model(onnx.ModelProto.FromString(each), full_check=True)
    said, clean = ({each.rule for each in opbridge.lint(each, report.target)} for each in models)
    if new := sorted(said - clean):
        return "found", ", ".join(new)
    return ("false", ", ".join(sorted(said))) if said else ("missed", "")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--print", action="store_true", help="write nothing to RESULTS.md")
    given = parser.parse_args()
    outcomes = [(report, *judged(report)) for report in REPORTS]
    rows = []
    for family in (*_FAMILIES, ""):
        counts = Counter(outcome for report, outcome, _ in outcomes if report.target.startswith(family))
        rows.append([family or "all", *(str(counts[each]) for each in ("found", "missed", "false"))])
    body = table(["target", "found", "missed", "false"], rows)
    body += "\n\n" + table(
        ["report", "date", "what", "target", "lint", "rules"],
        [[each.where, each.date, each.what, each.target, outcome, rules] for each, outcome, rules in outcomes],
    )
    reports = len({each.where for each in REPORTS})
    late = sum(each.date >= "2026-06" for each in REPORTS)
    body += (
        f"\n\n{len(REPORTS)} patterns of {reports} reports, {late} of them from June 2026 on; the others are the newest"
        " that the search of trackers gave for their targets."
        f"\n\n{_BEFORE} What is found now was taught by these reports: the numbers say what is missing, and not how"
        " many of the next reports lint will find."
    )
    if given.print:
        print(body)
    else:
        write_section("reported_patterns", "Problems reported in trackers", body)


if __name__ == "__main__":
    main()
