"""Whether a change of the capture leaves the captures of the tests' models as they are.

Captures the forms of models (static, and with dynamic sizes), the models that decide by data and those that decide by
sizes, and notes for each the graph, its conditions, the notes, the executions of the model and the processor seconds. A
second run, of another source tree, is compared with the first.

    python bench/same_captures.py -o before.jsonl                       # with PYTHONPATH=<tree>/src of the one
    python bench/same_captures.py -o after.jsonl --before before.jsonl  # and of the other
    python bench/same_captures.py --before before.jsonl -o after.jsonl forms:Conv data:   # names that begin so
    python bench/same_captures.py -o before.jsonl --family transformers --every 20        # every 20th of a family's

One process, and no verification. Exits with 1 where a model that was captured is not, or a graph, a condition or a note
is another one.
"""

from __future__ import annotations

import argparse
import itertools
import json
import logging
import re
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

sys.path.pop(0)  # this folder, whose models.py is not the `models` of the tests
sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from models.deciding import DECIDING
from models.deciding_by_size import DECIDING_BY_SIZE, DecidingBySize
from models.forms import FORMS

from opbridge.capture import capture_call
from opbridge.capture.config import CaptureConfig
from opbridge.capture.resolved_call import resolved_call
from opbridge.coverage.models import catalogue
from opbridge.coverage.models.entries import ModelEntry
from opbridge.errors import OpbridgeError

Call = tuple[Any, tuple[Any, ...], dict[str, Any], Any]
_ADDRESS = re.compile(r"0x[0-9a-f]+|/\S*/")
_PROPERTIES = ("outcome", "graph", "conditions", "notes", "mode", "decisions")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", help="how the names of the models begin; all by default")
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--before", type=Path)
    parser.add_argument("--family", help="a family of `opbridge models`, in the place of the tests' models")
    parser.add_argument("--every", type=int, default=1, help="one model of so many")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    rows = {}
    with options.output.open("w") as file:
        calls = _calls() if options.family is None else _calls_of(options.family)
        for name, call in itertools.islice(calls, 0, None, options.every):
            if not options.names or name.startswith(tuple(options.names)):
                rows[name] = _captured(call)
                file.write(json.dumps({"name": name, **rows[name]}) + "\n")
                file.flush()
    print(f"{len(rows)} captures, {sum(row['outcome'] == 'captured' for row in rows.values())} of them succeeded")
    return 0 if options.before is None else _compared(_read(options.before), rows)


def _calls() -> Iterator[tuple[str, Callable[[], Call]]]:
    for name, form in FORMS.items():
        yield f"forms:{name}:static", lambda form=form: (*form.make(), None)
        if form.is_dynamic:
            yield f"forms:{name}:dynamic", lambda form=form: (*form.make(), form.dynamic_shapes(form.model()))
    for each in DECIDING:
        yield f"data:{each.name}:static", lambda each=each: (each.model, each.inputs[:1], {}, None)
        if each.dynamic:
            yield f"data:{each.name}:dynamic", lambda each=each: (each.model, each.inputs[:1], {}, [{0: "rows"}])
    for case in DECIDING_BY_SIZE:
        yield f"sizes:{case.name}", lambda case=case: _of_sizes(case)


def _calls_of(family: str) -> Iterator[tuple[str, Callable[[], Call]]]:
    for entry in catalogue.entries_of(family).values():
        yield f"{family}:{entry.name}", lambda entry=entry: _of_family(entry)


def _of_family(entry: ModelEntry) -> Call:
    torch.manual_seed(0)
    case = entry.make()
    shapes = case.dynamic_shapes.get("all", case.dynamic_shapes.get("batch"))
    return case.model, case.example.args, dict(case.example.kwargs), shapes


def _of_sizes(case: DecidingBySize) -> Call:
    shapes = {dim: f"d{dim}" for dim in range(len(case.example))}
    return case.model, (torch.randn(*case.example, 4),), {}, [shapes]


def _captured(call: Callable[[], Call]) -> dict[str, Any]:
    try:
        model, args, kwargs, shapes = call()
    except Exception as error:  # whatever a package raises for a model that it cannot build here
        return {"outcome": f"not built: {_ADDRESS.sub('', str(error))}", "executions": 0, "seconds": 0.0}
    executions = 1

    def tell(text: str) -> None:
        nonlocal executions
        executions += text.startswith("execution ")

    start = time.process_time()
    try:
        found = capture_call(resolved_call(model, args, kwargs, shapes), CaptureConfig(), tell)
    except OpbridgeError as error:
        row = {"outcome": f"{type(error).__name__}: {_ADDRESS.sub('', str(error))}"}
    else:
        row = {
            "outcome": "captured",
            "graph": _ADDRESS.sub("", found.functional.graph.module.print_readable(print_output=False)),
            "conditions": [list(each) for each in found.demands],
            "notes": list(found.notes),
            "mode": found.mode,
            "decisions": [str(each) for each in found.decisions],
        }
    return {**row, "executions": executions, "seconds": round(time.process_time() - start, 3)}


def _read(path: Path) -> dict[str, dict[str, Any]]:
    rows = (json.loads(line) for line in path.read_text().splitlines())
    return {row.pop("name"): row for row in rows}


def _compared(before: dict[str, dict[str, Any]], after: dict[str, dict[str, Any]]) -> int:
    """Prints what differs; 1 where anything but times and executions does."""
    both = [name for name in after if name in before]
    differing = 0
    for name in both:
        for what in _PROPERTIES:
            old, new = before[name].get(what), after[name].get(what)
            if old != new:
                differing += 1
                print(f"{name}: {what}\n    {old}\n    {new}" if what != "graph" else f"{name}: graph")
    more = [name for name in both if after[name]["executions"] > before[name]["executions"]]
    fewer = [name for name in both if after[name]["executions"] < before[name]["executions"]]
    ratios = [after[name]["seconds"] / max(before[name]["seconds"], 0.001) for name in both]
    print(f"{len(both)} compared, {differing} properties differ")
    print(f"executions: more at {len(more)} ({', '.join(more[:8])}), fewer at {len(fewer)} ({', '.join(fewer[:8])})")
    print(f"processor seconds: {statistics.median(ratios):.2f} of those before in the median")
    return int(bool(differing))


if __name__ == "__main__":
    sys.exit(main())
