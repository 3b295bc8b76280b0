"""`check` and `export`: the stages, one after the other.

    capture     model, example inputs     -> Capture      a functional graph, each operator with its source line
    plan        Capture, registry         -> Plan         a route for every operator, or a reason and a remedy
    translate   Capture, Plan             -> ir.Model     and the Plan as it turned out: what fails is tried by its next
      and fit   ir.Model, Plan, Target                    route, until nothing changes (`opbridge.translate.reroute`)
    repair      ir.Model, Target          -> ir.Model     what the target does not take, in another form (`target=`)
    save        Program                   -> files        whole or not at all, and in their places once verified
    verify      Program                   -> Verification
    cast        Program, a precision      -> Narrowed     float16 or bfloat16, compared with float32 (`precision=`)

Each stage's input and output is a value that can be printed; nothing reaches back into an earlier stage. With
`capture="trace"`, the first three are one (`opbridge.trace`).
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

from opbridge.base.memory import peak_bytes
from opbridge.base.routes import ALLOWED_BY_DEFAULT
from opbridge.base.slow_stages import LoggedStages
from opbridge.base.transformers_private import caches
from opbridge.base.version import __version__
from opbridge.base.wording import counted
from opbridge.capture.advice import advise_eager
from opbridge.capture.limits import CaptureLimits
from opbridge.capture.model_inputs import described, example_inputs
from opbridge.capture.model_module import as_module, name_of
from opbridge.capture.shape_forms import by_own_names
from opbridge.errors import (
    MissingOperators,
    PrecisionError,
    SaveError,
    TranslationFault,
    UsageError,
)
from opbridge.fit.kernels_needed import unmatched_patterns
from opbridge.fit.target import Target, find_target
from opbridge.fit.widening import is_refused, takes
from opbridge.kernels.triton.launches import compiling_with
from opbridge.onnx import reading
from opbridge.plan.data import Plan
from opbridge.precision.formats import find_format
from opbridge.program import Program, Spent, target_error, tell_plan, verification_error
from opbridge.reports.report import reporting
from opbridge.save import writer
from opbridge.save.failed import remove_failed
from opbridge.symbolics import export_types, keywords
from opbridge.symbolics.registered import with_registered
from opbridge.tasks import prepare, suggestion
from opbridge.trace.strategies import CapturedModel, ExportRequest, capture_model
from opbridge.translate.asked_for import check_dimensions
from opbridge.translations import unknown_operators
from opbridge.translations.catalogue import default_registry
from opbridge.translations.registry import Registry

if TYPE_CHECKING:
    import onnx_ir as ir

    from opbridge.capture import Capture
    from opbridge.capture.listing import Raw
    from opbridge.fixing import Change, Key
    from opbridge.precision import Narrowed
    from opbridge.reports.report import Report
    from opbridge.targets import Target as Limits
    from opbridge.verification import Verification

__all__ = ["Progress", "check", "export"]


class Stage(Protocol):
    """A stage that is running."""

    def detail(self, text: str) -> None:
        """Says what the stage has found."""


class Progress(Protocol):
    """Receives the stages of an export as they run."""

    def stage(self, name: str) -> contextlib.AbstractContextManager[Stage]:
        """Enters the stage `name`, one of capture, plan, translate, repair, save, verify."""


@caches.taking_caches
def check(
    model: Any,
    args: Any = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    opset_version: int | None = None,
    custom_translation_table: Mapping[Any, Any] | None = None,
    custom_opsets: Mapping[str, int] | None = None,
    allow: Sequence[str] = ALLOWED_BY_DEFAULT,
    routes: Mapping[str, str] | None = None,
    operator_export_type: Any = None,
    target: str | None = None,
    provides: str | Sequence[str] = (),
    capture: str = "export",
    input_names: Sequence[str] | None = None,
    dynamic_axes: Mapping[str, Any] | None = None,
    task: str | None = None,
    max_captures: int | None = None,
    max_capture_seconds: float | None = None,
    strict: bool = False,
    architectures: Sequence[str] = (),
    autotune: Mapping[str, int] | None = None,
    report: str | os.PathLike[str] | Report | None = None,
) -> Plan:
    """Plans the export of a model without writing a file: every operator with its route, and the missing ones with
    their lines.

    Translations are run too, so that one that does not support the model's arguments is reported. The arguments are
    those of `export`; `report` is also written if operators are missing.

    Raises:
        CaptureError: the model cannot be captured.
        SaveError: the report cannot be written.
        UsageError: arguments that cannot be used, or a model that fails in PyTorch too. Missing operators raise
            nothing: see `Plan.ok`.
    """
    args, kwargs = keywords.split_inputs(model, args, kwargs)
    dynamic_shapes = _shapes(dynamic_shapes, dynamic_axes, model, args, kwargs, input_names)
    notes = suggestion(model, args, kwargs)
    if task is not None:
        prepared = prepare(task, model, args, kwargs, dynamic_shapes)
        args, kwargs, dynamic_shapes, notes = (), prepared.kwargs, prepared.dynamic_shapes, prepared.notes
    permitted, pinned = export_types.chosen(operator_export_type, allow, routes)
    fitted = find_target(target, opset_version, provides)
    request = ExportRequest(
        model,
        args,
        kwargs,
        dynamic_shapes,
        _registry(custom_translation_table),
        fitted,
        opset_version,
        permitted,
        pinned,
        custom_opsets=dict(custom_opsets or {}),
        limits=_limits(max_captures, max_capture_seconds),
        strict=strict,
    )
    with reporting(report, "check", name_of(model)) as told, compiling_with(architectures, autotune):
        spent, stages = Spent(), LoggedStages()
        with _timed("capture", stages, spent) as stage:
            request.limits.report = stage.detail
            captured = capture_model(capture, request)
        with _timed("plan", stages, spent):
            plan = captured.plan()
        with _timed("translate", stages, spent):
            built, plan = captured.build(plan)
            _refuse_failing(captured.capture, plan)
        plan = _with_notes(plan, (*notes, *unknown_operators.notes(request.registry), *_notes_on(captured, built)))
        tell_plan(told, captured.capture, plan, built, spent)
    return plan


@caches.taking_caches
def export(
    model: Any,
    args: Any = (),
    f: str | os.PathLike[str] | BinaryIO | None = None,
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
    operator_export_type: Any = None,
    target: str | None = None,
    provides: str | Sequence[str] = (),
    capture: str = "export",
    progress: Progress | None = None,
    dynamic_axes: Mapping[str, Any] | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    inputs: Any = None,
    task: str | None = None,
    max_captures: int | None = None,
    max_capture_seconds: float | None = None,
    strict: bool = False,
    precision: str | None = None,
    architectures: Sequence[str] = (),
    autotune: Mapping[str, int] | None = None,
    report: str | os.PathLike[str] | Report | None = None,
    **legacy: Any,
) -> Program:
    """Exports a model to ONNX and verifies the file against PyTorch.

    Args:
        model: A `torch.nn.Module`, a function, or a `torch.export.ExportedProgram`.
        args: Example inputs: a tuple, or one tensor.
        f: The file to write, by its path, or open for writing bytes; None keeps the model in memory.
        kwargs: Example keyword inputs.
        input_names: Names for the graph's inputs, which are the flattened tensor inputs in order.
        output_names: Names for the graph's outputs, which are the flattened tensor outputs in order.
        dynamic_shapes: The dynamic dimensions, as in torch.export, where names may be used instead of Dims. "batch"
            is dimension 0 of every tensor, {0: "batch", 2: "length"} applies to every tensor that has these
            dimensions, {0, 2} to dimensions without names, and with "auto" they are inferred.
        opset_version: The opset version, 9 or newer. Defaults to the newest one that the target supports well.
        custom_translation_table: Translations for this export: operator (or its name) -> function or functions.
        custom_opsets: The versions of custom domains. The file is written even if the runtime has no kernels for a
            domain that is declared here.
        external_data: Whether weights go to a file beside the model; None: only where one file cannot hold them.
        verify: Whether to compare the result with PyTorch. If the runtime has no kernels for it, the file is written
            without verification, and `Program.unverified` has the reason.
        allow: The allowed routes.
        routes: Operators pinned to a route, by name or shell pattern ("aten::*").
        operator_export_type: A mode of torch.onnx.export, by name or enum, instead of `allow` and `routes`: ONNX,
            ONNX_ATEN, ONNX_ATEN_FALLBACK, ONNX_FALLTHROUGH or RAW; see `opbridge.symbolics.export_types`.
        target: The target that the model will run on, such as "tensorrt:10.1", or the path of a file that describes
            one. Defaults to onnxruntime. The opset is one that the target supports, unsupported parts are repaired if
            possible (`Program.repairs`), and `Program.findings` has the remaining findings.
        provides: Operators of other domains than ONNX's own that the target has, as a plug-in or custom operator of
            yours: "trt::MyTopK", or "trt::*" for all of a domain. They count as supported; where no kernel for them
            is loaded, the file is written without verification.
        capture: How the model is captured: "export" with opbridge's own capture, or torch.export if that fails;
            "torch.export" with torch.export only; "trace" with PyTorch's TorchScript exporter, in which the results
            of Python conditions become constants; "auto": export, then trace.
        progress: Receives the stages as they run, to show them. By default, a stage that runs for 20 seconds or more is
            logged, by the logger "opbridge".
        dynamic_axes: What torch.onnx.export took before `dynamic_shapes`: dimensions by the graph's input names.
        rtol: The relative tolerance of the verification. Defaults to one by dtype.
        atol: The absolute tolerance of the verification. Defaults to one by dtype.
        inputs: Your own inputs for the verification instead of random ones, as in `opbridge.verify`.
        task: The task, which provides the inputs and dynamic shapes: "text-generation", for a causal language model
            of transformers; see `opbridge.tasks.text_generation`.
        max_captures: The maximum number of captures of a model with data-dependent control flow, one per path.
            Defaults to 64.
        max_capture_seconds: The time limit, in seconds, after which no further capture is begun: of another path, of
            other sizes, or by torch.export. Defaults to no limit.
        strict: Whether a relation between dynamic dimensions that the model requires, the example inputs fulfil and
            `dynamic_shapes` does not state, such as `total == past + seq`, is an error. By default it is taken as
            stated: the dimension is named "past + seq" in the file, and a note says so.
        precision: "float16" or "bfloat16" casts the exported float32 model after it was verified, as `opbridge.cast`
            does on the example inputs, and writes the cast model; `Program.narrowed` has the comparison, and the target
            is asked of the cast model. None keeps the model's types.
        architectures: For a model that launches Triton kernels, the CUDA architectures that their library has machine
            code for, such as ("sm_80", "sm_90"), which are the default, with that of a GPU that is there. It has PTX
            for later ones.
        autotune: By the name of a Triton kernel with @triton.autotune, the number of the configuration to take. By
            default, the one that was tuned in this process, or the first one that fits.
        report: The path of an HTML report with the graph of the model, its plan and its verification. It is also
            written if operators are missing or the outputs differ, before the error is raised.
        **legacy: Other keywords of torch.onnx.export; see `opbridge.symbolics.keywords`.

    Returns:
        The program: model, plan, verification, timings.

    Raises:
        CaptureError: the model cannot be captured.
        MissingOperators: there are operators without a route; the error has all of them and the plan.
        TranslationFault: translations of opbridge failed unexpectedly; the error has all of them and the plan.
        PrecisionError: the model cannot be cast to `precision`, or its outputs exceed the tolerance; the cast model is
            then saved as `NAME.failed.onnx`.
        SaveError: the file cannot be written; an existing file is unchanged.
        VerificationError: the outputs do not agree with PyTorch. The file is saved as `NAME.failed.onnx` for
            inspection until a later export to the same path is verified; an existing file is unchanged.
        TargetError: the target does not support the model, and there is no automatic repair. The file is saved as
            `NAME.failed.onnx`, as for a VerificationError.
        UsageError: arguments that cannot be used, or a model that fails in PyTorch too.
    """
    keywords.check_legacy(legacy, model)
    if not verify:
        _refuse_without_verification(inputs=inputs, rtol=rtol, atol=atol)
    args, kwargs = keywords.split_inputs(model, args, kwargs)
    dynamic_shapes = _shapes(dynamic_shapes, dynamic_axes, model, args, kwargs, input_names)
    notes = suggestion(model, args, kwargs)
    if task is not None:
        prepared = prepare(task, model, args, kwargs, dynamic_shapes)
        args, kwargs, dynamic_shapes, notes = (), prepared.kwargs, prepared.dynamic_shapes, prepared.notes
        if inputs is None:
            inputs = prepared.inputs
            notes += prepared.covered if verify else ()
    permitted, pinned = export_types.chosen(operator_export_type, allow, routes)
    fitted = find_target(target, opset_version, provides)
    path = None if f is None or hasattr(f, "write") else Path(f)
    if path is not None:
        _refuse_unwritable(path)
    request = ExportRequest(
        model,
        args,
        kwargs,
        dynamic_shapes,
        _registry(custom_translation_table),
        fitted,
        opset_version,
        permitted,
        pinned,
        input_names,
        output_names,
        dict(custom_opsets or {}),
        _limits(max_captures, max_capture_seconds),
        strict,
    )
    if precision is not None:
        find_format(precision)
    label = name_of(model) if path is None else str(path)
    with reporting(report, "export", label) as told, compiling_with(architectures, autotune):
        stages = progress or LoggedStages()
        place: Any = f if path is None else path  # a path, or a file that is open
        program = _exported(
            request,
            capture,
            place,
            told,
            stages,
            notes=notes,
            external_data=external_data,
            verify={"rtol": rtol, "atol": atol, "inputs": inputs} if verify else None,
            is_draft=precision is not None,
        )
        program.architectures = tuple(architectures)
        if precision is not None:
            limits = fitted.limits
            newest = opset_version or (None if limits is None or limits.opsets is None else limits.opsets.newest)
            _narrow(
                program, precision, place, stages, limits, newest=newest, external_data=external_data, verify=verify
            )
        if path is not None:
            program.save_libraries(path)
        return program


def _narrow(
    program: Program,
    precision: str,
    f: Path | BinaryIO | None,
    reporter: Progress,
    limits: Limits | None,
    *,
    newest: int | None,
    external_data: bool | None,
    verify: bool,
) -> None:
    """Casts a program, fits the cast model to its target, and writes it.

    Args:
        program: The program of float32.
        precision: "float16" or "bfloat16".
        f: The file to write, by its path or open.
        reporter: Receives the stage.
        limits: What the model is to run on, where that is not ONNX Runtime.
        newest: The newest opset that the model may be raised to; None: any that ONNX Runtime loads.
        external_data: As for `export`.
        verify: Whether both are compared.

    Raises:
        PrecisionError: The outputs exceed the tolerance, or the target has no such precision.
        TargetError: The target does not take the cast model.
    """
    from opbridge.capture.model_inputs import leaf_arrays
    from opbridge.precision import cast_for, with_kept_file

    path = f if isinstance(f, Path) else None
    name = "the model" if path is None else str(path)
    dtype = find_format(precision).dtype
    if limits is not None and not takes(limits, dtype):
        raise PrecisionError(
            f"{name} was not cast to {precision}: {limits} is not known to have kernels for it, and ONNX Runtime casts "
            "none of its nodes there. Nothing was written. Use another precision or target."
        )
    spent = Spent(program.timings, program.peaks)
    given = leaf_arrays(program.capture.args, program.capture.kwargs)
    fits = verify and len(given) == len(program.model.graph.inputs)
    made = program.repairs

    undone: dict[Key, str] = {}

    def fit(model: ir.Model) -> dict[str, str] | None:
        if limits is None:
            return {}
        changes = _repair_in_place(program, model, limits, name, undone)
        if changes is None:
            return None
        program.repairs = (*made, *changes)
        assert program.findings is not None
        return {each.node: each.message for each in program.findings if is_refused(each, limits, dtype)}

    def accept(result: Narrowed) -> None:
        program.narrowed, program.model = result, result.model
        program.model.metadata_props["opbridge.opset"] = str(result.opsets[1])
        if not _taken(program):
            raise target_error(program, path, external_data)

    with _timed("cast", reporter, spent) as stage, tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "model.onnx"
        writer.save(program.model, source)
        try:
            narrowed = cast_for(
                source,
                precision,
                path,
                inputs=given if fits else None,
                verify=verify,
                external_data=external_data,
                progress=stage.detail,
                label=name,
                newest=newest,
                fit=fit,
                accept=accept,
            )
        except PrecisionError as error:
            raise with_kept_file(error, path, precision, external_data) from error
        if path is not None:
            program.path, program.files = path, narrowed.files
            program.model = reading.load(str(path))  # its weights were beside the float32 model
            remove_failed(path)
        else:
            program.model = reading.load(narrowed.to_bytes())
            if f is not None:
                f.write(program.to_bytes())  # type: ignore[union-attr]
        stage.detail(narrowed.compared() if limits is None else f"{_of_target(program)}; {narrowed.compared()}")


def _exported(
    request: ExportRequest,
    capture: str,
    f: Path | BinaryIO | None,
    told: Report,
    reporter: Progress,
    *,
    notes: tuple[str, ...],
    external_data: bool | None,
    verify: Mapping[str, Any] | None,
    is_draft: bool,
) -> Program:
    """The stages of an export.

    Args:
        request: What is exported.
        capture: How it is captured.
        f: The file to write, by its path or open.
        told: The report, which is told what the stages gave.
        reporter: Receives the stages as they run.
        notes: What is known of the model before it is captured.
        external_data: As for `export`.
        verify: The options of the verification; None: there is none.
        is_draft: Whether the model is cast next: nothing is written, but for one that fails its verification, and what
            its target does not take is told of the cast model.
    """
    path = f if isinstance(f, Path) else None
    spent = Spent()
    with _timed("capture", reporter, spent) as stage:
        request.limits.report = stage.detail
        captured = capture_model(capture, request)
        stage.detail(captured.describe())
    with _timed("plan", reporter, spent) as stage:
        plan = captured.plan()
        stage.detail(plan.summary())
    with _timed("translate", reporter, spent) as stage:
        built, plan = captured.build(plan)
        _refuse_failing(captured.capture, plan)
        tell_plan(told, captured.capture, plan, built, spent)
        if plan.faults:
            raise TranslationFault(plan) from plan.faults[0].error
        if not plan.ok:
            raise MissingOperators(plan)
        plan = _with_notes(plan, (*notes, *unknown_operators.notes(request.registry), *_notes_on(captured, built)))
        stage.detail(f"{counted(len(built.graph), 'ONNX node')}, {counted(len(built.graph.initializers), 'constant')}")
    program = Program(
        built, plan, captured.capture, timings=spent.seconds, peaks=spent.peaks, kernels=list(plan.kernels)
    )
    told.late = program.tell
    program.model.metadata_props.update(_metadata(captured.target, plan))
    if captured.target.limits is not None:
        with _timed("repair", reporter, spent) as stage:
            _repair(program, captured.target.limits, "the model" if path is None else str(path))
            stage.detail(counted(len(program.repairs), "repair") if is_draft else _of_target(program))
    with contextlib.ExitStack() as files:
        staged = None
        if path is not None and not is_draft:
            with _timed("save", reporter, spent) as stage:
                staged = files.enter_context(writer.staged(program.model, path, external_data=external_data))
                stage.detail(f"{staged.size():,} bytes")
            program.path = staged.path
        if verify is not None and plan.unverified:
            program.unverified = plan.unverified
        elif verify is not None:
            with _timed("verify", reporter, spent) as stage:
                program.verification = _verify(program, None if is_draft else path, **verify)
                stage.detail(program.verification.summary())
        if staged is not None and path is not None and not _failed(program) and _taken(program):
            program.files = staged.commit()
            program.path = path
    if _failed(program):
        raise verification_error(program, path, external_data)
    if is_draft:
        return program
    if not _taken(program):
        raise target_error(program, path, external_data)
    if path is not None and program.verification is not None:
        remove_failed(path)
    if path is None and f is not None:
        with _timed("save", reporter, spent) as stage:
            stage.detail(f"{f.write(program.to_bytes()):,} bytes")  # type: ignore[union-attr]
    return program


@caches.taking_caches
def raw(
    model: Any,
    args: Any = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    opset_version: int | None = None,
    custom_translation_table: Mapping[Any, Any] | None = None,
) -> Raw:
    """The captured graph of a model for a person, with nothing translated: `opbridge export --raw`.

    The arguments are those of `export`. The capture is that of `capture="export"`, whatever `capture` says.

    Raises:
        CaptureError: the model cannot be captured.
        UsageError: arguments that cannot be used.
    """
    from opbridge.capture.listing import listing

    target = find_target(None, opset_version)
    registry = _registry(custom_translation_table)
    captured = capture_model(
        "export", ExportRequest(model, args, kwargs, dynamic_shapes, registry, target, opset_version, (), {})
    )
    return listing(captured.capture)


def _shapes(
    dynamic_shapes: Any,
    dynamic_axes: Mapping[str, Any] | None,
    model: Any,
    args: Any,
    kwargs: Mapping[str, Any] | None,
    input_names: Sequence[str] | None,
) -> Any:
    """The dynamic shapes, whichever of the two ways they are given in."""
    if not dynamic_axes:
        if not input_names or not isinstance(dynamic_shapes, Mapping):
            return dynamic_shapes
        args, kwargs = example_inputs(args, kwargs)
        return by_own_names(dynamic_shapes, as_module(model, args, kwargs), args, kwargs, input_names)
    if dynamic_shapes is not None:
        raise UsageError("dynamic_axes and dynamic_shapes are mutually exclusive. Leave one of them out.")
    args, kwargs = example_inputs(args, kwargs)
    return keywords.dynamic_shapes_of(dynamic_axes, as_module(model, args, kwargs), args, kwargs, input_names)


def _refuse_failing(capture: Capture, plan: Plan) -> None:
    """Says of a model that cannot be exported that it fails in PyTorch too, where that is so.

    Raises:
        UsageError: It does; the message has PyTorch's own, and the line.
    """
    if plan.ok and not plan.faults:
        return
    from opbridge.verification import eager

    failure = eager.failure(capture.model, capture.args, capture.kwargs)
    if failure is not None:
        raise UsageError(advise_eager(failure, described(capture.args, capture.kwargs))) from failure


def _notes_on(captured: CapturedModel, built: ir.Model) -> tuple[str, ...]:
    """What there is to say of the arguments, now that the model is built."""
    return *check_dimensions(captured.capture, built), *unmatched_patterns(built, captured.target)


def _limits(captures: int | None, seconds: float | None) -> CaptureLimits:
    return CaptureLimits(seconds=seconds) if captures is None else CaptureLimits(captures, seconds)


def _refuse_without_verification(**options: Any) -> None:
    given = [f"{name}=" for name, value in options.items() if value is not None]
    them = "it" if len(given) == 1 else "them"
    if given:
        raise UsageError(
            f"{' and '.join(given)} would have no effect with verify=False (--no-verify), because only the "
            f"verification uses {them}. Leave one of them out."
        )


def _registry(table: Mapping[Any, Any] | None) -> Registry:
    """Every translation and symbolic function there is, and those of a user's table."""
    unknown_operators.refuse(table)
    return with_registered(default_registry()).with_user_table(table)


