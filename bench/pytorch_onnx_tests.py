"""PyTorch's own tests of its ONNX exporter, with opbridge in the exporter's place.

The tests export small models, and compare ONNX Runtime with eager PyTorch on the example and on further inputs. They
are not part of PyTorch's wheels: give the folder `test/onnx` of PyTorch's unpacked source, release 2.6. They also need
the package parameterized.

    python bench/pytorch_onnx_tests.py FOLDER --jobs 2                       # all, and the section of RESULTS.md
    python bench/pytorch_onnx_tests.py FOLDER --only rnn squeeze --details   # those whose names contain one of these
    python bench/pytorch_onnx_tests.py FOLDER --exporter torch -o torch.json # a stock exporter, for comparison
    python bench/pytorch_onnx_tests.py FOLDER --beside torch.json            # all, with what that gave in the section

Each test runs in a process of its own kind: one that crashes or hangs costs that test alone. A test is counted as
    passed       the file gives what the test asks for on all of its inputs,
    wrong        opbridge's verification passed, and the test does not,
    narrower     opbridge's verification failed at sizes that the test asks for and does not try, where PyTorch gives
                 results of other shapes, or another number of them,
    misjudged    opbridge's verification failed otherwise, and the test passes with the same file,
    differs      both fail,
    refused      there is no file: the export ended with an error,
    not run      the test says itself that it does not apply, with its reason.
Tests of quantised tensors and of ScriptModules are counted on their own.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import dataclasses
import json
import sys
import tempfile
import types
import unittest
import warnings
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import TimeoutError
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from results import table, write_section

MODULE, CLASS = "test_pytorch_onnx_onnxruntime", "TestONNXRuntime"
OPSET = 20
TIMEOUT = 120.0
OUTCOMES = ("passed", "wrong", "misjudged", "narrower", "differs", "refused", "crash", "timeout", "not run")
WORST = ("wrong", "misjudged", "narrower", "differs", "refused", "crash", "timeout")
LABELS = {"torch": "torch.onnx.export", "torchscript": "torch.onnx.export(dynamo=False)"}
_WHAT = (
    f"`{MODULE}.py` of PyTorch 2.6 at opset {OPSET}, with this torch. wrong: verification passed and the test fails;"
    " misjudged: verification failed and the test passes; narrower: verification failed at sizes that the test "
    "does not use; differs: both fail; refused: no file."
)


@dataclass
class Outcome:
    """What became of one test, which may export several models: the worst of them counts.

    Attributes:
        test: Its name.
        outcome: One of OUTCOMES.
        detail: The error, or why it was not run.
        scope: "" for what counts, else "quantised" or "ScriptModule".
        by_auto: What became of it with capture="auto", where it did not pass without.
    """

    test: str
    outcome: str
    detail: str = ""
    scope: str = ""
    by_auto: str = ""


@dataclass
class Settings:
    """What holds for all tests; see the command line."""

    folder: str
    exporter: str
    capture: str = "export"


@dataclass
class Running:
    """The test that runs in this process."""

    settings: Settings
    outcomes: list[tuple[str, str]] = field(default_factory=list)
    scope: str = ""


running: Running | None = None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, help="test/onnx of PyTorch's unpacked source")
    parser.add_argument("--only", nargs="*", default=[], help="tests whose names contain one of these")
    parser.add_argument("--exporter", choices=("opbridge", "torch", "torchscript"), default="opbridge")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--details", action="store_true", help="print each test that does not pass, and why")
    parser.add_argument("-o", "--output", type=Path, help="a JSON file for the outcome of each test")
    parser.add_argument("--beside", nargs="*", type=Path, default=[], help="such files of stock exporters")
    options = parser.parse_args()
    settings = Settings(str(options.folder.resolve()), options.exporter)
    stock = {LABELS.get(path.stem, path.stem): read(path) for path in options.beside}
    names = [name for name in listed(settings) if not options.only or any(each in name for each in options.only)]
    outcomes = run(settings, names, options.jobs)
    if options.exporter == "opbridge":
        again = [each.test for each in outcomes if each.outcome in WORST]
        by_auto = run(dataclasses.replace(settings, capture="auto"), again, options.jobs)
        for each, other in zip((each for each in outcomes if each.outcome in WORST), by_auto, strict=True):
            each.by_auto, each.detail = other.outcome, other.detail if other.outcome != "passed" else each.detail
    if options.output:
        options.output.write_text(json.dumps([asdict(each) for each in outcomes], indent=1))
    if options.details:
        for each in outcomes:
            if each.outcome != "passed":
                words = ", ".join(filter(None, (each.outcome, each.by_auto and f"auto: {each.by_auto}", each.scope)))
                print(f"{each.test}: {words}\n    {each.detail}")
    text = summary(outcomes, stock)
    print(text)
    if not options.only and options.exporter == "opbridge":
        sys.argv[1:] = ["FOLDER", *(f"--beside {path.name}" for path in options.beside)]  # as the section names it
        write_section("pytorch_onnx_tests", "PyTorch's own tests of its exporter", f"{_WHAT}\n\n{text}")


def read(path: Path) -> list[Outcome]:
    """What another run gave."""
    return [Outcome(**each) for each in json.loads(path.read_text())]


def summary(outcomes: list[Outcome], stock: Mapping[str, list[Outcome]]) -> str:
    """The counts, as a table, and which tests the stock exporters pass and opbridge does not.

    Args:
        outcomes: One for each test.
        stock: The outcomes of other exporters, by their names.
    """
    rows = []
    for scope, title, auto in (
        ("", "in scope", False),
        ("", "in scope, what does not pass again with capture='auto'", True),
        ("quantised", "quantised", False),
        ("ScriptModule", "ScriptModules", False),
    ):
        counts = Counter((auto and each.by_auto) or each.outcome for each in outcomes if each.scope == scope)
        ran = sum(counts.values()) - counts["not run"]
        share = f"{counts['passed'] / ran:.1%}" if ran else ""
        found = (str(counts[each]) for each in OUTCOMES[:-1])
        rows.append([title, str(ran), *found, share, str(counts["not run"])])
    ours = {each.test: each for each in outcomes}
    missing: dict[str, str] = {}
    for name, others in stock.items():
        in_scope = [each for each in others if each.test in ours and not ours[each.test].scope]
        counts = Counter(each.outcome for each in in_scope)
        ran = sum(counts.values()) - counts["not run"]
        found = (str(counts[each]) for each in OUTCOMES[:-1])
        share = f"{counts['passed'] / ran:.1%}" if ran else ""
        rows.append([f"in scope, by `{name}`", str(ran), *found, share, str(counts["not run"])])
        for each in in_scope:
            own = ours[each.test].by_auto or ours[each.test].outcome
            if each.outcome == "passed" and own not in ("passed", "not run"):
                missing[each.test] = own
    text = table(["tests", "run", *OUTCOMES[:-1], "share", "not run"], rows)
    if not stock:
        return text
    named = ", ".join(f"{test} ({own})" for test, own in missing.items()) or "none"
    return f"{text}\n\nPassed by a stock exporter, and by opbridge neither by default nor by capture='auto': {named}."


def run(settings: Settings, names: list[str], jobs: int) -> list[Outcome]:
    """Runs tests in worker processes."""
    from pebble import ProcessPool

    with ProcessPool(max_workers=jobs, initializer=prepare, initargs=(settings,), max_tasks=100) as pool:
        futures = [pool.schedule(run_one, args=(name,), timeout=TIMEOUT) for name in names]
        return [outcome_of(future, name) for future, name in zip(futures, names, strict=True)]


def outcome_of(future: Any, name: str) -> Outcome:
    """What a worker found, or that it did not end well."""
    from pebble import ProcessExpired

    try:
        return future.result()
    except TimeoutError:
        return Outcome(name, "timeout", f"not done after {TIMEOUT:g} seconds")
    except ProcessExpired as error:
        return Outcome(name, "crash", f"the process ended with {error.exitcode}")


def listed(settings: Settings) -> list[str]:
    """The names of all tests of the newest opset, found in a process of their own."""
    from pebble import ProcessPool

    with ProcessPool(max_workers=1, initializer=prepare, initargs=(settings,)) as pool:
        return pool.schedule(test_names).result()


# In the workers


def prepare(settings: Settings) -> None:
    """Makes the tests importable on releases of torch that lack what they import, and puts the exporter in place."""
    global running
    import torch

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    sys.path.insert(0, settings.folder)
    missing: Any = types.ModuleType("torch.onnx._internal.diagnostics")
    missing.engine = types.SimpleNamespace(clear=lambda: None)
    sys.modules.setdefault(missing.__name__, missing)
    # The tests read it as an attribute, which torch's annotations do not have any more.
    torch.onnx._internal.diagnostics = sys.modules[missing.__name__]  # type: ignore[attr-defined]
    import onnx_test_common

    onnx_test_common.run_model_test = run_model_test
    running = Running(settings)


def test_class() -> Any:
    """The tests with the newest opset that they know, tracing, initializers no inputs."""
    module = __import__(MODULE)
    wanted = f"{CLASS}_opset_version_{OPSET}_is_script_False_keep_initializers_as_inputs_False"
    return getattr(module, wanted)


def test_names() -> list[str]:
    return list(unittest.TestLoader().getTestCaseNames(test_class()))


def run_one(name: str) -> Outcome:
    """Runs a test; what it raises outside of an export is an outcome as well."""
    assert running is not None
    running.outcomes, running.scope = [], "quantised" if "quant" in name or "qat" in name else ""
    result = unittest.TestResult()
    test_class()(name).run(result)
    if result.skipped:
        return Outcome(name, "not run", result.skipped[0][1], running.scope)
    failed = [text for _, text in (*result.errors, *result.failures)]
    reason = next((line for line in failed[0].splitlines()[::-1] if "Error" in line), "") if failed else ""
    if not running.outcomes:
        return Outcome(name, "not run", reason or "it exports nothing", running.scope)
    if " not raised" in reason:
        return Outcome(name, "not run", "it asks that the stock exporter fails", running.scope)
    if not failed and any(outcome == "refused" for outcome, _ in running.outcomes):
        return Outcome(name, "not run", "it asks that the export fails", running.scope)
    if any("fails on these inputs in plain PyTorch" in detail for _, detail in running.outcomes):
        return Outcome(name, "not run", "the model itself fails in PyTorch", running.scope)
    for kind in WORST:
        details = [detail for outcome, detail in running.outcomes if outcome == kind]
        if details and (failed or kind in ("misjudged", "narrower")):
            return Outcome(name, kind, details[0], running.scope)
    if failed:
        return Outcome(name, "differs", reason, running.scope)
    return Outcome(name, "passed", "", running.scope)


def run_model_test(suite: Any, model: Any, **options: Any) -> None:
    """In the place of the tests' own function: exports a model, and compares it on the test's inputs."""
    import torch

    assert running is not None
    if isinstance(model, torch.jit.ScriptModule | torch.jit.ScriptFunction):
        running.scope = "ScriptModule"
    training = options.get("training")
    if isinstance(model, torch.nn.Module) and not isinstance(model, torch.jit.ScriptModule):
        model.train(training == torch.onnx.TrainingMode.TRAINING)
    args, kwargs = options["input_args"], options.get("input_kwargs") or {}
    args = tuple(args) if isinstance(args, (tuple, list)) else (args,)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.onnx")
        try:
            verdict = export(suite, model, args, kwargs, options, path)
        except Exception as error:
            running.outcomes.append(("refused", one_line(error)))
            raise
        says = "" if verdict is None or verdict.ok else one_line(verdict.summary())
        try:
            compare(suite, model, path, args, kwargs, options)
        except Exception as error:
            running.outcomes.append(("differs" if says else "wrong", says or one_line(error)))
            raise
        if says:
            running.outcomes.append(("narrower" if is_narrower(verdict) else "misjudged", says))
        else:
            running.outcomes.append(("passed", ""))


def is_narrower(verification: Any) -> bool:
    """Whether a verification failed at other sizes than the example's alone, by shapes or the number of outputs."""
    failed = [run for run in verification.runs if not run.ok]
    differing = [each for run in failed for each in run.comparisons if not each.ok]
    return all(run.kind == "sizes" and run.failure is None for run in failed) and all(
        each.reason is not None for each in differing
    )


