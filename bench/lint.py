"""lint and fix beside other tools, on models of problems that people reported and on clean ones of the same operators.

    python bench/lint.py --rivals PYTHON        # an environment with the other tools
    python bench/lint.py --print --only onnx.checker

The other tools (onnx-doctor, onnxslim, onnxsim, polygraphy with onnx-graphsurgeon) run in child processes of that
Python, a model at a time, with a limit of time. A problem is found where a tool says something of its model, by a name,
that it does not say of the clean model beside it. It is repaired where a tool writes a model in which opbridge's rule
finds it no more, for any tool alike, and both models give the same in ONNX Runtime on random inputs, or, where ONNX
Runtime refuses the original, in ONNX's reference evaluator. Then come the times of a model of 100,000 nodes, and the
memory for a file of large weights.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper
from results import table, write_section

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from helpers.problems import PROBLEMS, counts

import opbridge
from opbridge.errors import OpbridgeError
from opbridge.fixing.evaluator import compare_with_evaluator
from opbridge.side_by_side import compare

_SECONDS = 60.0
_NODES = 100_000

_HEAD = """
import contextlib, io, json, os, re, sys, warnings
warnings.simplefilter("ignore")
real = os.dup(1)
os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
os.dup2(os.open(os.devnull, os.O_WRONLY), 2)

def command(main, *arguments):
    said, sys.argv = io.StringIO(), list(arguments)
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        try:
            main()
        except SystemExit:
            pass
    return said.getvalue()
"""

_LOOP = """
for line in sys.stdin:
    path, output, target = json.loads(line)
    try:
        answer = look(path, output, target)
    except BaseException as error:
        answer = {"failed": f"{type(error).__name__}: {error}"[:300]}
    os.write(real, (json.dumps(answer) + "\\n").encode())
"""

_CHECKER = """
import onnx
def look(path, output, target):
    try:
        onnx.checker.check_model(path, full_check=True)
    except Exception as error:
        return {"errors": [type(error).__name__], "all": [type(error).__name__]}
    return {"errors": [], "all": []}
"""

_DOCTOR = """
from onnx_doctor._cli import main
def look(path, output, target):
    more = ["--ort"] if target.startswith("onnxruntime") else []
    found = json.loads(command(main, "onnx-doctor", "check", "--output-format", "json", *more, path) or "[]")
    names = lambda each: str(each.get("code") or each.get("rule"))
    errors = [names(each) for each in found if each.get("severity") == "error"]
    command(main, "onnx-doctor", "check", "--fix", "--output", output, *more, path)
    return {"errors": errors, "all": [names(each) for each in found]}
"""

_SLIM = """
import onnx, onnxslim
def look(path, output, target):
    onnx.save(onnxslim.slim(onnx.load(path)), output)
    return {}
"""

_SIM = """
import onnx, onnxsim
def look(path, output, target):
    made, ok = onnxsim.simplify(onnx.load(path))
    if ok:
        onnx.save(made, output)
    return {} if ok else {"failed": "its own check"}
"""

_POLYGRAPHY = """
from polygraphy.tools import main
def look(path, output, target):
    said = command(main, "polygraphy", "check", "lint", path)
    lines = [line for line in said.splitlines() if "LINT |" in line]
    errors = [re.sub(r"[^ ]*node[^ ]*", "", line)[:200] for line in lines if line.startswith("[E]")]
    command(main, "polygraphy", "surgeon", "sanitize", "--fold-constants", "--cleanup", path, "-o", output)
    return {"errors": errors, "all": [re.sub(r"[^ ]*node[^ ]*", "", line)[:200] for line in lines]}
"""

_RIVALS = {
    "onnx.checker (full)": (_CHECKER, "finds"),
    "onnx-doctor": (_DOCTOR, "finds, repairs"),
    "polygraphy (check lint, surgeon sanitize)": (_POLYGRAPHY, "finds, repairs"),
    "onnxslim": (_SLIM, "repairs"),
    "onnxsim": (_SIM, "repairs"),
}


@dataclass
class Tally:
    """What a tool did with all models."""

    found: set[str] = field(default_factory=set)
    repaired: set[str] = field(default_factory=set)
    changed: set[str] = field(default_factory=set)
    uncompared: set[str] = field(default_factory=set)
    false_errors: int = 0
    failed: Counter[str] = field(default_factory=Counter)


class _Child:
    """A tool in a process of its own, which is started again where it ends or hangs."""

    def __init__(self, python: str, code: str) -> None:
        self._command = [python, "-c", _HEAD + code + _LOOP]
        self._process: subprocess.Popen[str] | None = None
        self._answers: queue.Queue[str] = queue.Queue()

    def ask(self, path: Path, output: Path, target: str) -> dict[str, Any]:
        """What it says of a model; "failed" where it ends, hangs or raises."""
        if self._process is None:
            environment = {**os.environ, "PYTHONPATH": ""}
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
            )
            self._answers = queue.Queue()
            threading.Thread(target=self._read, args=(self._process, self._answers), daemon=True).start()
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps([str(path), str(output), target]) + "\n")
            self._process.stdin.flush()
            answer = self._answers.get(timeout=_SECONDS)
        except (queue.Empty, OSError):
            answer = ""
        if not answer:
            status = self._process.poll()
            self.close()
            return {"failed": "hangs" if status is None else f"ends the process ({status})"}
        return dict(json.loads(answer))

    @staticmethod
    def _read(process: subprocess.Popen[str], answers: queue.Queue[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            answers.put(line)
        answers.put("")

    def close(self) -> None:
        """Ends the process."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


