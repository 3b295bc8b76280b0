"""What the campaigns came to, as a section of bench/RESULTS.md."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

__all__ = ["write_one", "write_results"]

_BENCH = Path(__file__).parents[2] / "bench"


def write_results(done: Mapping[str, Mapping[str, Any]], seed: int, file: Path, command: str) -> None:
    """Writes the section "Attacks", which `command` made, or replaces it."""
    sys.path.insert(0, str(_BENCH))
    try:
        from results import table, write_section
    finally:
        sys.path.remove(str(_BENCH))
    rows = []
    for name, result in done.items():
        counts = [f"{key} {value:,}" for key, value in _flat(result).items() if key not in ("findings", "seconds")]
        rows.append(
            [name.replace("_", " "), ", ".join(counts), f"{result['seconds']:,} s", str(len(result["findings"]))]
        )
    body = table(["campaign", "what was tried", "time", "findings"], rows)
    write_section("attack", "Attacks", f"Random seed {seed}.\n\n{body}", file, command=command)


def write_one(name: str, result: Mapping[str, Any], command: str) -> None:
    """Writes the section of one campaign to bench/RESULTS.md, which `command` made, or replaces it."""
    sys.path.insert(0, str(_BENCH))
    try:
        from results import RESULTS, table, write_section
    finally:
        sys.path.remove(str(_BENCH))
    rows = [[key, f"{value:,}"] for key, value in _flat(result).items() if key != "findings"]
    body = table(["", "number"], [*rows, ["findings", str(len(result["findings"]))]])
    title = name.replace("_", " ")
    write_section(f"attack_{name}", f"Attacks: {title}", body, RESULTS, command=command)


def _flat(result: Mapping[str, Any]) -> dict[str, int]:
    """The counts, those of a dictionary in it included."""
    found: dict[str, int] = {}
    for key, value in result.items():
        if isinstance(value, Mapping):
            found.update(_flat(value))
        elif isinstance(value, (int, float)):
            found[key] = int(value)
    return found
