"""A wrong node is planted in each of many models, and `opbridge.bisect` has to find it.

    python bench/bisection.py                      # all models: a table in RESULTS.md
    python bench/bisection.py --beside-pytorch     # the models that are PyTorch's: the changed file beside the model
    python bench/bisection.py --only if,resnet18   # these models, printed only

The faults are a constant that is changed, an attribute that is changed, and a wrong operator, in turn. For each model
the table has the nodes, the runs of both sides beside what is allowed, the peak memory of a process that searches
beside one that loads the file and runs it once, and whether the script of the reproducer shows the difference.
"""

from __future__ import annotations

import argparse
import math
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from bisection_models import ITERATIONS, MODELS
from onnx import numpy_helper
from results import table, write_section

import opbridge
import opbridge.pipeline
import opbridge.side_by_side
import opbridge.verification.bisection  # the processes of the models have all of it from this one

_OPERATORS = {
    **{"Relu": "Sigmoid", "Gelu": "Sigmoid", "Sigmoid": "Tanh", "Tanh": "Sin", "Erf": "Tanh", "Softmax": "LogSoftmax"},
    **{
        "Add": "Sub",
        "Sub": "Add",
        "Mul": "Add",
        "Div": "Mul",
        "Sqrt": "Exp",
        "Exp": "Sqrt",
        "Sin": "Cos",
        "Cos": "Sin",
    },
    **{"HardSwish": "Relu", "HardSigmoid": "Sigmoid", "Neg": "Abs", "Swish": "Relu"},
}
_ATTRIBUTES = {"epsilon": 1.0, "alpha": 0.3, "beta": 0.7}
_KINDS = ("constant", "attribute", "operator")
_ATTEMPTS = 12


def _nodes(model: onnx.ModelProto) -> list[onnx.NodeProto]:
    found: list[onnx.NodeProto] = []

    def walk(nodes: Any) -> None:
        for node in nodes:
            found.append(node)
            for attribute in node.attribute:
                if attribute.HasField("g"):
                    walk(attribute.g.node)

    walk(model.graph.node)
    for function in model.functions:
        walk(function.node)
    return found


def _plantings(model: onnx.ModelProto, kind: str) -> Iterator[tuple[onnx.NodeProto, Callable[[], None]]]:
    """The nodes in which a fault of a kind can be planted, each with what plants it."""
    stored = {each.name: each for each in model.graph.initializer if each.data_type == onnx.TensorProto.FLOAT}
    for node in _nodes(model):
        if kind == "operator" and node.op_type in _OPERATORS and node.domain in ("", "ai.onnx"):

            def change(node: onnx.NodeProto = node) -> None:
                node.op_type = _OPERATORS[node.op_type]
                if node.op_type != "LogSoftmax":
                    del node.attribute[:]

            yield node, change
        elif kind == "attribute":
            for attribute in node.attribute:
                if attribute.name in _ATTRIBUTES and attribute.type == onnx.AttributeProto.FLOAT:
                    yield node, lambda its=attribute: setattr(its, "f", its.f + _ATTRIBUTES[its.name])
                elif attribute.name == "axis" and node.op_type == "Softmax":
                    yield node, lambda its=attribute: setattr(its, "i", 0)
        elif kind == "constant":
            for name in node.input:
                readers = sum(name in each.input for each in model.graph.node)
                if name in stored and readers == 1 and math.prod(stored[name].dims) > 0:

                    def scale(tensor: onnx.TensorProto = stored[name]) -> None:
                        array = numpy_helper.to_array(tensor) * 1.5 + 0.2
                        tensor.CopyFrom(numpy_helper.from_array(array.astype(np.float32), tensor.name))

                    yield node, scale


def _planted(path: Path, changed: Path, kinds: tuple[str, ...], seed: int) -> tuple[str, str, str]:
    """Plants a fault that changes an output. Returns its kind, the node's operator, and its name."""
    rng = random.Random(seed)
    for kind in kinds:
        count = sum(1 for _ in _plantings(onnx.load(path), kind))
        for _ in range(min(count, _ATTEMPTS)):
            model = onnx.load(path)
            node, plant = list(_plantings(model, kind))[rng.randrange(count)]
            operator, name = node.op_type, node.name
            plant()
            onnx.save(model, changed)
            try:
                if not opbridge.compare(path, changed, isolated=False, optimization="disabled").ok:
                    return kind, operator, name
            except opbridge.OpbridgeError:  # the fault makes the file invalid
                continue
    raise RuntimeError("no fault changes the outputs")


