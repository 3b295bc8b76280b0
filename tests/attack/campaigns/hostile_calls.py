"""Hostile calls, in guarded memory, of every operator that a file may run by default.

The calls are drawn anew for each seed. An operator that is found to read or write out of bounds, to return memory that
nobody has written to, to write to its arguments or to end the process is a finding, as the list was made without it.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from attack import guard, overloads
from attack.journal import Journal
from opbridge.kernels.aten import bears_anything

__all__ = ["run"]

_CALLS = 300
"""Of each operator, so that an hour reaches all of them several times over."""


def run(seconds: float, seed: int, most: int | None = None) -> dict[str, Any]:
    """Makes calls until the time is over, or calls of `most` operators were made.

    Returns:
        The number of operators on the list, of those of them with a check, and of those that were called; of calls, of
        those that ran and of those that took too long, and the findings.
    """
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "journal.jsonl"
        command = [sys.executable, "-m", "attack.operator_server", str(file), "--by-default", "--endless"]
        command += ["--seed", str(seed), "--calls", str(_CALLS), "--seconds", str(seconds)]
        if most is not None:
            command += ["--most", str(most)]
        subprocess.run(command, check=True, env=guard.environment(), capture_output=True)
        rounds = Journal(file).all
    listed = overloads.candidates(by_default=True)
    checked = [each for each in listed if not bears_anything(str(overloads.overload(each)._schema))]
    return {
        "on the list": len(listed),
        "with a check": len(checked),
        "operators": len({each.operator for each in rounds}),
        "calls": sum(each.calls for each in rounds),
        "ran": sum(each.ran for each in rounds),
        "slow": sum(each.slow for each in rounds),
        "findings": [
            {"operator": each.operator, "seed": each.seed, **found} for each in rounds for found in each.findings
        ],
    }
