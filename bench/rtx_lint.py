"""What lint says of ONNX's node tests and forms of them, beside what TensorRT-RTX does with them at parse and build.

    python bench/rtx_lint.py [--print] [--list] [--target tensorrt-rtx --target tensorrt:10.15] [--jobs N]
    python bench/rtx_lint.py --verdicts FILE         # what TensorRT-RTX did, kept there, or taken from there
    python bench/rtx_lint.py --trtcheck PYTHON       # an environment with trtcheck, on the same files; so --onnx-doctor
    python bench/rtx_lint.py --polygraphy PYTHON     # one with polygraphy and a module tensorrt_rtx

No GPU is needed. Each file is parsed, and built for all architectures, in a worker process. A file that builds for some
GPU is taken. Lint agrees where it finds an error and the file is refused, or neither is so; it misses one that is
refused where it finds no error; it is false where it finds an error in a file that builds. Warnings count as nothing.
Forms that neither ONNX Runtime nor the reference evaluator runs are left out. The facts of tensorrt-rtx are learnt from
the same files, so that its agreement says how well they are told, and not how well other files are predicted.

onnx-doctor checks files against ONNX's specification and knows no targets: its errors are taken for refusals.
polygraphy (`inspect capability`) is no checker of its own: it asks TensorRT-RTX's parser, with
POLYGRAPHY_USE_TENSORRT_RTX=1. It imports the module `tensorrt_rtx`, which the wheel does not have: it can be one line,
`from tensorrt_rtx_bindings import *`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from results import table, write_section

from opbridge.coverage.measuring import cases, tried
from opbridge.coverage.measuring.work import NEARLY, RIGHT
from opbridge.errors import OpbridgeError
from opbridge.rules import lint
from opbridge.runtimes import known

_RUNTIME = "tensorrt-rtx"
_TAKEN = (*RIGHT, *NEARLY)
_SKIPPED = ("sweep error", "timeout", "memory")

_TRTCHECK = """
import json, sys
from pathlib import Path
from trtcheck import Severity, analyze
for path in sorted(Path(sys.argv[1]).glob("*.onnx")):
    if path.stem <= sys.argv[2]:
        continue
    try:
        found = any(each.severity == Severity.CRITICAL for each in analyze(str(path)).issues)
    except Exception as error:
        found = True
    print(json.dumps([path.stem, found]), flush=True)
"""

_ONNX_DOCTOR = """
import json, subprocess, sys
from pathlib import Path
tool = Path(sys.executable).with_name("onnx-doctor")
paths = [path for path in sorted(Path(sys.argv[1]).glob("*.onnx")) if path.stem > sys.argv[2]]
for at in range(0, len(paths), 200):
    some = paths[at : at + 200]
    command = [tool, "check", "--output-format", "json", "--severity", "error", *some]
    said = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout.strip()
    errors = set()
    while said:  # a list for each file
        found, end = json.JSONDecoder().raw_decode(said)
        errors.update(Path(each["file"]).stem for each in found)
        said = said[end:].strip()
    for path in some:
        print(json.dumps([path.stem, path.stem in errors]), flush=True)
"""

_POLYGRAPHY = """
import json, os, sys
from pathlib import Path
from polygraphy.logger import G_LOGGER
from polygraphy.tools.inspect.subtool.capability import supports_model
answers = os.fdopen(os.dup(1), "w")
os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
G_LOGGER.module_severity = G_LOGGER.CRITICAL
for path in sorted(Path(sys.argv[1]).glob("*.onnx")):
    if path.stem <= sys.argv[2]:
        continue
    print(json.dumps([path.stem, not supports_model(str(path))[0]]), file=answers, flush=True)
"""

_TOOLS = {"trtcheck": _TRTCHECK, "onnx-doctor": _ONNX_DOCTOR, "polygraphy": _POLYGRAPHY}

Task = tuple[str, str]


def main() -> None:
    """Compares, and writes the counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--print", action="store_true", help="write nothing to RESULTS.md")
    parser.add_argument("--list", action="store_true", help="the files on which the two do not agree")
    parser.add_argument("--target", action="append", help="what lint is asked for; by default tensorrt-rtx")
    parser.add_argument("--verdicts", type=Path, help="a file of verdicts, one a line, to take or to make")
    for tool in _TOOLS:
        parser.add_argument(f"--{tool}", metavar="PYTHON", help=f"the Python of an environment with {tool}")
    parser.add_argument("--jobs", type=int, help="worker processes; one a core")
    given = parser.parse_args()
    verdicts = _verdicts(given.verdicts, given.jobs)
    rows = []
    for target in given.target or [_RUNTIME]:
        said = {task: _said(task, target) for task in verdicts}
        rows += _rows(f"lint --target {target}", verdicts, {task: each == "error" for task, each in said.items()})
        if given.list:
            _list(target, verdicts, said)
    for tool, script in _TOOLS.items():
        if python := getattr(given, tool.replace("-", "_")):
            rows += _rows(tool, verdicts, _by_another(python, script, verdicts))
    outcomes = Counter(outcome for outcome, _ in verdicts.values())
    body = table(("", "files", "agree", "agree, %", "missed", "false"), rows)
    body += f"\n\n{known.label(_RUNTIME)}: {len(verdicts)} files, "
    body += ", ".join(f"{count} {outcome}" for outcome, count in outcomes.most_common()) + "."
    if given.print or given.list:
        print(body)
        return
    write_section("rtx_lint", "Lint and TensorRT-RTX at parse and build", body)