def _apart(function: Callable[..., Any], *args: Any) -> tuple[Any, float]:
    """What a function returns in a process of its own, and the peak memory of that in MiB."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.close(reading)
            result = repr(function(*args))
        except BaseException:
            result = repr(("error", traceback.format_exc()[-600:]))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        os.write(writing, repr((result, peak)).encode()[:60_000])
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as file:
        said = file.read()
    os.waitpid(child, 0)
    result, peak = eval(said)
    return eval(result), peak


def _exported(build: Callable[[], Any], path: str) -> int:
    torch.manual_seed(0)
    made = build()
    if isinstance(made, onnx.ModelProto):
        onnx.save(made, path)
    else:
        opbridge.export(*made, path, verify=False)
    return len(_nodes(onnx.load(path)))


def _is_of_pytorch(build: Callable[[], Any]) -> bool:
    return not isinstance(build(), onnx.ModelProto)


def _run_once(path: str) -> None:
    from opbridge.side_by_side import first_that_runs, random_feeds

    session = opbridge.session(path)
    feeds = next(iter(random_feeds(session.get_inputs())))
    first_that_runs(session, feeds)


def _searched(path: str, changed: str, folder: str) -> dict[str, Any]:
    start = time.perf_counter()
    return _told(opbridge.bisect(path, changed, isolated=False, reproduce=folder), start)


def _searched_beside_pytorch(build: Callable[[], Any], changed: str, folder: str) -> dict[str, Any]:
    torch.manual_seed(0)
    model, args = build()
    start = time.perf_counter()
    return _told(opbridge.bisect(changed, model, args, isolated=False, reproduce=folder), start)


def _told(found: Any, start: float) -> dict[str, Any]:
    named = [] if found.culprit is None else [each.node for each in found.culprit.operators]
    return {
        "named": named,
        "first": "" if found.culprit is None else f"{found.culprit.first} {found.culprit.within}",
        "alone": found.culprit is not None and bool(found.culprit.alone),
        "runs": found.runs,
        "seconds": time.perf_counter() - start,
        "script": any(each.name == "reproduce.py" for each in found.files),
        "reason": found.reason,
    }


def main() -> None:
    """Plants, searches, and writes the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", help="these models, printed only")
    parser.add_argument("--seconds", type=float, default=math.inf, help="no further model is begun after this time")
    parser.add_argument("--beside-pytorch", action="store_true", help="the changed file beside the model")
    options = parser.parse_args()
    chosen = options.only.split(",") if options.only else list(MODELS)
    rows, wrong, begun = [], [], time.perf_counter()
    for number, name in enumerate(chosen):
        if time.perf_counter() - begun > options.seconds:
            wrong.append(f"{name}: not begun, the time was over")
            continue
        with tempfile.TemporaryDirectory() as folder:
            path, changed, case = Path(folder) / "a.onnx", Path(folder) / "b.onnx", Path(folder) / "case"
            if options.beside_pytorch and not _apart(_is_of_pytorch, MODELS[name])[0]:
                continue
            count, _ = _apart(_exported, MODELS[name], str(path))
            if not isinstance(count, int):
                wrong.append(f"{name}: {count}")
                continue
            kinds = _KINDS[number % 3 :] + _KINDS[: number % 3]
            planted, _ = _apart(_planted, path, changed, kinds, number)
            if planted[0] == "error":
                wrong.append(f"{name}: {planted[1]}")
                continue
            _, once = _apart(_run_once, str(changed))
            if options.beside_pytorch:
                found, peak = _apart(_searched_beside_pytorch, MODELS[name], str(changed), str(case))
            else:
                found, peak = _apart(_searched, str(path), str(changed), str(case))
            if not isinstance(found, dict):
                wrong.append(f"{name}: {found}")
                continue
            kind, operator, node = planted
            shown = False
            if found["script"]:
                done = subprocess.run([sys.executable, "reproduce.py"], cwd=case, capture_output=True, text=True)
                shown = done.returncode == 1 and "AssertionError" in done.stderr
            # Of the nodes that run: each iteration runs those of its body again.
            allowed = 2 * math.log2(max(2, count * ITERATIONS.get(name, 1))) + 4
            is_right = any(node and (node == each or each.endswith(node) or node in each) for each in found["named"])
            if not is_right or not shown or not found["alone"] or found["runs"] > allowed:
                wrong.append(f"{name}: planted {operator} '{node}' ({kind}), found {found}, script shows it: {shown}")
            rows.append(
                [
                    name,
                    str(count),
                    f"{kind} of {operator}",
                    "yes" if is_right else "no",
                    f"{found['runs']} of {allowed:.1f}",
                    f"{peak / once:.2f}",
                    "yes" if shown else "no",
                    f"{found['seconds']:.1f}",
                ]
            )
            print(" | ".join(rows[-1]), flush=True)
    head = ["model", "nodes", "planted", "found", "runs", "peak memory beside one run", "script shows it", "seconds"]
    right = sum(row[3] == "yes" for row in rows)
    body = f"{table(head, rows)}\n\n{right} of {len(rows)} planted nodes are named."
    if wrong:
        body += "\n\n" + "\n".join(f"- {each}" for each in wrong)
    print(body)
    if options.only:
        return
    if options.beside_pytorch:
        write_section("bisection_beside_pytorch", "A planted node, found beside PyTorch", body)
    else:
        write_section("bisection", "A planted node, found by opbridge.bisect", body)


if __name__ == "__main__":
    main()