def export(suite: Any, model: Any, args: Any, kwargs: Any, options: Any, path: Path) -> Any:
    """Writes the file; returns its verification, where opbridge wrote it."""
    import torch

    import opbridge
    from opbridge.verification import verify_program

    assert running is not None
    given = {
        "kwargs": copy.deepcopy(kwargs) or None,
        "input_names": options.get("input_names"),
        "output_names": options.get("output_names"),
        "opset_version": suite.opset_version,
        "dynamic_axes": options.get("dynamic_axes"),
    }
    model, args = copied(model), copy.deepcopy(args)
    if not kwargs and args and isinstance(args[-1], dict):
        args = (*args, {})  # the dictionary is an input, and holds no keywords
    if running.settings.exporter != "opbridge":
        mode = options.get("training", torch.onnx.TrainingMode.EVAL)
        dynamo = running.settings.exporter == "torch"
        torch.onnx.export(model, args, str(path), **given, dynamo=dynamo, training=mode)
        return None
    program = opbridge.export(model, args, path, **given, verify=False, capture=running.settings.capture)
    return verify_program(program)


def compare(suite: Any, model: Any, path: Path, args: Any, kwargs: Any, options: Any) -> None:
    """Compares the file with eager PyTorch as the tests do: their tolerances, the shapes and dtypes."""
    import numpy as np
    import torch

    import opbridge

    session = opbridge.session(path)
    for number, given in enumerate((args, *(options["additional_test_inputs"] or ()))):
        given = given if isinstance(given, (tuple, list)) else (given,)
        given, named = tuple(copy.deepcopy(given)), copy.deepcopy(kwargs) if number == 0 else {}
        names = [each.name for each in session.get_inputs()]
        tensors = [leaf for leaf in torch.utils._pytree.tree_leaves((given, named)) if isinstance(leaf, torch.Tensor)]
        kept = options.get("remained_onnx_input_idx")
        if kept is not None and len(kept) == len(names) < len(tensors):  # other exporters leave inputs out
            tensors = [tensors[index] for index in kept]
        fed = {name: as_array(tensor) for name, tensor in zip(names, tensors, strict=True)}
        found = session.run(None, fed)
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            expected = copied(model)(*copy.deepcopy(given), **copy.deepcopy(named))
        wanted = [as_array(leaf) for leaf in torch.utils._pytree.tree_leaves(expected) if leaf is not None]
        if len(found) != len(wanted):
            raise AssertionError(f"{len(found)} outputs, where PyTorch has {len(wanted)}")
        for got, want in zip(found, wanted, strict=True):
            if not suite.check_shape:
                got, want = np.broadcast_arrays(got, want)
            torch.testing.assert_close(
                got, want, rtol=options["rtol"], atol=options["atol"], check_dtype=suite.check_dtype, equal_nan=True
            )


def as_array(value: Any) -> Any:
    """A tensor or a number of PyTorch's results."""
    import numpy as np
    import torch

    if not isinstance(value, torch.Tensor):
        return np.asarray(value)
    value = (value.dequantize() if value.is_quantized else value).detach()
    return (torch.view_as_real(value.resolve_conj()) if value.is_complex() else value).resolve_neg().numpy()


def copied(model: Any) -> Any:
    """A copy of a model, or the model where it cannot be copied."""
    with contextlib.suppress(RuntimeError):
        return copy.deepcopy(model)
    return model


def one_line(error: object) -> str:
    """The type and the first words of an error."""
    words = " ".join(str(error).split())
    return words[:400] if isinstance(error, str) else f"{type(error).__name__}: {words[:400]}"


if __name__ == "__main__":
    main()
