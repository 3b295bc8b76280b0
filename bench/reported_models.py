"""Models that people reported as not exportable to ONNX, or as exported wrong, each with a harder variation.

Besides, forms of lists and of sizes that people write, from no report.

    python bench/reported_models.py                     # all, and the section of RESULTS.md
    python bench/reported_models.py --only 191855 SAM   # those whose report or function contains one of these
    python bench/reported_models.py --only lists        # the forms of lists
    python bench/reported_models.py --details           # with all that a refusal says

The models are in bench/reported_models/, a function for each. Each is exported in a process of its own, with a time
limit; opbridge verifies it as always, and then the file is compared with the model in eager PyTorch here, on fresh
inputs of other shapes than the example's. A model is counted as
    right     the file gives what PyTorch gives on all of these inputs,
    refused   there is no file that opbridge vouches for: the export ended with an error of its own,
    wrong     the file differs from PyTorch, or does not run, where PyTorch does,
    crash     the process ended, took longer than the limit, or raised an error that is not opbridge's.
"""

from __future__ import annotations

import argparse
import copy
import importlib
import multiprocessing
import re
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import TimeoutError
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from reported_models.report import Case, Report, reports
from results import table, write_section

import opbridge
from opbridge.errors import OpbridgeError

LIMIT = 60.0
OUTCOMES = ("right", "refused", "wrong", "crash")
MODULES = (
    "sequences",
    "indexing",
    "attention",
    "gradients",
    "vision",
    "signals",
    "lists",
    "sizes",
    "more_lists",
    "more_sizes",
    "containers",
)
FORMS = {
    "lists": "forms of lists",
    "sizes": "forms of sizes",
    "more lists": "more forms of lists",
    "more sizes": "more forms of sizes",
    "containers": "lists of containers",
}
TOLERANCES = {torch.float16: 1e-2, torch.bfloat16: 2e-2, torch.float32: 1e-3, torch.float64: 1e-5}
_WHAT = (
    "Public reports of models that could not be exported to ONNX, or were exported wrong: the form reported, and a"
    f" harder variation of it. Each is exported in at most {LIMIT:g} s, and compared with eager PyTorch on fresh inputs"
    " of other shapes than the example's.\n\nForms of lists, whose number of parts or lengths data decide, and of sizes"
    " that a model calculates with are from no report: they were written to count what people write. When they were"
    " written, 35 of 42 forms of lists and 29 of 32 of sizes were right (at b943f5d1), and of more, written after those"
    " were mended, 21 of 33 and 30 of 31 (at 191ec5de); of lists of containers, 15 of 22 (at 731b3c47). All others were"
    " refused. Most of what was refused was mended by class afterwards, so that the numbers now say no more than that"
    " it was."
)


@dataclass(frozen=True)
class Outcome:
    """What became of one model: one of OUTCOMES, what was said, and the seconds of its export."""

    kind: str
    said: str
    seconds: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", nargs="*", default=[], help="those whose report or function contains one of these")
    parser.add_argument("--details", action="store_true", help="print all that a refusal says")
    options = parser.parse_args()
    load()
    chosen = [each for each in reports if not options.only or any(word in _label(each) for word in options.only)]
    outcomes = []
    for report, outcome in zip(chosen, run(chosen), strict=True):
        outcomes.append(outcome)
        said = outcome.said if options.details else first_sentence(outcome.said)
        print(f"{_label(report)}: {outcome.kind}, {outcome.seconds:.1f} s{said and ': ' + said}", flush=True)
    text = summary(chosen, outcomes)
    if options.only:
        print(f"\n{text}")
    else:
        write_section("reported_models", "Models that people reported", f"{_WHAT}\n\n{text}")


def run(chosen: Sequence[Report]) -> Iterator[Outcome]:
    """Exports and compares models in a process of their own, which is another one after a crash."""
    from pebble import ProcessExpired, ProcessPool

    context = multiprocessing.get_context("spawn")  # a forked process cannot compute gradients
    with ProcessPool(max_workers=1, initializer=prepare, context=context) as pool:
        for report in chosen:
            start = time.perf_counter()
            future = pool.schedule(in_process, args=(reports.index(report),), timeout=LIMIT)
            try:
                yield future.result()
            except TimeoutError:
                yield Outcome("crash", f"not done after {LIMIT:g} s.", LIMIT)
            except ProcessExpired as error:
                yield Outcome("crash", f"the process ended with {error.exitcode}.", time.perf_counter() - start)


