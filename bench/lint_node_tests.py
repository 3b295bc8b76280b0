"""What lint says of ONNX's own node tests for ONNX Runtime, beside what ONNX Runtime does with them.

    python bench/lint_node_tests.py [--print]

Each model is loaded and run on its inputs in a child process, so that one that ends the process costs itself only. Lint
agrees where it finds an error and ONNX Runtime refuses the model, or where neither is so. Models are those of the
installed onnx package.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from results import table, write_section

from opbridge.errors import OpbridgeError
from opbridge.rules import lint

_RUN = """
import glob, json, sys
import numpy as np, onnx, onnxruntime
from onnx import numpy_helper
onnxruntime.set_default_logger_severity(4)
options = onnxruntime.SessionOptions()
options.log_severity_level = 4
for line in sys.stdin:
    path = line.strip()
    try:
        onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        said = ""
    except Exception as error:
        said = str(error) or type(error).__name__
    print(json.dumps([path, said]), flush=True)
"""


def main() -> None:
    """Compares, and writes the counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--print", action="store_true", help="write nothing to RESULTS.md")
    parser.add_argument("--list", action="store_true", help="the models on which the two do not agree")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        _compare(_written(Path(folder)), given)


def _written(folder: Path) -> list[str]:
    """The models of ONNX's node tests, as files."""
    from onnx.backend.test.case.node import collect_testcases

    paths = []
    for case in collect_testcases(None):
        paths.append(str(folder / f"{case.name}.onnx"))
        Path(paths[-1]).write_bytes(case.model.SerializeToString())
    return paths


def _compare(paths: list[str], given: argparse.Namespace) -> None:
    real = _loaded(paths)
    counts: Counter[tuple[bool, bool]] = Counter()
    for path in paths:
        try:
            found = [each for each in lint(path, "onnxruntime") if each.severity == "error"]
        except OpbridgeError as error:
            found = [error]  # type: ignore[list-item]
        refused = bool(real[path])
        counts[bool(found), refused] += 1
        if given.list and bool(found) != refused:
            print(Path(path).stem, "|", [str(each)[:160] for each in found][:1], "|", real[path][:200])
    agreeing = counts[True, True] + counts[False, False]
    rows = [
        ("lint finds an error", str(counts[True, True]), str(counts[True, False])),
        ("lint finds none", str(counts[False, True]), str(counts[False, False])),
    ]
    body = table(("", "ONNX Runtime refuses", "ONNX Runtime loads"), rows)
    body += f"\n\n{agreeing} of {len(paths)} agree ({agreeing / len(paths):.1%})."
    if given.print or given.list:
        print(body)
    else:
        write_section("lint_node_tests", "What lint says of ONNX's node tests", body)


def _loaded(paths: list[str]) -> dict[str, str]:
    """What ONNX Runtime says of each model; "" where it loads."""
    found: dict[str, str] = {}
    while len(found) < len(paths):
        left = [each for each in paths if each not in found]
        done = subprocess.run(
            [sys.executable, "-c", _RUN], input="\n".join(left), capture_output=True, text=True, timeout=600
        )
        found.update(json.loads(line) for line in done.stdout.splitlines() if line.startswith("["))
        if len(found) < len(paths) and left[0] not in found:
            found[left[0]] = "ended the process"
    return found


if __name__ == "__main__":
    main()
