"""Where the time of the test suite goes: by folder, by file and by fixture, in seconds of wall and of processor time.

    python bench/suite_time.py --print -- -n 2 --dist worksteal          # what follows -- is pytest's
    python bench/suite_time.py --label after --before build/suite-time/before
    python bench/suite_time.py                   # beside the earlier run that the table in RESULTS.md has
    python bench/suite_time.py --print --report build/suite-time/before --files 40

Runs pytest with a plugin that notes of each test, and of each longer-lived fixture's set-up, the wall time and the
processor time of the test's process and of those children that it has waited for. Processor time is what to compare
between two runs: two processes on two cores, or another program beside them, change it little. A fixture that lasts
longer than its test is counted once, in the test that came first, and under the fixture's own name.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from helpers.time_spent import FOLDER

ROOT = Path(__file__).parents[1]
_RUN = "run.json"
_ALL = "all"
_LEAST = 0.1
"""Processor minutes of the smallest part that has a row."""


@dataclass
class Spent:
    """What some tests took together."""

    tests: int = 0
    wall: float = 0.0
    cpu: float = 0.0

    def add(self, row: dict[str, Any]) -> None:
        self.tests += 1
        self.wall += row["wall"]
        self.cpu += row["cpu"]


@dataclass
class Suite:
    """What a run noted.

    Attributes:
        folders: What the tests of each folder of `tests/` took, or of each file directly in it.
        files: What those of each file took.
        functions: What the rows of each test took.
        fixtures: What the set-up of each fixture took that lasts longer than a test.
    """

    folders: dict[str, Spent] = field(default_factory=lambda: defaultdict(Spent))
    files: dict[str, Spent] = field(default_factory=lambda: defaultdict(Spent))
    functions: dict[str, Spent] = field(default_factory=lambda: defaultdict(Spent))
    fixtures: dict[str, Spent] = field(default_factory=lambda: defaultdict(Spent))

    def total(self) -> Spent:
        whole = Spent()
        for each in self.folders.values():
            whole.tests, whole.wall, whole.cpu = whole.tests + each.tests, whole.wall + each.wall, whole.cpu + each.cpu
        return whole


def read(folder: Path) -> Suite:
    """What the processes of a run wrote into a folder."""
    suite = Suite()
    for path in sorted(folder.glob("*.jsonl")):
        for line in path.read_text().splitlines():
            row = json.loads(line)
            if "fixture" in row:
                suite.fixtures[row["fixture"]].add(row)
                continue
            name = row["test"]
            file = name.partition("::")[0]
            suite.functions[name.partition("[")[0]].add(row)
            suite.files[file].add(row)
            suite.folders["/".join(Path(file).parts[:2])].add(row)
    return suite


def largest(parts: dict[str, Spent], count: int) -> list[tuple[str, Spent]]:
    """Those that took the most processor time."""
    return sorted(parts.items(), key=lambda item: -item[1].cpu)[:count]


def lines(parts: dict[str, Spent], count: int) -> str:
    """A table of those that took the most, as text."""
    return "\n".join(
        f"{spent.cpu:9.1f} {spent.wall:9.1f} {spent.tests:6d}  {name}" for name, spent in largest(parts, count)
    )


def _run(folder: Path, arguments: list[str]) -> int:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests"), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, FOLDER: str(folder.resolve()), "PYTHONPATH": paths}
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "helpers.time_spent", *arguments], cwd=ROOT, env=environment, check=False
    )
    minutes = (time.perf_counter() - start) / 60
    (folder / _RUN).write_text(json.dumps({"minutes": minutes, "arguments": arguments}))
    return done.returncode


def _described(folder: Path) -> str:
    """What was run, and how long it took, as far as the folder says so."""
    if not (folder / _RUN).exists():
        return "several runs"
    run = json.loads((folder / _RUN).read_text())
    return f"`pytest {' '.join(run['arguments'])}`, {run['minutes']:.1f} minutes"


def _section(folder: Path, before: Path | None) -> None:
    from results import table, write_section

    now, earlier = _cells(read(folder)), _earlier(before)
    header = ["part", "tests", "processor minutes"]
    columns = [now]
    if earlier:
        header[1:1] = ["tests before", "processor minutes before"]
        columns.insert(0, earlier)
    nothing = ["0", "0.0"]
    most = {name: max(float(each.get(name, nothing)[1]) for each in columns) for name in {*now, *earlier} - {_ALL}}
    shown = [name for name in sorted(most, key=lambda name: (-most[name], name)) if most[name] >= _LEAST]
    rows = [[name, *(cell for each in columns for cell in each.get(name, nothing))] for name in [*shown, _ALL]]
    runs = f"Now: {_described(folder)}."
    if earlier:
        runs += f" Before: {_described(before) if before else 'kept from the table before'}."
    body = f"{runs} Parts below {_LEAST} minutes are in the last line alone.\n\n{table(header, rows)}"
    write_section("suite_time", "Where the time of the tests goes", body)


def _cells(suite: Suite) -> dict[str, list[str]]:
    """The tests of each part, and their processor minutes."""
    parts = {**suite.folders, _ALL: suite.total()}
    return {name: [str(each.tests), f"{each.cpu / 60:.1f}"] for name, each in parts.items()}


def _earlier(before: Path | None) -> dict[str, list[str]]:
    """Those of an earlier run; without a folder, those that the table in RESULTS.md has of one."""
    from results import rows_of

    if before:
        return _cells(read(before))
    return {row[0]: row[1:3] for row in rows_of("suite_time", "part") if len(row) == 5}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--label", default="now", help="names the folder in build/suite-time")
    parser.add_argument("--before", type=Path, help="the folder of an earlier run (that of the table)")
    parser.add_argument("--print", action="store_true", help="print only: leave RESULTS.md as it is")
    parser.add_argument("--report", type=Path, help="read the folder of an earlier run, and run nothing")
    parser.add_argument("--files", type=int, default=25, help="how many files, tests and fixtures are printed")
    parser.add_argument("arguments", nargs="*", help="pytest's arguments, after --")
    chosen = parser.parse_args()
    folder = chosen.report or ROOT / "build" / "suite-time" / chosen.label
    arguments = chosen.arguments or ["-q", "-n", "logical", "--dist", "worksteal"]
    status = 0 if chosen.report else _run(folder, arguments)
    suite = read(folder)
    for heading, parts in (("folders", suite.folders), ("files", suite.files), ("tests", suite.functions)):
        print(f"\n{heading}: processor seconds, wall seconds, how many\n{lines(parts, chosen.files)}")
    print(f"\nfixtures: processor seconds, wall seconds, how many\n{lines(suite.fixtures, chosen.files)}")
    if not chosen.print:
        _section(folder, chosen.before)
    return status


if __name__ == "__main__":
    raise SystemExit(main())