def summary(chosen: Sequence[Report], outcomes: Sequence[Outcome]) -> str:
    """The totals, and a row for each report."""
    groups: dict[str, Counter[str]] = {}
    for report, outcome in zip(chosen, outcomes, strict=True):
        groups.setdefault(_group(report), Counter())[outcome.kind] += 1
    totals = [
        [title, str(counts.total()), *(str(counts[kind]) for kind in OUTCOMES)] for title, counts in groups.items()
    ]
    rows = []
    for report, outcome in zip(chosen, outcomes, strict=True):
        said = first_sentence(outcome.said).replace("|", "\\|")
        words = outcome.kind if outcome.kind == "right" else f"{outcome.kind}: {said}"
        rows.append([f"{report.name}{report.variation and ': ' + report.variation}", words, f"{outcome.seconds:.1f}"])
    return f"{table(['models', 'number', *OUTCOMES], totals)}\n\n{table(['report', 'outcome', 'seconds'], rows)}"


def _group(report: Report) -> str:
    """What a report is counted among."""
    return FORMS.get(report.name, "variations" if report.variation else "forms reported")


def first_sentence(text: str) -> str:
    """The first sentence of a message, on one line."""
    line = re.sub(r"\S*/(?=model\.onnx)", "", " ".join(text.split()))  # where the file was is nobody else's path
    return line.partition(". ")[0][:300]


def _label(report: Report) -> str:
    return f"{report.name} {report.make.__name__}"


def load() -> None:
    """Registers the models."""
    for module in MODULES:
        importlib.import_module(f"reported_models.{module}")


# In the processes


def prepare() -> None:
    """Imports and compiles once what each export would."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    load()
    opbridge.check(torch.nn.Linear(2, 2), (torch.ones(1, 2),))


def in_process(index: int) -> Outcome:
    """What becomes of the model of a report."""
    report = reports[index]
    torch.manual_seed(0)
    start = time.perf_counter()
    try:
        case = report.make()
        models = [copy.deepcopy(case.model) for _ in (case.example, *case.others)]
        with TemporaryDirectory() as folder:
            path = Path(folder, "model.onnx")
            start = time.perf_counter()
            program = opbridge.export(
                case.model,
                case.inputs(*case.example),
                path,
                dynamic_shapes=case.dynamic_shapes,
                **({} if case.opset is None else {"opset_version": case.opset}),
            )
            seconds = time.perf_counter() - start
            differs = compare(case, models, program.session())
        return Outcome("wrong" if differs else "right", differs, seconds)
    except OpbridgeError as error:
        return Outcome("refused", str(error), time.perf_counter() - start)
    except Exception as error:  # whatever it is, it is what a person would see
        where = traceback.extract_tb(error.__traceback__)[-1]
        said = f"{type(error).__name__}: {error} ({Path(where.filename).name}:{where.lineno})"
        return Outcome("crash", said, time.perf_counter() - start)


def compare(case: Case, models: Sequence[torch.nn.Module], session: Any) -> str:
    """How the file differs from the model on fresh inputs; "": not at all.

    Args:
        case: The case.
        models: The model as it was before the export, for each of the sizes.
        session: What runs the file.
    """
    for sizes, model in zip((*case.others, case.example), models, strict=True):
        inputs = case.inputs(*sizes)
        arrays = [each.detach().numpy().copy() for each in torch.utils._pytree.tree_leaves(inputs)]
        expected = [torch.as_tensor(each).detach() for each in torch.utils._pytree.tree_leaves(model(*inputs))]
        names = [each.name for each in session.get_inputs()]
        try:
            actual = session.run(None, dict(zip(names, arrays, strict=True)))
        except Exception as error:  # ONNX Runtime's errors have no common class
            return f"sizes {sizes}: the file does not run: {error}"
        for index, (found, wanted) in enumerate(zip(actual, expected, strict=False)):
            tolerance = TOLERANCES.get(wanted.dtype, 0.0)
            scale = wanted.abs().nan_to_num(0, 0, 0).max().item() if wanted.numel() and tolerance else 0.0
            try:
                torch.testing.assert_close(
                    torch.from_numpy(found), wanted, rtol=tolerance, atol=tolerance * scale, equal_nan=True
                )
            except AssertionError as error:
                return f"sizes {sizes}, output {index}: {' '.join(str(error).split())}"
        if len(actual) < len(expected):
            return f"sizes {sizes}: {len(actual)} outputs instead of {len(expected)}"
    return ""


if __name__ == "__main__":
    main()
