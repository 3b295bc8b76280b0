"""A whole family of models, opbridge beside the stock exporter, measured a part at a time over as many days as needed.

    python bench/whole_families.py measure --exporter opbridge --dynamic all --minutes 60
    python bench/whole_families.py again --dynamic all --name SwinModel     # a model that failed, after its repair
    python bench/whole_families.py table                                    # writes docs/models.md

The parts are the shards of `opbridge models`. `measure` sweeps those that `whole_families.jsonl` does not have, and
adds a line for each; the file names the models that did not pass, and all others of a part passed. A model that was
measured again has a line of its own, and the table counts it beside the first result, not in its place; one that passed
then and fails now is named below the table.
"""

from __future__ import annotations

import argparse
import datetime
import json
import re
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from models_sweep import COLUMNS, EXPORTERS, FOLDERS
from results import commit, table

from opbridge.coverage import models
from opbridge.coverage.models.catalogue import in_shard
from opbridge.coverage.models.results import Results

RECORD = Path(__file__).with_name("whole_families.jsonl")
PAGE = Path(__file__).parent.parent / "docs" / "models.md"
PARTS = 32
_BEGIN, _END = "<!-- whole_families: begin -->", "<!-- whole_families: end -->"
_DIMENSIONS = {"none": "fixed sizes", "all": "all dimensions dynamic", "batch": "a dynamic batch"}
_VERSIONS = ("torch", "onnxruntime")
_LONGEST = 160
_SLOW = 60.0
"""Seconds of processor time from which an export is named."""


