"""Damaged models through TensorRT-RTX's parser and builder: how each ends.

    python bench/rtx_mutations.py [--print] [--count 10000] [--seed 0] [--journal FILE]

Each is made from one of ONNX's node tests or of a few small models, by one to three of these: a changed, removed or
repeated byte; a cut; another operator, attribute, type, shape or input of a node; nodes in another order; a node that
reads its own result (a cyclic graph); a value that two nodes give. A worker process parses them one after the other,
and builds those that it parses, for sm_89; where one ends it or takes more than 20 seconds, another one goes on with
the next. `opbridge lint` looks at each too. A journal keeps what is done, so that a run that was interrupted goes on.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import select
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import onnx
from results import table, write_section

from opbridge.coverage.measuring import cases
from opbridge.runtimes import known

_LIMIT = 20.0
_MOST_BYTES = 200_000

_WORKER = """
import os, signal, sys
answers = os.fdopen(os.dup(1), "w")
silent = os.open(os.devnull, os.O_WRONLY)
os.dup2(silent, 1)
os.dup2(silent, 2)
sys.path.insert(0, sys.argv[1])
import tensorrt_rtx_bindings
import rtx_mutations
from opbridge.errors import OpbridgeError
from opbridge.rules import lint
from opbridge.runtimes.tensorrt_rtx.building import attempt
def next_line():
    line = b""
    while not line.endswith(b"\\n") and (more := os.read(0, 1)):
        line += more
    return line
def work():
    while line := next_line():
        content = rtx_mutations.mutated(int(line), int(sys.argv[2]))
        print("made", os.getpid(), file=answers, flush=True)
        try:
            stage = attempt(content, asked=["sm_89"]).stage
        except OpbridgeError as error:
            stage = "unreadable"
        print(stage, file=answers, flush=True)
        try:
            found = "error" if not lint(content, "tensorrt-rtx").ok else "none"
        except OpbridgeError:
            found = "error"
        print(found, file=answers, flush=True)
rtx_mutations.mutated(0, 0)
while True:
    print("ready", file=answers, flush=True)
    child = os.fork()
    if not child:
        work()
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status == 0:
        break
    print("ended", status, file=answers, flush=True)
"""


def main() -> None:
    """Makes them, and counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--print", action="store_true", help="write nothing to RESULTS.md")
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--journal", type=Path, help="keeps what is done")
    given = parser.parse_args()
    done = dict(_kept(given.journal, given.seed))
    with contextlib.ExitStack() as files:
        journal = None if given.journal is None else files.enter_context(given.journal.open("a"))
        for number, outcome in _tried([at for at in range(given.count) if at not in done], given.seed):
            done[number] = outcome
            if journal is not None:
                journal.write(json.dumps([given.seed, number, *outcome]) + "\n")
                journal.flush()
    body = _body([done[at] for at in range(given.count)])
    if given.print:
        print(body)
    else:
        write_section("rtx_mutations", "Damaged models in TensorRT-RTX", body)


def _body(outcomes: list[tuple[str, str]]) -> str:
    counts = Counter(stage for stage, _ in outcomes)
    told = Counter(stage for stage, said in outcomes if said == "error")
    rows = [(name, str(counts[stage]), str(told[stage])) for stage, name in _NAMES.items() if counts[stage]]
    rows += [(stage, str(count), "-") for stage, count in sorted(counts.items()) if stage not in _NAMES]
    body = table(("", "files", "of these with an error of lint"), rows)
    ended = sum(count for stage, count in counts.items() if stage not in _NAMES)
    return (
        f"{body}\n\n{known.label('tensorrt-rtx')}: {len(outcomes)} damaged files; {ended} ended the worker process or "
        f"took longer than {_LIMIT:g} s, and none the process that asked."
    )


_NAMES = {
    "unreadable": "not readable as ONNX",
    "parse": "refused by the parser",
    "build": "refused by the builder",
    "built": "built",
}


def _kept(path: Path | None, seed: int) -> Iterator[tuple[int, tuple[str, str]]]:
    if path is not None and path.exists():
        for line in path.read_text().splitlines():
            of, number, stage, said = json.loads(line)
            if of == seed:
                yield number, (stage, said)


def _tried(numbers: list[int], seed: int) -> Iterator[tuple[int, tuple[str, str]]]:
    """Each number with its outcome."""
    command = [sys.executable, "-c", _WORKER, str(Path(__file__).parent), str(seed)]
    worker = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
    try:
        if _line(worker, 300.0) != "ready":
            raise SystemExit("The worker does not start; is TensorRT-RTX installed?")
        for number in numbers:
            yield number, _asked(worker, number)
    finally:
        worker.kill()
        worker.wait()


def _asked(worker: subprocess.Popen[bytes], number: int) -> tuple[str, str]:
    """What becomes of a file; where it ends the worker's child, the worker has started another one on return."""
    assert worker.stdin is not None
    worker.stdin.write(f"{number}\n".encode())
    said: list[str] = []
    child = 0
    for limit in (300.0, _LIMIT, 300.0):
        line = _line(worker, limit)
        if line is None and child:  # it hangs
            os.kill(child, signal.SIGKILL)
            line = _line(worker, 300.0)
        if line is None or line.startswith("ended"):
            if line is None or _line(worker, 300.0) != "ready":
                raise SystemExit(f"The worker ended at file {number}.")
            what = ("the change", "TensorRT-RTX", "lint")[len(said)]
            return f"{what}: {_ending(int(line.split()[1]))}", ""
        if line.startswith("made"):
            child = int(line.split()[1])
        said.append(line)
    return said[1], said[2]


