"""The exporters side by side over PyTorch's own test database of operators, as a table in Markdown.

    python bench/coverage.py FOLDER
    python bench/coverage.py FOLDER [options of `opbridge coverage`]     # nothing is written to RESULTS.md

Each exporter's results are written to FOLDER/<exporter>.json. Those that are there already, made with the same versions
and settings, are taken as they are; a sweep that was interrupted goes on.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from results import write_section
from rich.console import Console

from opbridge import coverage
from opbridge.cli.coverage_report import comparison
from opbridge.cli.sweep_bar import Bar
from opbridge.coverage import sweep
from opbridge.coverage.exporting import EXPORTERS
from opbridge.coverage.sweep import ALLOWED, head_of
from opbridge.coverage.tasks import OUTCOMES

_WHAT = (
    "op_db, the first 3 samples of each operator, float32 or its first dtype; its deterministic operators that run "
    "on a CPU and return tensors. An operator passes if all of its samples pass."
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--ops", action="append", metavar="PATTERN")
    parser.add_argument("--samples", type=int, default=3)
    parser.add_argument("--opset", type=int)
    parser.add_argument("--allow", action="append", metavar="ROUTE", help="routes of opbridge; all but fallthrough")
    parser.add_argument("--exporter", action="append", choices=EXPORTERS, help="some of them; all if not given")
    parser.add_argument("--jobs", type=int)
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    options = {
        "ops": tuple(given.ops or ("*",)),
        "samples": given.samples,
        "opset": given.opset,
        "allow": tuple(given.allow or ALLOWED),
    }
    found = []
    for exporter in given.exporter or EXPORTERS:
        path = given.folder / f"{exporter}.json"
        known = coverage.results.read(path) if path.exists() else None
        head = head_of(exporter=exporter, **options)
        if known is None or any(known.document[name] != value for name, value in head.items()):
            with Bar(Console(stderr=True), "coverage", OUTCOMES) as bar:
                known = sweep(exporter=exporter, jobs=given.jobs, output=path, progress=bar, **options)
        print(f"{exporter}: {known.summary()}", file=sys.stderr)
        found.append(known)
    table = comparison(found)
    if len(sys.argv) == 2:
        write_section("coverage", "Operators that are exported correctly", f"{_WHAT}\n\n{table}")
    else:
        print(table)


if __name__ == "__main__":
    main()