@dataclass
class Measured:
    """What is known of a family with one exporter and one set of dynamic dimensions.

    Attributes:
        models: How many models the measured parts have.
        parts: The measured parts.
        left_out: The models that PyTorch itself cannot run.
        failed: What became of each model that did not pass when its part was measured.
        since: What became of each model that was measured again, at last.
        slow: The exports of `_SLOW` seconds and more, with their seconds of processor time when last measured.
        dates: When the parts were measured.
    """

    models: int = 0
    parts: set[int] = field(default_factory=set)
    left_out: set[str] = field(default_factory=set)
    failed: dict[str, str] = field(default_factory=dict)
    since: dict[str, str] = field(default_factory=dict)
    slow: dict[str, float] = field(default_factory=dict)
    dates: set[str] = field(default_factory=set)

    def add(self, line: dict[str, Any]) -> None:
        """Adds a line of the record."""
        if "part" in line:
            self.parts.add(int(line["part"].partition("/")[0]))
            self.models += line["models"]
            self.left_out.update(line["left_out"])
            self.failed.update({name: outcome for name, (outcome, _) in line["failed"].items()})
            self.slow.update(line["slow"])
            self.dates.add(line["date"])
        else:
            self.since.update(dict.fromkeys(line["passed"], "pass"))
            self.since.update({name: outcome for name, (outcome, _) in line["failed"].items()})
            if "slow" in line:
                for name in (*line["passed"], *line["failed"]):
                    self.slow.pop(name, None)
                self.slow.update(line["slow"])

    def has(self, name: str) -> bool:
        """Whether a model was measured, with its part or by its name, and PyTorch runs it."""
        in_part = any(in_shard(name, part, PARTS) for part in self.parts)
        return name in self.since or (in_part and name not in self.left_out)

    def passes(self, name: str) -> bool:
        """Whether a measured model passes now."""
        return self.has(name) and self.since.get(name, self.failed.get(name, "pass")) == "pass"

    @property
    def failing(self) -> list[str]:
        """The models that do not pass now, sorted: those that passed and did not when measured again among them."""
        return sorted(name for name in {*self.failed, *self.since} if not self.passes(name))

    @property
    def mended(self) -> list[str]:
        """The models that failed when their parts were measured, and pass since."""
        return [name for name in self.failed if self.passes(name)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--family", default="transformers")
    commands = parser.add_subparsers(dest="command", required=True)
    shown = commands.add_parser("table", help="write the table into docs/models.md")
    shown.add_argument("--print", action="store_true", help="print it only")
    for name, what in (("measure", "sweep parts that were not measured"), ("again", "sweep models by their names")):
        swept = commands.add_parser(name, help=what)
        swept.add_argument("--exporter", choices=EXPORTERS, default="opbridge")
        swept.add_argument("--dynamic", choices=_DIMENSIONS, default="none")
        swept.add_argument("--jobs", type=int, default=None)
        swept.add_argument("--timeout", type=float, default=300.0)
    commands.choices["measure"].add_argument("--minutes", type=float, required=True, help="start no part after this")
    commands.choices["again"].add_argument("--name", action="append", required=True)
    given = parser.parse_args()
    if given.command == "measure":
        measure(given)
    elif given.command == "again":
        again(given)
    else:
        write_table(given.family, given.print)


def measure(given: argparse.Namespace) -> None:
    """Sweeps the parts that the record does not have, until the time is used."""
    end = time.monotonic() + 60 * given.minutes
    known = read(given.family).get((given.dynamic, given.exporter), Measured())
    for part in range(1, PARTS + 1):
        if part not in known.parts and time.monotonic() < end:
            shard = f"{part}/{PARTS}"
            line = {"part": shard, **swept(given, shard=shard)}
            line["models"] = len(line.pop("passed")) + len(line["failed"]) + len(line["left_out"])
            append(line)


def again(given: argparse.Namespace) -> None:
    """Sweeps models by their names, and records what became of them."""
    line = swept(given, names=given.name)
    for name in ("left_out", "export_cpu_seconds"):
        del line[name]
    append(line)


def swept(given: argparse.Namespace, **which: Any) -> dict[str, Any]:
    """Sweeps some models: a line of the record, but for how it names them."""
    # The sweep keeps what is done beside its output, so that it goes on from there if it is interrupted at a commit.
    name = "-".join([commit(), given.family, given.exporter, given.dynamic, *(str(each) for each in which.values())])
    output = Path(tempfile.gettempdir()) / f"whole-families-{re.sub(r'[^-.A-Za-z0-9]+', '_', name)[:120]}.json"
    found = models.sweep(
        given.family,
        dynamic=given.dynamic,
        exporter=given.exporter,
        timeout=given.timeout,
        jobs=given.jobs,
        output=output,
        **which,
    )
    print(f"{name}: {found.summary()}", flush=True)
    versions = found.document["versions"]
    return {
        "family": given.family,
        "dynamic": given.dynamic,
        "exporter": given.exporter,
        "commit": commit(),
        "date": datetime.date.today().isoformat(),
        "versions": {each: versions[each] for each in (*_VERSIONS, given.family) if each in versions},
        **_outcomes(found),
    }


def _outcomes(found: Results) -> dict[str, Any]:
    failed = {
        each["model"]: [each["outcome"], FOLDERS.sub("", each["message"]).partition("\n")[0][:_LONGEST]]
        for each in found.models
        if each["outcome"] not in ("pass", "left out")
    }
    seconds = {each["model"]: each["export_cpu_seconds"] or 0.0 for each in found.models}
    return {
        "passed": [each["model"] for each in found.models if each["outcome"] == "pass"],
        "failed": failed,
        "left_out": [each["model"] for each in found.models if each["outcome"] == "left out"],
        "slow": {name: round(value, 1) for name, value in seconds.items() if value >= _SLOW},
        "export_cpu_seconds": round(sum(seconds.values()), 1),
    }


def append(line: dict[str, Any]) -> None:
    """Adds a line to the record."""
    with RECORD.open("a") as file:
        file.write(json.dumps(line, sort_keys=True) + "\n")


def read(family: str) -> dict[tuple[str, str], Measured]:
    """What the record has of a family, by dynamic dimensions and exporter."""
    found: dict[tuple[str, str], Measured] = {}
    for text in RECORD.read_text().splitlines() if RECORD.exists() else ():
        line = json.loads(text)
        if line["family"] == family:
            found.setdefault((line["dynamic"], line["exporter"]), Measured()).add(line)
    return found


def write_table(family: str, printed_only: bool) -> None:
    """Puts the table of a family into docs/models.md, or prints it."""
    found = read(family)
    kept = sorted(
        (key for key in found if found[key].parts),
        key=lambda key: (list(_DIMENSIONS).index(key[0]), list(EXPORTERS).index(key[1])),
    )
    rows = [_row(key, found[key]) for key in kept]
    header = ["dynamic dimensions, exporter", "parts", "models", *COLUMNS, "pass since"]
    body = "\n\n".join([table(header, rows), *_beside(found), *_named(found)])
    if printed_only:
        print(body)
        return
    text = PAGE.read_text()
    before, begin, rest = text.partition(_BEGIN)
    if not begin:
        raise SystemExit(f"{PAGE.name} has no line {_BEGIN}; add it with {_END} where the table belongs.")
    written = PAGE.with_name(f"{PAGE.name}.tmp")
    written.write_text(f"{before}{_BEGIN}\n{body}\n{_END}{rest.partition(_END)[2]}")
    written.replace(PAGE)


def _row(key: tuple[str, str], each: Measured) -> list[str]:
    dynamic, exporter = key
    outcomes = Counter(each.failed.values())
    tried = each.models - len(each.left_out)
    passed = tried - len(each.failed)
    counts = [str(sum(outcomes[name] for name in names)) for column, names in COLUMNS.items() if column != "passed"]
    share = f"{passed} ({passed / tried:.1%})" if tried else "0"
    first = f"{_DIMENSIONS[dynamic]}, {EXPORTERS[exporter]}"
    return [first, f"{len(each.parts)} of {PARTS}", str(tried), share, *counts, str(len(each.mended))]


def _beside(found: dict[tuple[str, str], Measured]) -> Iterable[str]:
    """What torch.onnx makes of the models that opbridge does not export."""
    for dynamic, what in _DIMENSIONS.items():
        own, stock = found.get((dynamic, "opbridge")), found.get((dynamic, "torch"))
        if own is None or stock is None:
            continue
        measured = [name for name in own.failing if stock.has(name)]
        only = [name for name in measured if stock.passes(name)]
        yield (
            f"With {what}, {len(own.failing)} models do not pass with opbridge now; torch.onnx was run on "
            f"{len(measured)} of them, and exports {_listed(only) if only else 'none'} correctly."
        )


def _named(found: dict[tuple[str, str], Measured]) -> Iterable[str]:
    """The models that do not pass now with opbridge, and the slow ones."""
    for dynamic, what in _DIMENSIONS.items():
        own = found.get((dynamic, "opbridge"))
        if own is not None:
            failed = own.failing
            slow = sorted(f"{name} ({value:.0f})" for name, value in own.slow.items())
            first, last = min(own.dates), max(own.dates)
            when = f"on {first}" if first == last else f"from {first} to {last}"
            yield f"opbridge, {what}, measured {when}: " + " ".join(
                [
                    f"{_listed(failed)} do not pass." if failed else "all pass now.",
                    f"Exports of {_SLOW:.0f} and more seconds of processor time: {_listed(slow) if slow else 'none'}.",
                ]
            )


def _listed(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


if __name__ == "__main__":
    main()