def of_opbridge(folder: Path) -> Tally:
    """What opbridge finds and repairs."""
    tally = Tally()
    for problem in PROBLEMS:
        data = problem.model.SerializeToString()
        clean = [list(opbridge.lint(each.SerializeToString(), problem.target)) for each in problem.clean]
        tally.false_errors += sum(any(each.severity == "error" for each in found) for found in clean)
        said = {each.rule for found in clean for each in found}
        if {each.rule for each in opbridge.lint(data, problem.target)} - said:
            tally.found.add(problem.identifier)
        output = folder / "fixed.onnx"
        output.unlink(missing_ok=True)
        try:
            opbridge.fix(data, problem.target, output)
        except OpbridgeError as error:
            tally.failed[type(error).__name__] += 1
        _judge(tally, problem, data, output)
    return tally


def of_rival(python: str, code: str, folder: Path) -> Tally:
    """What another tool finds and repairs."""
    tally, child = Tally(), _Child(python, code)
    for problem in PROBLEMS:
        data, output = problem.model.SerializeToString(), folder / "fixed.onnx"
        answers = []
        for model in (*problem.clean, problem.model):
            path = folder / "model.onnx"
            path.write_bytes(model.SerializeToString())
            output.unlink(missing_ok=True)
            answers.append(child.ask(path, output, problem.target))
            if failed := answers[-1].get("failed"):
                tally.failed[failed.partition(":")[0]] += 1
        clean = answers[:-1]
        tally.false_errors += sum(bool(each.get("errors")) for each in clean)
        if set(answers[-1].get("all", ())) - {name for each in clean for name in each.get("all", ())}:
            tally.found.add(problem.identifier)
        _judge(tally, problem, data, output)
    child.close()
    return tally


def _judge(tally: Tally, problem: Any, original: bytes, output: Path) -> None:
    """Whether a model that a tool wrote has the problem no more, and gives the same."""
    if not output.exists() or output.read_bytes() == original:
        return
    try:
        gone = problem.rule not in {each.rule for each in opbridge.lint(output, problem.target)}
        found = compare(original, str(output), random=False)
        if not found.runs and not found.failed:
            found = compare_with_evaluator(original, output) or found
    except OpbridgeError:
        gone, found = False, None
    if found is None or not found.ok:
        tally.changed.add(problem.identifier)
    elif gone and found.runs:
        tally.repaired.add(problem.identifier)
    elif gone:
        tally.uncompared.add(problem.identifier)


def _large(folder: Path) -> tuple[Path, Path]:
    """A model of many nodes, some of which need a repair, and one of large weights."""
    operators = ("MatMul", "Add", "Relu", "Mul", "Sigmoid", "Reshape", "Sub", "LayerNormalization")
    weights = {
        "w": np.eye(8, dtype=np.float32), "b": np.ones(8, np.float32), "s": np.array([-1, 8], np.int64)
    }  # fmt: skip
    second = {"MatMul": "w", "Add": "b", "Mul": "b", "Sub": "b", "Reshape": "s", "LayerNormalization": "b"}
    nodes, value = [], "x"
    for at in range(_NODES):
        operator = operators[at % len(operators)]
        if operator == "LayerNormalization" and at % 800 != 7:
            operator = "Tanh"
        inputs = [value, *([second[operator]] if operator in second else [])]
        value = f"v{at}"
        nodes.append(helper.make_node(operator, inputs, [value], name=f"n{at}"))
    ends = [helper.make_tensor_value_info(name, 1, ["n", 8]) for name in ("x", value)]
    graph = helper.make_graph(
        nodes, "g", ends[:1], ends[1:], [numpy_helper.from_array(v, k) for k, v in weights.items()]
    )
    many = folder / "many.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), many)
    rng = np.random.default_rng(0)
    stored = [numpy_helper.from_array(rng.random((4096, 4096), np.float32), f"w{at}") for at in range(6)]
    nodes = [helper.make_node("MatMul", [f"v{at}", f"w{at}"], [f"v{at + 1}"], name=f"n{at}") for at in range(6)]
    ends = [helper.make_tensor_value_info(name, 1, ["n", 4096]) for name in ("v0", "v6")]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], stored)
    heavy = folder / "heavy.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), heavy)
    return many, heavy


