"""Which operators that models need the route aten for may run by default.

opbridge coverage -o results.json
PYTHONPATH=src:tests python -m attack.op_db_list results.json
"""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Iterable
from pathlib import Path

from attack.overloads import overload
from opbridge.kernels import aten

__all__ = ["SortedOut", "sorted_out"]


@dataclasses.dataclass
class SortedOut:
    """Operators by whether a file may run them without naming them.

    Attributes:
        listed: Those that it may.
        checked: Those of them whose arguments are looked at before each call.
        refused: Why it may not run the others.
        elsewhere: Those that the torch here does not have.
    """

    listed: list[str] = dataclasses.field(default_factory=list)
    checked: list[str] = dataclasses.field(default_factory=list)
    refused: dict[str, str] = dataclasses.field(default_factory=dict)
    elsewhere: list[str] = dataclasses.field(default_factory=list)


def sorted_out(names: Iterable[str]) -> SortedOut:
    """Operators ("aten::add.Tensor") by whether a file may run them."""
    found = SortedOut()
    for name in sorted(names):
        if not name.startswith("aten::"):
            found.refused[name] = "it does not belong to aten"
            continue
        try:
            schema = str(overload(name)._schema)
        except AttributeError:
            found.elsewhere.append(name)
            continue
        if reason := aten.refusal(schema):
            found.refused[name] = reason
            continue
        found.listed.append(name)
        if not aten.bears_anything(schema):
            found.checked.append(name)
    return found


def main(file: Path) -> None:
    """The command line: prints how many of a sweep's operators may run, and why the others may not."""
    samples = json.loads(file.read_text())["samples"]
    taken = {name for each in samples for name, route in (each.get("routes") or {}).items() if route == "aten"}
    found = sorted_out(taken)
    print(
        f"{len(taken)} operators by the route aten: {len(found.listed)} may run by default, "
        f"{len(found.checked)} of them with a check"
    )
    for name, reason in found.refused.items():
        print(f"{name}: {reason}")
    for name in found.elsewhere:
        print(f"{name}: this torch does not have it")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
