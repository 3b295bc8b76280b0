"""What it costs to get between Python and a model, by the mechanisms of the capture and by those that were tried.

    python bench/python_hooks.py            # with transformers installed
    python bench/python_hooks.py --print    # nothing is written to RESULTS.md

1. Frames: the captures of a third of the tests' models that decide by data, with `sys.settrace` and without it. Without
   it, iterations of `for` loops are not counted; the captures that give the same graph nevertheless are compared.
2. Calls of builtins: the names of them replaced in code objects, and the same functions compiled from their syntax
   trees, for a Llama: the functions of its classes, and those of all packages that it uses.
"""

from __future__ import annotations

import argparse
import contextlib
import dis
import logging
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

from results import table, write_section

sys.path.pop(0)  # this folder, whose models.py is not the `models` of the tests
sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from models.deciding import DECIDING

from opbridge.base.python_private.syntax import recompiled
from opbridge.capture import capture_call
from opbridge.capture.config import CaptureConfig
from opbridge.capture.control_flow import program_points
from opbridge.capture.resolved_call import resolved_call
from opbridge.capture.tracer import number_calls
from opbridge.capture.tracer.model_functions import functions_of
from opbridge.errors import OpbridgeError

_REPEATS = 3
_EVERY = 3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--print", action="store_true", help="write nothing to RESULTS.md")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    body = f"{_frames()}\n\n{_calls()}"
    if given.print:
        print(body)
    else:
        write_section("python_hooks", "What following a model's Python costs", body)


def _frames() -> str:
    traced, ratios, differing = program_points.tracing, [], 0
    for each in DECIDING[::_EVERY]:
        seconds: dict[Any, float] = {}
        graphs: dict[Any, str] = {}
        for _ in range(_REPEATS):
            for tracing in (traced, _untraced):
                program_points.tracing = tracing
                taken, graphs[tracing] = _captured(each)
                seconds[tracing] = min(seconds.get(tracing, taken), taken)
        program_points.tracing = traced
        if graphs[traced] == graphs[_untraced]:
            ratios.append(seconds[traced] / seconds[_untraced])
        else:
            differing += 1
    ninetieth = statistics.quantiles(ratios, n=10)[-1]
    return (
        f"`sys.settrace`: {len(ratios)} captures take {statistics.median(ratios):.2f} times as long with it as without "
        f"it in the median, {ninetieth:.2f} at the ninetieth percentile (processor time, the shortest of {_REPEATS}); "
        f"{differing} others give another graph without it, or none."
    )


@contextlib.contextmanager
def _untraced(function: Any) -> Iterator[None]:
    yield


def _captured(each: Any) -> tuple[float, str]:
    start = time.process_time()
    try:
        found = capture_call(resolved_call(each.model, each.inputs[:1], {}, None), CaptureConfig())
        graph = found.functional.graph.module.code
    except OpbridgeError as error:
        graph = type(error).__name__
    return time.process_time() - start, graph


def _calls() -> str:
    import transformers

    config = transformers.LlamaConfig(
        num_hidden_layers=1, hidden_size=32, intermediate_size=32, vocab_size=64, num_attention_heads=2
    )
    model = transformers.LlamaForCausalLM(config)
    rows = []
    for what, everywhere in (("of its classes", False), ("of all packages", True)):
        functions = list(functions_of(model, everywhere))
        calling = [each for each in functions if _has(each.__code__, _calls_builtins)]
        looping = [each for each in functions if _has(each.__code__, _has_loop)]
        rows.append(
            [
                what,
                str(len(functions)),
                f"{_seconds(calling, lambda each: number_calls.renamed(each.__code__, each.__globals__)):.3f}",
                f"{len(calling)}: {_seconds(calling, _recompiled):.2f}",
                f"{len(looping)}: {_seconds(looping, _recompiled):.2f}",
            ]
        )
    columns = [
        "functions",
        "all",
        "names replaced, s",
        "calling builtins: recompiled, s",
        "with `for` loops: recompiled, s",
    ]
    return "A Llama of transformers, of which functions are parsed for the first time:\n\n" + table(columns, rows)


def _seconds(functions: list[FunctionType], change: Callable[[FunctionType], Any]) -> float:
    start = time.process_time()
    for each in functions:
        change(each)
    return time.process_time() - start


def _recompiled(function: FunctionType) -> Any:
    return recompiled(function.__code__, lambda node: True)


def _has(code: CodeType, what: Callable[[CodeType], bool]) -> bool:
    return what(code) or any(isinstance(each, CodeType) and _has(each, what) for each in code.co_consts)


def _calls_builtins(code: CodeType) -> bool:
    return not number_calls.FOLLOWED.isdisjoint(code.co_names)


def _has_loop(code: CodeType) -> bool:
    return any(each.opname == "FOR_ITER" for each in dis.get_instructions(code))


if __name__ == "__main__":
    main()