def _ending(status: int) -> str:
    return "took too long" if status == -9 else f"ended by signal {-status}" if status < 0 else f"exit status {status}"


_read = bytearray()
"""What the worker has said and was not yet looked at."""


def _line(worker: subprocess.Popen[bytes], seconds: float) -> str | None:
    """A line of the worker; None where it ended or takes too long."""
    assert worker.stdout is not None
    while b"\n" not in _read:
        ready, _, _ = select.select([worker.stdout], [], [], seconds)
        more = os.read(worker.stdout.fileno(), 4096) if ready else b""
        if not more:
            return None
        _read.extend(more)
    line, _, rest = bytes(_read).partition(b"\n")
    _read[:] = rest
    return line.decode().strip()


def mutated(number: int, seed: int) -> bytes:
    """A damaged model: the same for the same numbers."""
    draw = random.Random(f"{seed}-{number}")
    names = sorted(cases.names())
    while True:
        case = cases.case(draw.choice(names), "")
        if case is not None and len(content := case.model.SerializeToString()) <= _MOST_BYTES:
            break
    if draw.random() < 0.7:
        model = onnx.ModelProto.FromString(content)
        for _ in range(draw.randint(1, 3)):
            with contextlib.suppress(IndexError, ValueError):  # nothing of the kind is there to change
                draw.choice(_CHANGES)(model, draw)
        content = model.SerializeToString()
        if draw.random() < 0.7:
            return content
    for _ in range(draw.randint(1, 3)):
        content = _damaged(content, draw)
    return content


def _damaged(content: bytes, draw: random.Random) -> bytes:
    """Other bytes."""
    if not content:
        return content
    at = draw.randrange(len(content))
    kind = draw.randrange(4)
    if kind == 0:
        return content[:at]
    if kind == 1:
        return content[:at] + bytes([draw.randrange(256)]) + content[at + 1 :]
    if kind == 2:
        return content[:at] + content[at + draw.randint(1, 8) :]
    return content[:at] + content[at : at + draw.randint(1, 64)] + content[at:]


def _operator(model: onnx.ModelProto, draw: random.Random) -> None:
    draw.choice(model.graph.node).op_type = draw.choice(_OPERATORS)


def _attribute(model: onnx.ModelProto, draw: random.Random) -> None:
    attribute = draw.choice([each for node in model.graph.node for each in node.attribute])
    number = draw.choice((-(1 << 62), -1, 0, 1, 7, 1 << 31, 1 << 62))
    if attribute.type == onnx.AttributeProto.INT:
        attribute.i = number
    elif attribute.type == onnx.AttributeProto.INTS and attribute.ints:
        attribute.ints[draw.randrange(len(attribute.ints))] = number
    elif attribute.type == onnx.AttributeProto.FLOAT:
        attribute.f = draw.choice((float("nan"), float("inf"), -1.0, 0.0))
    else:
        attribute.type = draw.choice((onnx.AttributeProto.INT, onnx.AttributeProto.STRING, onnx.AttributeProto.TENSOR))


def _type(model: onnx.ModelProto, draw: random.Random) -> None:
    draw.choice([*model.graph.input, *model.graph.output]).type.tensor_type.elem_type = draw.randrange(24)


def _shape(model: onnx.ModelProto, draw: random.Random) -> None:
    dims = draw.choice(model.graph.input).type.tensor_type.shape.dim
    draw.choice(dims).dim_value = draw.choice((-1, 0, 1, 3, 1 << 20, 1 << 40))


def _input(model: onnx.ModelProto, draw: random.Random) -> None:
    node = draw.choice(model.graph.node)
    node.input[draw.randrange(len(node.input))] = draw.choice(("", "nothing", *node.input, *_values(model)))


def _fewer(model: onnx.ModelProto, draw: random.Random) -> None:
    node = draw.choice(model.graph.node)
    del node.input[draw.randrange(len(node.input))]


def _cycle(model: onnx.ModelProto, draw: random.Random) -> None:
    """A node reads what comes from it."""
    at = draw.randrange(len(model.graph.node))
    node, later = model.graph.node[at], draw.choice(model.graph.node[at:])
    node.input[draw.randrange(len(node.input))] = draw.choice(later.output)


def _twice(model: onnx.ModelProto, draw: random.Random) -> None:
    model.graph.node.append(draw.choice(model.graph.node))


def _order(model: onnx.ModelProto, draw: random.Random) -> None:
    nodes = list(model.graph.node)
    draw.shuffle(nodes)
    del model.graph.node[:]
    model.graph.node.extend(nodes)


def _removed(model: onnx.ModelProto, draw: random.Random) -> None:
    del model.graph.node[draw.randrange(len(model.graph.node))]


def _opset(model: onnx.ModelProto, draw: random.Random) -> None:
    draw.choice(model.opset_import).version = draw.choice((-1, 0, 1, 7, 13, 99, 1 << 40))


def _weights(model: onnx.ModelProto, draw: random.Random) -> None:
    tensor = draw.choice(model.graph.initializer)
    tensor.dims[:] = [draw.choice((0, 1, 1 << 20)) for _ in range(draw.randint(0, 4))]


def _values(model: onnx.ModelProto) -> list[str]:
    return [*(each.name for each in model.graph.input), *(name for node in model.graph.node for name in node.output)]


_CHANGES: tuple[Callable[[onnx.ModelProto, random.Random], None], ...] = (
    *(_operator, _attribute, _attribute, _type, _shape, _shape, _input, _input, _fewer),
    *(_cycle, _cycle, _twice, _order, _removed, _opset, _weights),
)

_OPERATORS = sorted({each.name for each in onnx.defs.get_all_schemas()})


if __name__ == "__main__":
    main()
