"""`check` and `export`: the steps, one after the other.

    capture -> plan -> translate -> save -> verify

Each step's input and output is a value; nothing reaches back into an earlier step.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from opbridge import fit
from opbridge.capture import Capture, capture
from opbridge.errors import MissingOperators, SaveError, UsageError, VerificationError
from opbridge.plan import ALLOWED_BY_DEFAULT, Plan, make_plan
from opbridge.program import Program
from opbridge.registry import default_registry
from opbridge.targets import Target, find_target
from opbridge.translate import translate

if TYPE_CHECKING:
    from opbridge.verification import Verification

__all__ = ["Progress", "check", "export"]


class Stage(Protocol):
    """A stage that is running."""

    def detail(self, text: str) -> None:
        """Says what the stage has found."""


class Progress(Protocol):
    """Who is told of the stages as they run."""

    def stage(self, name: str) -> contextlib.AbstractContextManager[Stage]:
        """Enters the stage `name`, one of capture, plan, translate, save, verify."""


class _Silent:
    @contextlib.contextmanager
    def stage(self, name: str) -> Iterator[_Silent]:
        yield self

    def detail(self, text: str) -> None:
        pass


def check(
    model: Any,
    args: Any = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    opset_version: int | None = None,
    custom_translation_table: Mapping[Any, Any] | None = None,
    allow: Sequence[str] = ALLOWED_BY_DEFAULT,
    routes: Mapping[str, str] | None = None,
    target: str | None = None,
) -> Plan:
    """Plans a model without exporting it: every operator, its route, what is missing and where.

    Translations are tried as well, so that one that cannot handle the model's arguments is found here. The arguments
    are those of `export`.

    Raises:
        CaptureError: the model cannot be captured.
        UsageError: arguments that cannot be used. Missing operators raise nothing: see `Plan.ok`.
    """
    fitted = find_target(target, opset_version)
    taken = capture(model, args, kwargs, dynamic_shapes=dynamic_shapes)
    plan = _planned(taken, fitted, custom_translation_table, allow, routes)
    built = translate(taken, plan)
    if built.failures or not plan.ok:
        return plan.with_failures(built.failures)
    return plan.with_problems(fit.fit(built.model, fitted))


def export(
    model: Any,
    args: Any = (),
    f: str | os.PathLike[str] | None = None,
    *,
    kwargs: Mapping[str, Any] | None = None,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    dynamic_shapes: Any = None,
    opset_version: int | None = None,
    custom_translation_table: Mapping[Any, Any] | None = None,
    custom_opsets: Mapping[str, int] | None = None,
    external_data: bool | None = None,
    verify: bool = True,
    allow: Sequence[str] = ALLOWED_BY_DEFAULT,
    routes: Mapping[str, str] | None = None,
    target: str | None = None,
    capture: str = "export",
    progress: Progress | None = None,
) -> Program:
    """Exports a model to ONNX and proves that it runs.

    Args:
        model: A `torch.nn.Module`, a function, or a `torch.export.ExportedProgram`.
        args: Example inputs: a tuple, or one tensor.
        f: The file to write; None keeps the model in memory.
        kwargs: Example keyword inputs.
        input_names: Names for the graph's inputs, which are the flattened tensor inputs in order.
        output_names: Names for the graph's outputs, which are the flattened tensor outputs in order.
        dynamic_shapes: Which dimensions may vary, as torch.export takes it, with dimension names in place of Dims where
            that is enough; "auto" lets torch find out.
        opset_version: The opset, from 18; by default the newest that the target runs well.
        custom_translation_table: Translations for this export: operator (or its name) -> function or functions.
        custom_opsets: The versions of domains other than ONNX's own.
        external_data: Whether weights go to a file beside the model; None: only where one file cannot hold them.
        verify: Whether to compare the result with PyTorch.
        allow: The routes permitted.
        routes: Operators pinned to a route.
        target: The runtime that the model is fitted to; by default onnxruntime.
        capture: How the model is captured; this release knows "export".
        progress: Who is told of the stages; by default nobody.

    Returns:
        The program: model, plan, verification, timings.

    Raises:
        CaptureError: the model cannot be captured.
        MissingOperators: operators without a route, all of them, with the plan.
        SaveError: the file cannot be written; what stood there before still does.
        VerificationError: the model does not give what PyTorch gives. The file is left for inspection.
        UsageError: arguments that cannot be used.
    """
    if capture != "export":
        raise UsageError(f"capture='{capture}' is not known; use capture='export'.")
    fitted = find_target(target, opset_version)
    if f is not None:
        _refuse_unwritable(Path(f))
    told: Progress = progress or _Silent()
    timings: dict[str, float] = {}

    with _timed("capture", told, timings) as stage:
        taken = _capture(model, args, kwargs, dynamic_shapes)
        stage.detail(f"{taken.strategy}, {len(taken.exported_program.graph.nodes)} nodes")
    with _timed("plan", told, timings) as stage:
        plan = _planned(taken, fitted, custom_translation_table, allow, routes)
        stage.detail(plan.summary())
    if not plan.ok:
        # What the translations of the others would say is part of the answer.
        raise MissingOperators(plan.with_failures(translate(taken, plan).failures))
    with _timed("translate", told, timings) as stage:
        built = translate(taken, plan, input_names=input_names, output_names=output_names, custom_opsets=custom_opsets)
        plan = plan.with_failures(built.failures)
        if plan.ok:
            plan = plan.with_problems(fit.fit(built.model, fitted))
        if not plan.ok:
            raise MissingOperators(plan)
        stage.detail(f"{len(built.model.graph)} ONNX nodes, {len(built.model.graph.initializers)} constants")
    program = Program(built.model, plan, taken, timings=timings)
    program.model.metadata_props.update(_metadata(fitted))
    if f is not None:
        with _timed("save", told, timings) as stage:
            program.save(f, external_data=external_data)
            stage.detail(f"{sum(path.stat().st_size for path in program.files):,} bytes")
    if verify:
        with _timed("verify", told, timings) as stage:
            verification = program.verification = _verify(program)
            stage.detail(verification.summary())
        if not verification.ok:
            raise VerificationError(verification)
    return program


def _capture(model: Any, args: Any, kwargs: Mapping[str, Any] | None, dynamic_shapes: Any) -> Capture:
    # Under a name of its own: `export` has a parameter called capture.
    return capture(model, args, kwargs, dynamic_shapes=dynamic_shapes)


def _verify(program: Program) -> Verification:
    # Under a name of its own: `export` has a parameter called verify.
    from opbridge.verification import verify_program

    return verify_program(program)


def _planned(
    taken: Capture,
    fitted: Target,
    table: Mapping[Any, Any] | None,
    allow: Sequence[str],
    routes: Mapping[str, str] | None,
) -> Plan:
    registry = default_registry().with_user_table(table)
    return make_plan(taken, registry, opset=fitted.opset, allow=allow, routes=routes, target=fitted.name)


@contextlib.contextmanager
def _timed(name: str, progress: Progress, timings: dict[str, float]) -> Iterator[Stage]:
    start = time.perf_counter()
    with progress.stage(name) as stage:
        yield stage
    timings[name] = time.perf_counter() - start


def _metadata(target: Target) -> dict[str, str]:
    import torch

    import opbridge

    return {
        "opbridge.version": opbridge.__version__,
        "torch.version": torch.__version__,
        "opbridge.opset": str(target.opset),
        "opbridge.target": f"{target.name} {target.version}",
    }


def _refuse_unwritable(path: Path) -> None:
    """Says before the work what would be found out after it."""
    if path.is_dir():
        raise SaveError(f"{path} is a folder. Give the name of a file in it, such as {path / 'model.onnx'}.")
    if not path.parent.exists():
        raise SaveError(f"The folder {path.parent} does not exist. Make it, or give another path.")
    if not os.access(path.parent, os.W_OK):
        raise SaveError(f"The folder {path.parent} cannot be written to. Give another path.")
