"""One model: built, run, exported, loaded, run on what the export did not see; and what came of it."""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import random
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree

from opbridge.base.wording import listed
from opbridge.capture.dynamic_shapes import asked_dimensions
from opbridge.capture.resolved_call import resolved_call
from opbridge.coverage import building, words
from opbridge.coverage.models.catalogue import entries_of
from opbridge.coverage.models.entries import Case, Inputs
from opbridge.coverage.models.exporting import EXPORTERS, Exported, Stages
from opbridge.coverage.models.tasks import ModelSettings, ModelTask, ModelVerdict
from opbridge.errors import MissingOperators, OpbridgeError, TranslationFault, UsageError
from opbridge.model_support import caches
from opbridge.request.verification_config import VerificationConfig
from opbridge.verification.correspondence import Correspondence
from opbridge.verification.eager import Eager, explain
from opbridge.verification.verifier import Verifier

__all__ = ["tried"]

_SEED = 0


class _Stop(Exception):
    """The verdict is known."""

    def __init__(self, outcome: str, message: str, cause: str = "") -> None:
        super().__init__(message)
        self.outcome, self.message, self.cause = outcome, message, cause


def tried(task: ModelTask, settings: ModelSettings) -> ModelVerdict:
    """Tries one model."""
    verdict = ModelVerdict("pass")
    start, cpu = time.perf_counter(), time.process_time()
    try:
        _try(task, settings, verdict)
    except _Stop as stop:
        verdict.outcome, verdict.message, verdict.cause = stop.outcome, words.short(stop.message), stop.cause
    finally:
        gc.collect()  # models are full of cycles
    verdict.seconds, verdict.cpu_seconds = time.perf_counter() - start, time.process_time() - cpu
    return verdict


@contextlib.contextmanager
def _timed(verdict: ModelVerdict, stage: str) -> Iterator[None]:
    start = time.perf_counter()
    try:
        yield
    finally:
        verdict.timings[stage] = time.perf_counter() - start


def _try(task: ModelTask, settings: ModelSettings, verdict: ModelVerdict) -> None:
    with _timed(verdict, "build"):
        case = _built(task, settings.dtype)
    kind = _kind(case, settings.dynamic)
    shapes, others = case.dynamic_shapes.get(kind), case.others.get(kind)
    with _timed(verdict, "eager"):
        _run_eagerly(case, others or ())
    with tempfile.TemporaryDirectory(prefix="opbridge-models-") as folder:
        path = Path(folder) / "model.onnx"
        cpu = time.process_time()
        try:
            with _timed(verdict, "export"):
                exported = _exported(settings, case, shapes, path, verdict)
        finally:
            verdict.export_cpu_seconds = time.process_time() - cpu
        if runtime := building.builder_of(settings.target):
            with _timed(verdict, "target"):
                verdict.nodes = sum(1 for _ in exported.read().graph.all_nodes())
                found = building.build(runtime, exported.path, _feeds(case, exported))
            verdict.predicted = [words.short(each) for each in found.predicted]
            raise _Stop(found.outcome, found.message, found.cause)
        with _timed(verdict, "load"):
            try:
                session = exported.load()
            except Exception as error:  # that is the outcome, whatever it is
                raise _Stop("load error", words.named(error), words.cause(error)) from None
        with _timed(verdict, "compare"):
            verdict.nodes = sum(1 for _ in exported.read().graph.all_nodes())
            _check_contract(case, shapes, exported, session)
            _compare(case, others, exported, session)


def _built(task: ModelTask, dtype: str | None) -> Case:
    _seed()
    try:
        case = entries_of(task.family)[task.name].make()
    except Exception as error:  # a package raises anything
        raise _Stop("left out", f"it cannot be built: {explain(error)}", type(error).__name__) from None
    _seed()
    return case if dtype is None else _in(getattr(torch, dtype), case)


def _in(dtype: torch.dtype, case: Case) -> Case:
    """A model and its inputs, with all that is floating in one dtype, as `model.half()` has it."""

    def of(inputs: Inputs) -> Inputs:
        args, kwargs = pytree.tree_map_only(
            torch.Tensor,
            lambda tensor: tensor.to(dtype) if tensor.is_floating_point() else tensor,
            (inputs.args, dict(inputs.kwargs)),
        )
        return Inputs(args, kwargs)

    if not isinstance(case.model, torch.nn.Module):
        raise _Stop("left out", f"it is no module, and has no parameters in {str(dtype).removeprefix('torch.')}")
    others = {kind: [of(each) for each in inputs] for kind, inputs in case.others.items()}
    return dataclasses.replace(case, model=case.model.to(dtype), example=of(case.example), others=others)


def _feeds(case: Case, exported: Exported) -> dict[str, Any]:
    """The example by the names of the file's inputs; empty where they do not correspond one to one."""
    args, kwargs = caches.of_all_tokens((case.example.args, dict(case.example.kwargs)))
    given = [each for each in pytree.tree_leaves((args, kwargs)) if isinstance(each, torch.Tensor)]
    names = [each.name for each in exported.read().graph.inputs]
    if len(names) != len(given):
        return {}
    whole = {name: each for name, each in zip(names, given, strict=True) if not each.is_floating_point()}
    return {str(name): each.detach().numpy() for name, each in whole.items() if each.layout == torch.strided}