_MEASURED = """
import json, resource, sys, time
import opbridge
import opbridge.rules, opbridge.fixing
from opbridge.targets import find_target
find_target("tensorrt:8.5")
def peak():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))
before, start, cpu = peak(), time.perf_counter(), time.process_time()
if sys.argv[1] == "lint":
    opbridge.lint(sys.argv[2], "tensorrt:8.5")
else:
    opbridge.fix(sys.argv[2], "tensorrt:8.5", sys.argv[3])
children = resource.getrusage(resource.RUSAGE_CHILDREN)
cpu = time.process_time() - cpu + children.ru_utime + children.ru_stime
print(json.dumps([time.perf_counter() - start, cpu, peak() - before]))
"""


def measured(what: str, model: Path) -> list[str]:
    """A row of seconds, processor seconds, and memory against the file's size."""
    given = [sys.executable, "-c", _MEASURED, what, str(model), str(model.with_suffix(".fixed.onnx"))]
    done = subprocess.run(given, capture_output=True, text=True, check=True, timeout=900)
    seconds, cpu, memory = json.loads(done.stdout)
    size = model.stat().st_size
    return [f"{seconds:.1f} s", f"{cpu:.1f} s", f"{memory / 2**20:,.0f} MiB", f"{memory / size:.2f}"]


def _row(name: str, what: str, tally: Tally) -> list[str]:
    failed = ", ".join(f"{count} {why}" for why, count in tally.failed.most_common(3)) or "0"
    finds, repairs = "finds" in what, "repairs" in what
    return [
        name,
        f"{len(tally.found)} of {len(PROBLEMS)}" if finds else "-",
        f"{len(tally.repaired)} of {len(PROBLEMS)}" if repairs else "-",
        str(len(tally.changed)) if repairs else "-",
        str(len(tally.uncompared)) if repairs else "-",
        str(tally.false_errors) if finds else "-",
        failed,
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rivals", default=sys.executable, help="the Python of an environment with the other tools")
    parser.add_argument("--only", action="append", help="a tool; may be given several times")
    parser.add_argument("--print", action="store_true", help="write nothing to RESULTS.md")
    given = parser.parse_args()
    rows = []
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if not given.only or "opbridge" in given.only:
            rows.append(_row("opbridge", "finds, repairs", of_opbridge(folder)))
            print(rows[-1], flush=True)
        for rival, (code, what) in _RIVALS.items():
            if not given.only or any(each in rival for each in given.only):
                tally = of_rival(given.rivals, code, folder)
                rows.append(_row(rival, what, tally))
                print(rows[-1], sorted(tally.found), sorted(tally.repaired), sorted(tally.changed), flush=True)
        header = ["", "found", "repaired", "wrong", "not compared", "clean models with an error", "failed"]
        body = ", ".join(f"{number} {what}" for what, number in counts().items()) + ".\n\n" + table(header, rows)
        body += (
            "\n\nwrong: a file was written that gives something else, or does not run, where the original does. "
            "polygraphy's `inspect capability` needs TensorRT, and was left out.\n\n"
        )
        if not given.only:
            many, heavy = _large(folder)
            large = [
                ["lint, 100,000 nodes", *measured("lint", many)],
                ["fix, 100,000 nodes, 125 repairs", *measured("fix", many)],
                ["lint, 384 MiB of weights", *measured("lint", heavy)],
                ["fix, 384 MiB of weights", *measured("fix", heavy)],
            ]
            body += table(["", "time", "processor", "memory", "memory / file"], large)
            body += (
                "\n\nThe processor's seconds are those of the process and of those that it starts to run models, one"
                f" after another. {os.getloadavg()[0]:.0f} processes wanted the {os.cpu_count()} cores meanwhile. The"
                " memory is what the process takes at its peak beyond what opbridge takes once it is imported."
            )
    print(f"{time.monotonic() - start:.0f} s")
    if given.print or given.only:
        print(body)
    else:
        write_section("lint", "Lint and fix beside other tools", body)


if __name__ == "__main__":
    main()