def _with_notes(plan: Plan, notes: tuple[str, ...]) -> Plan:
    return dataclasses.replace(plan, notes=(*plan.notes, *notes)) if notes else plan


def _verify(program: Program, path: Path | None, **options: Any) -> Verification:
    # Under a name of its own: `export` has a parameter called verify.
    from opbridge.verification import verify_program

    return verify_program(program, subject=None if path is None else str(path), complete=True, **options)


def _failed(program: Program) -> bool:
    return program.verification is not None and not program.verification.ok


def _repair(program: Program, limits: Limits, label: str) -> None:
    """Repairs what the target does not take of the program, and notes what stays."""
    from opbridge.fixing import repaired_copy
    from opbridge.rules import Findings

    made = repaired_copy(program.model, [limits])
    program.model, program.repairs = made.model, made.changes
    program.findings = Findings(label, [limits], made.left)


def _repair_in_place(
    program: Program, model: ir.Model, limits: Limits, label: str, undone: dict[Key, str]
) -> Sequence[Change] | None:
    """Repairs what the target does not take of a model, notes in the program what stays, and returns what was done.

    What was cast knows the values of this model, so that no copy of it will do. After a repair that failed, which is
    added to those that are left undone, it returns None, and the model is not to be used.
    """
    from opbridge.fixing import Broken, note_broken, repaired
    from opbridge.rules import Findings

    try:
        changes, left = repaired(model, [limits], undone=undone)
    except Broken as broken:
        note_broken(broken, undone)
        return None
    program.findings = Findings(label, [limits], left)
    return changes


