"""RESULTS.md: one section for each script here, replaced by the script's next run."""

from __future__ import annotations

import datetime
import functools
import gc
import importlib.metadata
import itertools
import os
import platform
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

__all__ = ["commit", "interleaved", "median", "merged", "rows_of", "table", "write_section"]

RESULTS = Path(__file__).with_name("RESULTS.md")
_PACKAGES = ("torch", "torchvision", "onnx", "onnxscript", "onnxruntime", "numpy")


# CPython keeps the locals of its calls in chunks of 16 KB, which it maps and unmaps as calls cross their ends. Code
# that happens to call and return there takes up to half as much time again, so each turn starts elsewhere in a chunk:
# below another number of calls with many locals.
_DEPTHS, _LOCALS = 10, 200
_AT_DEPTH = f"""
def at_depth(depth, call):
    {" = ".join(f"local_{index}" for index in range(_LOCALS))} = None
    return at_depth(depth - 1, call) if depth else call()
"""
_defined: dict[str, Callable[..., Any]] = {}
exec(_AT_DEPTH, _defined)


def interleaved(
    contenders: Mapping[str, Callable[[], object]],
    runs: int,
    warm_up: int = 1,
    tidy: Callable[[], object] = lambda: None,
) -> dict[str, list[float]]:
    """Seconds of each run of each contender, taken in turns: what disturbs one disturbs all.

    Args:
        contenders: What to time, by name.
        runs: How often each is timed.
        warm_up: How often each is called first without being timed.
        tidy: Called after each run, outside of the time that is taken.
    """
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    names = list(contenders)
    for turn in range(-warm_up, runs):
        # Each turn has another order: who follows whom matters (caches, the memory allocator, threads that still spin).
        for name in random.Random(turn).sample(names, len(names)):
            gc.collect()  # or else one pays for what another left behind
            elapsed = _defined["at_depth"](turn % _DEPTHS, lambda name=name: _timed(contenders[name]))
            tidy()
            if turn >= 0:
                seconds[name].append(elapsed)
    return seconds


def _timed(contender: Callable[[], object]) -> float:
    start = time.perf_counter()
    contender()
    return time.perf_counter() - start


def median(seconds: Sequence[float]) -> float:
    """The median, which one disturbed run does not move."""
    return statistics.median(seconds)


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table; all columns but the first end in line."""
    lines = [header, ["---", *["---:"] * (len(header) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def rows_of(name: str, first: str, path: Path = RESULTS) -> list[list[str]]:
    """The rows of a table that a section has, from an earlier run.

    Args:
        name: The section's name.
        first: The heading of the table's first column.
        path: The file.
    """
    text = path.read_text() if path.exists() else ""
    section = text.partition(f"<!-- {name}: begin -->")[2].partition(f"<!-- {name}: end -->")[0]
    lines = iter(section.splitlines())
    for line in lines:
        if _cells(line)[:1] == [first]:
            next(lines)
            return [_cells(each) for each in itertools.takewhile(lambda line: line.startswith("|"), lines)]
    return []


def _cells(line: str) -> list[str]:
    return [each.strip() for each in line.strip().removeprefix("|").removesuffix("|").split(" | ")]


def merged(before: Sequence[Sequence[str]], now: Sequence[Sequence[str]]) -> list[list[str]]:
    """The rows of an earlier run with those of this one, which take the places of those with the same first cell."""
    rows = {row[0]: list(row) for row in before}
    rows.update({row[0]: list(row) for row in now})
    return list(rows.values())


@functools.cache
def commit() -> str:
    """The commit that was checked out here when it was first asked for, in seven digits."""
    done = subprocess.run(
        ["git", "rev-parse", "--short=7", "HEAD"], cwd=RESULTS.parent, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def write_section(name: str, title: str, body: str, path: Path = RESULTS, command: str | None = None) -> None:
    """Puts a section into RESULTS.md, in place of the one that an earlier run left there.

    Args:
        name: The section's name in its markers, the script's own.
        title: Its heading.
        body: Its Markdown.
        path: The file.
        command: What the section was made by; None: the script that runs.
    """
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    section = f"{begin}\n## {title}\n\n{_circumstances(command or _command())}\n\n{body.strip()}\n{end}"
    text = path.read_text() if path.exists() else "# Measurements\n\nEach section is written by the script it names.\n"
    if begin in text and end in text:
        before, _, rest = text.partition(begin)
        after = rest.partition(end)[2]
        text = before + section + after
    else:
        text = f"{text.rstrip()}\n\n{section}\n"
    written = path.with_name(f"{path.name}.tmp")  # a run that is ended while it writes leaves the file as it was
    written.write_text(text)
    written.replace(path)
    print(f"\n{body}\n\nwritten to {path.name}, section '{name}'")


def _command() -> str:
    # Where things are on this machine is nobody else's path.
    arguments = [Path(each).name.upper() if os.path.isabs(each) else each for each in sys.argv[1:]]
    return " ".join(["python", f"bench/{Path(sys.argv[0]).name}", *arguments])


def _circumstances(command: str) -> str:
    versions = ", ".join(f"{name} {version}" for name in _PACKAGES if (version := _version(name)))
    machine = f"{os.cpu_count()} cores ({platform.machine()}), Python {platform.python_version()}, {versions}"
    return f"`{command}`, {datetime.date.today().isoformat()}, on {machine}."


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
