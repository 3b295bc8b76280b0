"""opbridge beside the stock exporter over whole models, as a table in Markdown, from the files of `opbridge models`.

    opbridge models --dynamic batch -o FOLDER/opbridge.json
    opbridge models --dynamic batch --exporter torch -o FOLDER/torch.json
    python bench/models_sweep.py FOLDER/*.json
    python bench/models_sweep.py --print FOLDER/*.json      # nothing is written to RESULTS.md

Files with the same exporter and dynamic dimensions count as one; where two have the same model, the last one counts. A
model counts where each of the exporters was tried on it.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from results import table, write_section

from opbridge.coverage.models import results

_NAMES = {"opbridge": "opbridge", "torch": "torch.onnx (dynamo)"}
_COLUMNS = {
    "passed": ("pass",),
    "refused": ("refused", "export error", "fault"),
    "silently wrong": ("wrong",),
    "does not load or run": ("load error", "run error"),
    "crashed, hung or out of memory": ("crash", "timeout", "memory", "sweep error"),
}

Models = Mapping[tuple[str, str], Mapping[str, Any]]
"""The models of one exporter, by family and name."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--print", action="store_true", help="write nothing to RESULTS.md")
    given = parser.parse_args()
    parts = [section(dynamic, found) for dynamic, found in by_exporter(given.files).items()]
    body = "\n\n".join(parts)
    if given.print:
        print(body)
    else:
        write_section("models_sweep", "Which whole models are exported correctly", body)


def by_exporter(paths: Sequence[Path]) -> dict[str, dict[str, dict[tuple[str, str], Mapping[str, Any]]]]:
    """The models of all files, by dynamic dimensions and exporter."""
    found: dict[str, dict[str, dict[tuple[str, str], Mapping[str, Any]]]] = {}
    for path in paths:
        read = results.read(path)
        settings = read.document["settings"]
        models = found.setdefault(settings["dynamic"], {}).setdefault(settings["exporter"], {})
        models.update({(each["family"], each["model"]): each for each in read.models})
    return found


def section(dynamic: str, found: Mapping[str, Models]) -> str:
    """The table of one set of dynamic dimensions, and the models that only the stock exporter carries."""
    exporters = [name for name in _NAMES if name in found]
    tried = [
        key
        for key in found[exporters[0]]
        if all(key in found[name] and found[name][key]["outcome"] != "left out" for name in exporters)
    ]
    rows = []
    for family in dict.fromkeys(family for family, _ in tried):
        of_family = [key for key in tried if key[0] == family]
        rows += [_row(family, name, [found[name][key] for key in of_family]) for name in exporters]
    if len(rows) > len(exporters):
        rows += [_row("all", name, [found[name][key] for key in tried]) for name in exporters]
    parts = [f"**Dynamic dimensions: {dynamic}.** {len(tried)} models.", table(_header(), rows)]
    if len(exporters) == 2:
        parts.append(_only_stock(tried, found["opbridge"], found["torch"]))
    return "\n\n".join(parts)


def _header() -> list[str]:
    return ["family, exporter", "models", *_COLUMNS, "seconds"]


def _row(family: str, exporter: str, models: Sequence[Mapping[str, Any]]) -> list[str]:
    """One line of the table: the seconds are those of the exports alone."""
    counts = [sum(each["outcome"] in outcomes for each in models) for outcomes in _COLUMNS.values()]
    seconds = sum(each["timings"].get("export", 0.0) for each in models)
    return [f"{family}, {_NAMES[exporter]}", str(len(models)), *map(str, counts), f"{seconds:.0f}"]


def _only_stock(tried: Sequence[tuple[str, str]], own: Models, stock: Models) -> str:
    """The models that the stock exporter carries and opbridge does not."""
    lines = [
        f"- {family}/{name}: {own[family, name]['outcome']}: {own[family, name]['message']}"
        for family, name in tried
        if stock[family, name]["outcome"] == "pass" and own[family, name]["outcome"] != "pass"
    ]
    if not lines:
        return "There is no model that torch.onnx exports correctly and opbridge does not."
    return "\n".join(["torch.onnx exports these correctly, and opbridge does not:\n", *lines])


if __name__ == "__main__":
    main()