def _of_target(program: Program) -> str:
    """How many repairs were made, and what stays."""
    assert program.findings is not None
    made = f"{counted(len(program.repairs), 'repair')}; " if program.repairs else ""
    return made + program.findings.counted()


def _taken(program: Program) -> bool:
    return program.findings is None or program.findings.ok


@contextlib.contextmanager
def _timed(name: str, progress: Progress, spent: Spent) -> Iterator[Stage]:
    start = time.perf_counter()
    with progress.stage(name) as stage:
        yield stage
    spent.seconds[name] = time.perf_counter() - start
    spent.peaks[name] = peak_bytes()


def _metadata(target: Target, plan: Plan) -> dict[str, str]:
    import torch

    return {
        "opbridge.version": __version__,
        "torch.version": torch.__version__,
        "opbridge.opset": str(target.opset),
        "opbridge.target": str(target),
        **({"opbridge.kernels": " ".join(plan.kernels)} if plan.kernels else {}),
    }


def _refuse_unwritable(path: Path) -> None:
    """Says before the work what would be found out after it."""
    if path.is_dir():
        raise SaveError(f"{path} is a folder. Give the path of a file, such as {path / 'model.onnx'}.")
    if not path.parent.exists():
        raise SaveError(f"The folder {path.parent} does not exist. Create it, or give another path.")
    if not os.access(path.parent, os.W_OK):
        raise SaveError(f"The folder {path.parent} is not writable. Give another path.")