def _seed() -> None:
    torch.manual_seed(_SEED)
    np.random.seed(_SEED)
    random.seed(_SEED)


def _kind(case: Case, dynamic: str) -> str:
    """The dimensions that are dynamic; of a model whose users vary nothing but the batch, "all" are the batch."""
    kind = "batch" if dynamic == "all" and "all" not in case.dynamic_shapes else dynamic
    if kind != "none" and kind not in case.dynamic_shapes:
        raise _Stop("left out", f"it has no dynamic dimensions of the kind {dynamic!r}")
    return kind


def _run_eagerly(case: Case, others: Any) -> None:
    """Leaves the model out where PyTorch itself does not run it, or it computes nothing."""
    eager = Eager(case.model)
    for number, inputs in enumerate((case.example, *others)):
        try:
            args, kwargs = caches.of_all_tokens((inputs.args, dict(inputs.kwargs)))  # as the file takes them
            found = eager.run(args, kwargs, _SEED)
        except Exception as error:  # a model raises anything
            which = f"other inputs {number}" if number else "the example"
            message = f"PyTorch itself fails on {which}: {explain(error)}"
            raise _Stop("left out", message, type(error).__name__) from None
        if not any(isinstance(leaf, torch.Tensor | int | float) for leaf in found):
            raise _Stop("left out", "it returns no tensor and no number", "nothing returned")


def _exported(settings: ModelSettings, case: Case, shapes: Any, path: Path, verdict: ModelVerdict) -> Exported:
    export = EXPORTERS[settings.exporter]
    try:
        exported = export(case.model, case.example, shapes, path, Stages(verdict.stages), settings.target)
    except MissingOperators as error:
        verdict.missing = [row.operator for row in error.plan.missing]
        raise _Stop("refused", str(error), words.cause(error)) from None
    except TranslationFault as error:
        said = "; ".join(f"{fault.operator}: {fault.reason}" for fault in error.plan.faults)
        raise _Stop("fault", said, words.cause(error)) from None
    except Exception as error:
        # A stock exporter refuses with whatever it happens to raise; opbridge, with errors of its own alone.
        is_bug = settings.exporter == "opbridge" and not isinstance(error, OpbridgeError)
        raise _Stop("export error" if is_bug else "refused", words.named(error), words.cause(error)) from None
    verdict.routes, verdict.notes = exported.routes, [words.short(note) for note in exported.notes]
    if exported.capture is not None:
        verdict.capture = exported.capture.mode
    return exported


def _check_contract(case: Case, shapes: Any, exported: Exported, session: Any) -> None:
    """Each dimension that was asked to be dynamic has to be so in the file."""
    call = resolved_call(case.model, case.example.args, case.example.kwargs, shapes)
    try:
        matching = Correspondence("the file", session, case.model, call.args, call.kwargs, exported.capture)
    except UsageError as error:
        raise _Stop("wrong", str(error), "inputs") from None
    if matching.fixed:
        names = [name for name, at in zip(matching.names, matching.positions, strict=True) if at in matching.fixed]
        message = f"the file is valid only for the example's values of {listed(names, 6)}"
        raise _Stop("refused", message, "fixed values")
    given = dict(zip(matching.positions, session.get_inputs(), strict=True))
    fixed = [
        f"{each.place} == {size}"
        for each in asked_dimensions(call.shapes, pytree.tree_leaves((call.args, call.kwargs)))
        if each.leaf in given and isinstance(size := given[each.leaf].shape[each.axis], int) and not each.is_automatic
    ]
    if fixed:
        message = f"requested dynamic dimensions are static in the file: {listed(fixed, 6)}"
        raise _Stop("wrong", message, "fixed dimensions")


def _compare(case: Case, others: Any, exported: Exported, session: Any) -> None:
    """Compares the file with PyTorch as `opbridge.verify` does, on the other inputs, and on those that it draws.

    opbridge.export has done the latter itself, with the sizes that it was asked for; of another exporter's file, its
    own dimensions say which sizes may vary.
    """
    given = [(each.args, dict(each.kwargs)) if each.kwargs else each.args for each in others or ()] or None
    options = [VerificationConfig(inputs=given)]
    if exported.capture is None and given is not None:
        options.append(VerificationConfig())
    for each in options:
        _compare_with(each, case, exported, session)


def _compare_with(options: VerificationConfig, case: Case, exported: Exported, session: Any) -> None:
    verifier = Verifier(
        "the file",
        session,
        exported.read,
        case.model,
        tuple(case.example.args),
        dict(case.example.kwargs),
        exported.capture,
        exported.capture is not None,
        options,
    )
    try:
        verification = verifier.run(time.perf_counter())
    except UsageError as error:  # what is given does not fit the file, or it has other outputs
        raise _Stop("wrong", str(error), "interface") from None
    if verification.ok:
        return
    failed = next((run for run in verification.runs if run.failure is not None), None)
    if failed is not None:
        raise _Stop("run error", f"{failed.label}: {failed.failure}", "runtime")
    difference = verification.difference
    cause = difference.operator if difference is not None and difference.is_beyond else "values"
    raise _Stop("wrong", f"{verification.summary()}. {verification.describe_mismatch()}", cause)
