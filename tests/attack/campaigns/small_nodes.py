"""Single nodes of ONNX's operators in ONNX Runtime, with sizes of 0 and 1 and with integers that are out of bounds.

A run gives a result or an error. What ends the process is a fact (`opbridge.targets.ending`), of which lint warns, and
for which a verification runs the file in a process of its own; a finding is what no fact tells of. The nodes run in
processes of their own.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import json
import random
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from attack.batches import run_batch
from attack.small_nodes import Drawn, drawn, is_known_to_end, operators

__all__ = ["run", "run_node"]

_NODES_OF_A_PROCESS = 2000


def run(seconds: float, seed: int, most: int | None = None) -> dict[str, Any]:
    """Runs nodes until the time is over, or `most` of them were run.

    Returns:
        The number of nodes and of operators, of runs by their outcome, those among them whose end a fact tells, and
        the findings, each with the number that makes its node.
    """
    found: list[dict[str, Any]] = []
    outcomes: collections.Counter[str] = collections.Counter()
    count = len(operators())  # reads ONNX's node tests, before the time begins
    number, end = 0, time.monotonic() + seconds
    while time.monotonic() < end and (most is None or number < most):
        numbers = range(number, min(number + _NODES_OF_A_PROCESS, most or sys.maxsize))
        number = run_batch(lambda at: _calls(seed, at), seed, numbers, end, outcomes, found)
    new = [each for each in found if not _is_known(seed, each["number"])]
    known = len(found) - len(new)
    return {"nodes": number, "operators": count, "outcomes": dict(outcomes), "known": known, "findings": new}


def _is_known(seed: int, number: int) -> bool:
    node = drawn(random.Random(f"{seed} {number}"))
    return node is not None and is_known_to_end(node)


def _calls(seed: int, number: int) -> Iterator[tuple[str, Callable[[], None]]]:
    """The run of the node of a number."""
    random_ = random.Random(f"{seed} {number}")
    node = drawn(random_)
    if node is None:
        return
    threads = random_.choice((1, 2))
    shapes = {name: list(getattr(each, "shape", ())) for name, each in node.feeds.items()}

    yield (
        f"{node.operator} {shapes} ({node.changes}; {threads} threads)",
        lambda: run_node(node, threads=threads),
    )


def run_node(node: Drawn, *, threads: int) -> None:
    """Runs a node in this process. What ONNX Runtime says against it, or its inputs, is an answer."""
    import onnxruntime

    from opbridge.runtimes.onnxruntime.onnxruntime_private import ERRORS

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads, 4
    with contextlib.suppress(*ERRORS, TypeError, ValueError):
        onnxruntime.InferenceSession(node.model.SerializeToString(), options).run(None, node.feeds)


if __name__ == "__main__":
    # The seconds, the seed, and the number to end at: prints what came of them.
    parser = argparse.ArgumentParser()
    parser.add_argument("seconds", type=float)
    parser.add_argument("seed", type=int)
    parser.add_argument("most", type=int, nargs="?")
    given = parser.parse_args()
    print(json.dumps(run(given.seconds, given.seed, given.most), indent=1))
