"""What a campaign over operators has found so far: one JSON object a line, to go on from."""

from __future__ import annotations

import dataclasses
import fnmatch
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

__all__ = ["Journal", "Record"]


@dataclasses.dataclass
class Record:
    """What the calls of one operator came to.

    Attributes:
        operator: "aten::add.Tensor".
        seed: What the calls were drawn from.
        calls: How many were made, each twice in guarded memory where it ran.
        ran: How many of them ran, and were not refused by PyTorch.
        slow: How many took too long, and were ended.
        seconds: How long all of them took.
        findings: What was found: "what", and the call that showed it.
    """

    operator: str
    seed: int = 0
    calls: int = 0
    ran: int = 0
    slow: int = 0
    seconds: float = 0.0
    findings: list[dict[str, Any]] = dataclasses.field(default_factory=list)

    def finding(self, what: str, **more: Any) -> None:
        """Adds a finding."""
        self.findings.append({"what": what, **more})


class Journal:
    """A file of records. What a process that was ended wrote in part is left out.

    Attributes:
        all: Every record.
        records: The last one of each operator.

    Args:
        path: The file, which need not be there yet.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.all = list(_read(path))
        self.records = {each.operator: each for each in self.all}

    def has(self, operator: str, seed: int) -> bool:
        """Whether an operator's calls were made from a seed."""
        return operator in self.records and self.records[operator].seed == seed

    def add(self, record: Record) -> None:
        """Adds a record to the file."""
        self.all.append(record)
        self.records[record.operator] = record
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a") as file:
            file.write(json.dumps(dataclasses.asdict(record)) + "\n")

    def forget(self, patterns: str) -> None:
        """Takes the operators whose names fit one of several patterns, separated by commas, out of the file."""
        each_pattern = patterns.split(",")
        kept = [each for each in self.all if not any(fnmatch.fnmatch(each.operator, one) for one in each_pattern)]
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._path.write_text("".join(json.dumps(dataclasses.asdict(each)) + "\n" for each in kept))
        self.all = kept
        self.records = {each.operator: each for each in kept}


def _read(path: Path) -> Iterator[Record]:
    for line in path.read_text().splitlines() if path.exists() else ():
        try:
            yield Record(**json.loads(line))
        except (ValueError, TypeError):
            continue
