"""opbridge beside the stock exporter over whole models, as a table in Markdown, from the files of `opbridge models`.

    opbridge models --dynamic batch -o FOLDER/opbridge.json
    opbridge models --dynamic batch --exporter torch -o FOLDER/torch.json
    python bench/models_sweep.py FOLDER/*.json
    python bench/models_sweep.py --print FOLDER/*.json      # nothing is written to RESULTS.md

Files with the same exporter and dynamic dimensions count as one, such as those of several shards; where two have the
same model, the last one counts. The exporters stand side by side on the models that both were tried on. The processor
seconds are those of the exports of the models that each of the exporters exports, so that they are for the same models.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from results import table, write_section

from opbridge.coverage.models import results

EXPORTERS = {"opbridge": "opbridge", "torch": "torch.onnx (dynamo)"}
COLUMNS = {
    "passed": ("pass",),
    "refused": ("refused", "export error", "fault"),
    "silently wrong": ("wrong",),
    "does not load or run": ("load error", "run error"),
    "crashed, hung or out of memory": ("crash", "timeout", "memory", "sweep error"),
}

FOLDERS = re.compile(r"(?<=[\s'\"])/\S*/|^/\S*/")
"""The folders of files in messages, which are those of one run."""

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
    """The tables of one set of dynamic dimensions, and the models that only the stock exporter carries."""
    exporters = {name: found[name] for name in EXPORTERS if name in found}
    parts = [f"**Dynamic dimensions: {dynamic}.**"]
    tried = {
        name: [key for key, each in models.items() if each["outcome"] != "left out"]
        for name, models in exporters.items()
    }
    both = [key for key in next(iter(tried.values())) if all(key in keys for keys in tried.values())]
    if len(exporters) == 2:
        parts += [f"Both exporters on the same {len(both)} models:", _table(both, exporters)]
        parts.append(_only_stock(both, found["opbridge"], found["torch"]))
    for name, keys in tried.items():
        if len(exporters) == 1 or len(keys) > len(both):
            parts += [
                f"{EXPORTERS[name]} on all that it was tried on, {len(keys)} models:",
                _table(keys, {name: exporters[name]}),
            ]
    return "\n\n".join(parts)


def _table(tried: Sequence[tuple[str, str]], exporters: Mapping[str, Models]) -> str:
    """A line for each family and exporter."""
    families = dict.fromkeys(family for family, _ in tried)
    rows = []
    for family in families:
        rows += _rows(family, [key for key in tried if key[0] == family], exporters)
    if len(families) > 1:
        rows += _rows("all", tried, exporters)
    return table(_header(len(exporters)), rows)


def _header(exporters: int) -> list[str]:
    seconds = "processor seconds of their exports"
    return ["family, exporter", "models", *COLUMNS, "exported by both" if exporters > 1 else "exported", seconds]


def _rows(family: str, keys: Sequence[tuple[str, str]], found: Mapping[str, Models]) -> list[list[str]]:
    """One line of the table for each exporter."""
    exported = [key for key in keys if all(_is_exported(models[key]) for models in found.values())]
    rows = []
    for name, models in found.items():
        outcomes = [models[key]["outcome"] for key in keys]
        counts = [sum(each in column for each in outcomes) for column in COLUMNS.values()]
        seconds = _seconds([models[key] for key in exported])
        rows.append([f"{family}, {EXPORTERS[name]}", *map(str, (len(keys), *counts, len(exported))), seconds])
    return rows


def _is_exported(model: Mapping[str, Any]) -> bool:
    """Whether there was a file to load, right or wrong."""
    return "load" in model["timings"]


def _seconds(models: Sequence[Mapping[str, Any]]) -> str:
    """The processor time of some exports; a file of an older release does not have it."""
    found = [each.get("export_cpu_seconds") for each in models]
    return "not recorded" if None in found else f"{sum(found):.0f}"


def _only_stock(tried: Sequence[tuple[str, str]], own: Models, stock: Models) -> str:
    """The models that the stock exporter carries and opbridge does not."""
    lines = [
        f"- {family}/{name}: {own[family, name]['outcome']}: {FOLDERS.sub('', own[family, name]['message'])}"
        for family, name in tried
        if stock[family, name]["outcome"] == "pass" and own[family, name]["outcome"] != "pass"
    ]
    if not lines:
        return "There is no model that torch.onnx exports correctly and opbridge does not."
    return "\n".join(["torch.onnx exports these correctly, and opbridge does not:\n", *lines])


if __name__ == "__main__":
    main()
