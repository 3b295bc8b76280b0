"""One sample: made, exported, loaded, run, compared; and what came of it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from opbridge.coverage import building, distribution, words
from opbridge.coverage.calling import Call, as_model
from opbridge.coverage.databases import database, samples_of
from opbridge.coverage.entries import Entry
from opbridge.coverage.exporting import Exported, export, text_of
from opbridge.coverage.tasks import Settings, Task, Verdict
from opbridge.errors import MissingOperators, ModelFileError, OpbridgeError, TranslationFault
from opbridge.graph.precision import coarsest
from opbridge.graph.values import as_tensor
from opbridge.request import VerificationConfig
from opbridge.runtimes import known
from opbridge.verification import exchange, verify_program
from opbridge.verification.compare import compare
from opbridge.verification.eager import Eager
from opbridge.verification.replay import replay
from opbridge.verification.signs import has_free_signs
from opbridge.verification.ties import picks_the_same

__all__ = ["judge"]

_LONGEST_MESSAGE = 1200
_SEEDS = range(20)
"""So many are tried: of numbers drawn, few of the values may come, as of where a pool's regions begin."""
_COMPARED = {"deterministic": "values", "random": "distribution", "undefined": "shape"}


class _Stop(Exception):
    """The verdict is known."""

    def __init__(self, outcome: str, message: str = "") -> None:
        super().__init__(message)
        self.outcome, self.message = outcome, message


def judge(task: Task, settings: Settings) -> Verdict | None:
    """Tries one sample.

    Returns:
        None where the operator has no sample of that number.
    """
    verdict = Verdict("pass")
    start, cpu = time.perf_counter(), time.process_time()
    try:
        if not _judge(task, settings, verdict):
            return None
    except _Stop as stop:
        verdict.outcome, verdict.message = stop.outcome, words.short(stop.message, _LONGEST_MESSAGE)
    verdict.seconds, verdict.cpu_seconds = time.perf_counter() - start, time.process_time() - cpu
    return verdict


class _Timed:
    def __init__(self, verdict: Verdict, name: str) -> None:
        self._verdict, self._name = verdict, name

    def __enter__(self) -> None:
        self._start = time.perf_counter()

    def __exit__(self, *raised: Any) -> None:
        self._verdict.timings[self._name] = time.perf_counter() - self._start


def _judge(task: Task, settings: Settings, verdict: Verdict) -> bool:
    entry = database(task.database)[task.key]
    with _Timed(verdict, "sample"):
        try:
            samples = samples_of(task.database, task.key, getattr(torch, task.dtype), settings.samples)
        except Exception as error:  # the database runs code of torch's, which raises anything
            raise _Stop("left out", f"PyTorch cannot create the sample: {_named(error)}") from None
        if task.index >= len(samples):
            return False
        sample = samples[task.index]
        model, args = as_model(entry.function, sample)
    with _Timed(verdict, "eager"):
        eager = Eager(model)
        expected = _expected(eager, args)
        verdict.kind = "undefined" if entry.undefined else _kind(eager, args, expected)
    with _Timed(verdict, "export"):
        exported = _export(settings, model, args, verdict)
    try:
        if (runtime := building.builder_of(settings.runtime)) and known.obstacle(runtime):
            with _Timed(verdict, "build"):
                _build(runtime, args, exported, verdict)
        with _Timed(verdict, "load"):
            try:
                session = exported.session(settings.runtime)
            except Exception as error:  # that is the outcome, whatever it is
                raise _Stop("load error", _named(error)) from None
        with _Timed(verdict, "compare"):
            any_order = entry.any_order and not sample.kwargs.get("stable")
            _compare(entry, eager, args, expected, exported, session, verdict, any_order)
    except _Stop as stop:
        if stop.outcome != building.BUILT:
            verdict.onnx = text_of(exported)
        raise
    return True


def _build(runtime: str, args: tuple[torch.Tensor, ...], exported: Exported, verdict: Verdict) -> None:
    """Has a runtime build the sample that it cannot run; always ends with a verdict."""
    feeds = {
        f"x{at}": each.detach().numpy() for at, each in enumerate(args) if each.dtype in (torch.int32, torch.int64)
    }
    found = building.build(runtime, exported.content(), feeds)
    verdict.predicted = [words.short(each, _LONGEST_MESSAGE) for each in found.predicted]
    raise _Stop(found.outcome, found.message)


def _expected(eager: Eager, args: tuple[torch.Tensor, ...]) -> list[Any]:
    """The leaves of what PyTorch returns, without None."""
    for tensor in args:
        _refuse_layout(tensor, "takes")
    try:
        leaves = [leaf for leaf in eager.run(args, {}, _SEEDS[0]) if leaf is not None]
    except Exception as error:  # an operator raises anything
        raise _Stop("left out", f"PyTorch itself fails: {_named(error)}") from None
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    if not tensors:
        raise _Stop("left out", "it returns no tensor")
    for tensor in tensors:
        _refuse_layout(tensor, "gives")
    return leaves


def _refuse_layout(tensor: torch.Tensor, verb: str) -> None:
    if tensor.layout != torch.strided:
        raise _Stop("left out", f"sparse: it {verb} a tensor of layout {str(tensor.layout).removeprefix('torch.')}")
    if tensor.is_quantized:
        raise _Stop("left out", f"quantized: it {verb} a tensor of dtype {tensor.dtype}")
    if tensor.dtype == torch.complex32:
        raise _Stop("left out", f"it {verb} complex32, which ONNX does not have even as pairs")


