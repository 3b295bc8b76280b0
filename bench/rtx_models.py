"""Which whole models TensorRT-RTX builds: a table in Markdown from files of `opbridge models --target tensorrt-rtx`.

    opbridge models --family torchvision --dynamic none --target tensorrt-rtx -o FOLDER/torchvision.json
    opbridge models --family transformers --shard 5/64 --dtype float16 --target tensorrt-rtx -o FOLDER/half.json
    python bench/rtx_models.py FOLDER/*.json
    python bench/rtx_models.py --print FOLDER/*.json      # nothing is written to RESULTS.md

One line for all files with the same families, sizes and types: parts by --name are put together, and of a model that
several files hold the last one counts. Of the models that were exported, those that are built, those that TensorRT-RTX
refuses and lint predicts, those that it refuses and lint does not predict, and those that it builds although lint finds
an error.
"""

from __future__ import annotations

import argparse
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from results import table, write_section

from opbridge.coverage.models import results

_FOLDERS = re.compile(r"(?<=[\s'\"(])/\S*/|^/\S*/")
_LONGEST = 220


def main() -> None:
    """Reads the files, and writes the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--print", action="store_true", help="write nothing to RESULTS.md")
    given = parser.parse_args()
    found = _together([results.read(path) for path in given.files])
    header = ("", "models", "not exported", "built", "of exported", "predicted", "not predicted", "false")
    lines = [line for each in found for line in _refused(each)]
    versions = {name: version for each in found for name, version in each.document["versions"].items()}
    body = table(header, [_row(each) for each in found])
    body += f"\n\n{', '.join(f'{name} {version}' for name, version in versions.items())}."
    if lines:
        body += "\n\nNot built, or with an error of lint:\n\n" + "\n".join(lines)
    if given.print:
        print(body)
    else:
        write_section("rtx_models", "Which whole models TensorRT-RTX builds", body)


def _together(found: Sequence[results.Results]) -> list[results.Results]:
    """The results of each kind of sweep, of all its files."""
    kinds: dict[str, list[results.Results]] = {}
    for each in found:
        kinds.setdefault(_label(each.document), []).append(each)
    joined = []
    for parts in kinds.values():
        models = {(row["family"], row["model"]): row for part in parts for row in part.models}
        names = list(dict.fromkeys(name for part in parts for name in part.document["settings"]["names"]))
        settings = {**parts[-1].document["settings"], "names": ["*"] if "*" in names else names}
        document = {**parts[-1].document, "settings": settings, "models": list(models.values())}
        joined.append(results.Results(document, parts[-1].path))
    return joined


def _row(found: results.Results) -> tuple[str, ...]:
    causes = Counter((each["outcome"], each["cause"]) for each in found.models)
    built = found.count("built")
    refused = sum(count for (outcome, _), count in causes.items() if outcome in ("parse error", "build error"))
    predicted = sum(count for (_, cause), count in causes.items() if cause == "predicted")
    false = sum(count for (_, cause), count in causes.items() if cause == "false finding")
    exported = built + refused + false
    share = f"{100 * built / exported:.1f} %" if exported else "-"
    numbers = (found.count(), found.count() - exported, built)
    names = found.document["settings"]["names"]
    label = _label(found.document) + ("" if names == ["*"] else f" ({', '.join(names)})")
    return label, *map(str, numbers), share, *map(str, (predicted, refused - predicted, false))


def _label(document: Mapping[str, Any]) -> str:
    settings = document["settings"]
    sizes = {"none": "fixed sizes", "batch": "dynamic batch", "all": "all dimensions dynamic"}[settings["dynamic"]]
    parts: Sequence[str | None] = (
        " and ".join(settings["families"]),
        f"part {settings['shard']}" if settings["shard"] else None,
        sizes,
        settings["dtype"],
        None if settings["exporter"] == "opbridge" else "torch.onnx",
    )
    return ", ".join(filter(None, parts))


def _refused(found: results.Results) -> Iterator[str]:
    for each in found.models:
        if each["outcome"] in ("pass", "built", "left out"):
            continue
        said = _FOLDERS.sub("", each["message"])
        said = said if len(said) <= _LONGEST else f"{said[:_LONGEST].rstrip()} ..."
        told = f"; lint: {_FOLDERS.sub('', each['predicted'][0])}" if each["predicted"] else ""
        cause = f", {each['cause']}" if each["cause"] else ""
        yield f"- {each['family']}/{each['model']} ({each['outcome']}{cause}): {said}{told}"


if __name__ == "__main__":
    main()
