"""What ONNX Runtime's profiler wrote, one event a line, added up by node for each run."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

__all__ = ["Timed", "runs_of"]

_KERNEL = "_kernel_time"
_END_OF_RUN = "model_run"

Timed = dict[tuple[str, str, str], list[int]]
"""How often a node was computed in a run and for how many microseconds, by its name, its operator and where it ran."""


def runs_of(lines: Iterable[str]) -> Iterator[Timed]:
    """The complete runs of a profile, in their order.

    1. A kernel belongs to the run whose event follows it.
    2. A node in the body of a Loop is computed several times in a run: its times are added up.
    3. What is cut off at the end, as the profiler keeps a million events, is no complete run.

    Args:
        lines: The lines of the file.
    """
    current: Timed = {}
    for line in lines:
        event = _event(line)
        if event is None:
            continue
        name = str(event.get("name", ""))
        if event.get("cat") == "Session" and name == _END_OF_RUN:
            yield current
            current = {}
        elif event.get("cat") == "Node" and name.endswith(_KERNEL):
            said = event.get("args") or {}
            key = (name.removesuffix(_KERNEL), str(said.get("op_name", "")), str(said.get("provider", "")))
            found = current.setdefault(key, [0, 0])
            found[0] += 1
            found[1] += int(event.get("dur", 0))


def _event(line: str) -> dict[str, Any] | None:
    """The event in a line; None where there is none, or half of one."""
    text = line.strip().rstrip(",")
    if not text.startswith("{"):
        return None
    try:
        found = json.loads(text)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None