def _verdicts(path: Path | None, jobs: int | None) -> dict[Task, tuple[str, str]]:
    """What became of each file: the outcome, and what was said."""
    if path is not None and path.exists():
        lines = [json.loads(line) for line in path.read_text("utf-8").splitlines() if '"task"' in line]
        found = {
            (each["task"]["name"], each["task"]["form"]): (each["verdict"]["outcome"], each["verdict"]["message"])
            for each in lines
            if each["verdict"] is not None
        }
    else:
        made, _ = tried(_RUNTIME, list(cases.forms()), jobs=jobs)
        found = {task: (each.outcome, each.message) for task, each in made.items()}
        if path is not None:
            lines = [
                {"task": {"name": name, "form": form}, "verdict": {"outcome": outcome, "message": said}}
                for (name, form), (outcome, said) in found.items()
            ]
            path.write_text("".join(f"{json.dumps(each)}\n" for each in lines), "utf-8")
    return {task: each for task, each in found.items() if each[0] not in _SKIPPED}


def _content(task: Task) -> bytes:
    case = cases.case(*task)
    assert case is not None
    return case.model.SerializeToString()


def _said(task: Task, target: str) -> str:
    """ "error", "warning" or "nothing"."""
    try:
        found = {each.severity for each in lint(_content(task), target).found}
    except OpbridgeError:
        return "error"
    return "error" if "error" in found else "warning" if found else "nothing"


def _rows(name: str, verdicts: dict[Task, tuple[str, str]], errors: dict[Task, bool]) -> Iterator[tuple[str, ...]]:
    """A row for the node tests as they are, and one for all forms."""
    for label, chosen in (
        ("node tests", [task for task in verdicts if not task[1] and task[0] in cases.names()]),
        ("all forms", list(verdicts)),
    ):
        taken = [verdicts[task][0] in _TAKEN for task in chosen]
        told = [errors[task] for task in chosen]
        missed = sum(not takes and not tells for takes, tells in zip(taken, told, strict=True))
        false = sum(takes and tells for takes, tells in zip(taken, told, strict=True))
        agree = len(chosen) - missed - false
        share = f"{100 * agree / max(len(chosen), 1):.1f}"
        yield f"{name}, {label}", str(len(chosen)), str(agree), share, str(missed), str(false)


def _list(target: str, verdicts: dict[Task, tuple[str, str]], said: dict[Task, str]) -> None:
    for task, (outcome, message) in verdicts.items():
        if (said[task] == "error") == (outcome in _TAKEN):
            kind = "false" if outcome in _TAKEN else "missed"
            found = [f"{each.rule}: {each.message}" for each in lint(_content(task), target).found if kind == "false"]
            print(target, kind, *task, "|", outcome, message[:160], "|", said[task], found[:2])


def _by_another(python: str, script: str, verdicts: dict[Task, tuple[str, str]]) -> dict[Task, bool]:
    """What another tool says of each file: whether it will be refused. A file that ends the tool is refused by it."""
    with tempfile.TemporaryDirectory() as folder:
        tasks = dict(enumerate(verdicts))
        for number, task in tasks.items():
            Path(folder, f"{number:05d}.onnx").write_bytes(_content(task))
        found: dict[int, bool] = {}
        last = -1
        while last < len(tasks) - 1:
            ran = subprocess.run(
                [python, "-c", script, folder, f"{last:05d}"],
                stdout=subprocess.PIPE,
                text=True,
                env={**os.environ, "POLYGRAPHY_USE_TENSORRT_RTX": "1"},
            )
            answers = [json.loads(line) for line in ran.stdout.splitlines()]
            found.update((int(name), bool(tells)) for name, tells in answers)
            if not answers and last < 0:
                raise SystemExit(f"{python} answers nothing of the first file: status {ran.returncode}")
            last = max(found, default=-1)
            if last < len(tasks) - 1:
                last += 1
                found[last] = True
    return {task: found.get(number, True) for number, task in tasks.items()}


if __name__ == "__main__":
    main()