def _kind(eager: Eager, args: tuple[torch.Tensor, ...], expected: Sequence[Any]) -> str:
    """Whether another seed gives other values."""
    for seed in _SEEDS[1:]:
        again = [leaf for leaf in eager.run(args, {}, seed) if leaf is not None]
        if any(
            isinstance(left, torch.Tensor) and not compare("", left, right, rtol=0.0).ok
            for left, right in zip(expected, again, strict=True)
        ):
            return "random"
        if not eager.used_generator:
            break
    return "deterministic"


def _export(settings: Settings, model: Call, args: tuple[torch.Tensor, ...], verdict: Verdict) -> Exported:
    try:
        exported = export(settings.exporter, model, args, settings.opset, settings.allow, settings.target)
    except MissingOperators as error:
        verdict.missing = [row.operator for row in error.plan.missing]
        raise _Stop("refused", str(error)) from None
    except TranslationFault as error:
        raise _Stop("fault", "; ".join(f"{fault.operator}: {fault.reason}" for fault in error.plan.faults)) from None
    except Exception as error:
        # A stock exporter refuses with whatever it happens to raise; opbridge, with errors of its own alone.
        own = settings.exporter == "opbridge" and not isinstance(error, OpbridgeError)
        raise _Stop("export error" if own else "refused", _named(error)) from None
    verdict.route, verdict.routes = exported.route, exported.routes
    if exported.program is not None:
        verdict.capture = exported.program.capture.mode
    return exported


def _compare(
    entry: Entry,
    eager: Eager,
    args: tuple[torch.Tensor, ...],
    expected: Sequence[Any],
    exported: Exported,
    session: Any,
    verdict: Verdict,
    any_order: bool,
) -> None:
    wanted = {node.name for node in session.get_inputs()}
    feeds = {f"x{position}": tensor for position, tensor in enumerate(args) if f"x{position}" in wanted}
    if len(feeds) != len(wanted):
        raise _Stop(
            "wrong", f"the model has inputs that the sample does not have: {', '.join(sorted(wanted - set(feeds)))}"
        )
    try:
        actual = _run(session, feeds)
    except Exception as error:  # ONNX Runtime's errors share no other class
        raise _Stop("run error", _named(error)) from None
    tensors = [leaf for leaf in expected if isinstance(leaf, torch.Tensor)]
    if len(actual) == len(expected):  # the numbers that the model gives are outputs too
        tensors = [as_tensor(leaf, output.dtype) for leaf, output in zip(expected, actual, strict=True)]
    if len(actual) != len(tensors):
        raise _Stop("wrong", f"the model has {len(actual)} outputs, but PyTorch returns {len(tensors)}")
    precision = coarsest([*(tensor.dtype for tensor in args), *(tensor.dtype for tensor in tensors)])
    verdict.compared = _COMPARED[verdict.kind or ""]
    if entry.undefined:
        verdict.message = f"only shape and dtype were compared: {entry.undefined}"
    values = verdict.compared == "values"
    found = [
        compare(f"output {number}", *pair, precision=precision, random=not values)
        for number, pair in enumerate(zip(tensors, actual, strict=True))
    ]
    wrong = [comparison for comparison in found if not comparison.ok]
    if (
        wrong
        and any_order
        and all(
            comparison.ok or picks_the_same(args[0], *pair)
            for comparison, pair in zip(found, zip(tensors, actual, strict=True), strict=True)
        )
    ):
        verdict.message, wrong = "equal elements are in a different order, which PyTorch does not define", []
    if wrong and values and (outputs := _with_signs(exported, args)) is not None and len(outputs) == len(actual):
        turned = [compare("", *pair, precision=precision) for pair in zip(outputs, actual, strict=True)]
        if all(each.ok for each in turned):
            verdict.message, wrong = "vectors have the opposite sign, which PyTorch does not define", []
    if wrong:
        raise _Stop("wrong", "; ".join(map(str, wrong)) + _blame(exported, verdict))
    if verdict.compared == "distribution":
        difference = distribution.difference(
            lambda seed: [leaf for leaf in eager.run(args, {}, seed) if isinstance(leaf, torch.Tensor)],
            lambda: _run(session, feeds),
            precision=precision,
        )
        if difference:
            raise _Stop("wrong", difference)


def _with_signs(exported: Exported, args: tuple[torch.Tensor, ...]) -> list[Any] | None:
    """PyTorch's outputs, in which vectors without a defined sign have the runtime's; None where there are none."""
    program = exported.program
    if program is None or not any(map(has_free_signs, program.capture.functional.graph.graph.nodes)):
        return None
    try:
        found = replay(program.model, program.capture, args, {})
    except Exception:  # the values of the runtime cannot be had, whatever the reason
        return None
    return None if found is None or found.steps is not None else found.outputs


def _blame(exported: Exported, verdict: Verdict) -> str:
    """Which operator differs first, where that can be found out."""
    if exported.program is None or verdict.compared != "values":
        return ""
    try:
        found = verify_program(exported.program, VerificationConfig(samples=0)).difference
    except Exception:  # the sample is wrong whether or not its cause is found
        return ""
    return f"; first at {found}" if found is not None and found.is_beyond else ""


def _run(session: Any, feeds: Mapping[str, torch.Tensor]) -> list[torch.Tensor]:
    """The outputs in order; a sequence counts as its tensors."""
    if all(output.type.startswith("tensor(") for output in session.get_outputs()):
        return exchange.run(session, feeds)
    values = session.run(None, {name: exchange.runtime_form(tensor).numpy() for name, tensor in feeds.items()})
    return [torch.as_tensor(leaf) for leaf in pytree.tree_leaves(values)]


def _named(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return text if isinstance(error, (OpbridgeError, ModelFileError)) else f"{type(error).__name__}: {text}"
