"""`check` and `export`: the stages, one after the other.

    request     what the caller gave      -> ExportRequest   checked; each stage reads its group (`opbridge.request`)
    capture     the model, its inputs     -> Capture         a functional graph, each operator with its source line
    plan        Capture, registry         -> Plan            a route for every operator, or a reason and a remedy
    translate   Capture, Plan             -> ir.Model        and the Plan as it turned out: what fails is tried by its
      and fit   ir.Model, Plan, Target                       next route, until nothing changes (`translate.reroute`)
    repair      ir.Model, Target          -> ir.Model        what the target does not take, in another form (`target=`)
    save        Program                   -> files           whole or not at all, and in their places once verified
    verify      Program                   -> Verification
    cast        Program, a precision      -> Narrowed        float16 or bfloat16, compared with float32 (`precision=`)

Each stage's input and output is a value that can be printed; nothing reaches back into an earlier stage. With
`capture="trace"`, the first three are one (`opbridge.torchscript`).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO

from opbridge.base.progress import Progress
from opbridge.base.routes import ALLOWED_BY_DEFAULT
from opbridge.base.wording import counted
from opbridge.kernels.triton.launches import compiling_with
from opbridge.model_support import caches
from opbridge.plan.data import Plan
from opbridge.program import Program, tell_plan
from opbridge.reports.report import reporting
from opbridge.request import ExportRequest, export_request
from opbridge.stages.casting import cast
from opbridge.stages.genai_files import folder_of, write_beside
from opbridge.stages.repairing import counted_findings, repair
from opbridge.stages.running import Stages
from opbridge.stages.saving import save_verified
from opbridge.stages.translating import new_program, refuse_missing, translated, with_notes
from opbridge.torchscript.capture_methods import CapturedModel, capture_model

if TYPE_CHECKING:
    from opbridge.capture.listing import Raw
    from opbridge.reports.report import Report

__all__ = ["Progress", "check", "export", "export_requested", "raw"]


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
    fuse: bool | None = None,
    fold: bool = False,
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
    request = export_request(**locals(), verify=False)  # each argument, by its name
    stages = Stages(None)
    with reporting(request.listeners.report, "check", request.label) as told, compiling_with(request.kernels):
        captured, plan = _planned(request, stages)
        with stages.running("translate"):
            built, plan = translated(captured, plan)
        plan = with_notes(plan, request, captured, built)
        tell_plan(told, captured.capture, plan, built, stages.spent)
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
    genai: bool = False,
    fuse: bool | None = None,
    fold: bool = False,
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
            ONNX_ATEN, ONNX_ATEN_FALLBACK, ONNX_FALLTHROUGH or RAW; see `opbridge.request.export_types`.
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
        genai: Whether `f` is a folder for onnxruntime-genai, with task="text-generation": the model as `model.onnx`,
            `genai_config.json`, and the files of the tokenizer, if the model was loaded from a folder that has them.
        fuse: Whether groups of nodes that ONNX Runtime has one kernel for become that node, of the domain
            com.microsoft or of a newer opset: RMS normalization with the sum before it, attention with a cache, and for
            onnxruntime in float32 attention without one and rotary embeddings. A note of the plan names them. By
            default they do with target="onnxruntime" or "cuda", and with `genai`.
        fold: Whether batch normalizations, and constant factors and summands of each channel, are folded into the
            weights of the convolution or linear layer before them. The results then differ from the model's by
            rounding. A note of the plan counts the nodes.
        **legacy: Other keywords of torch.onnx.export; see `opbridge.request.legacy_keywords`.

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
    return export_requested(export_request(**locals()))  # each argument, by its name


def export_requested(request: ExportRequest) -> Program:
    """The stages of an export.

    Raises:
        OpbridgeError: As `export`, but for what is wrong with its arguments.
    """
    stages, output = Stages(request.listeners.progress), request.output
    with reporting(request.listeners.report, "export", request.label) as told, compiling_with(request.kernels):
        captured, plan = _planned(request, stages)
        with stages.running("translate") as stage:
            built, plan = translated(captured, plan)
            tell_plan(told, captured.capture, plan, built, stages.spent)
            refuse_missing(plan)
            plan = with_notes(plan, request, captured, built)
            nodes, constants = len(built.graph), len(built.graph.initializers)
            stage.detail(f"{counted(nodes, 'ONNX node')}, {counted(constants, 'constant')}")
        program = new_program(request, captured, built, plan, stages)
        told.late = program.tell
        if captured.target.limits is not None:
            with stages.running("repair") as stage:
                repair(program, captured.target.limits, output.label)
                is_last = output.precision is None
                stage.detail(counted_findings(program) if is_last else counted(len(program.repairs), "repair"))
        with folder_of(output.genai):
            save_verified(program, request, stages)
            if output.precision is not None:
                cast(program, request, stages)
            if output.path is not None:
                program.save_libraries(output.path)
            if output.genai is not None:
                write_beside(program, output.genai)
    return program


def _planned(request: ExportRequest, stages: Stages) -> tuple[CapturedModel, Plan]:
    """The first two stages."""
    with stages.running("capture") as stage:
        captured = capture_model(request, stage.detail)
        stage.detail(captured.describe())
    with stages.running("plan") as stage:
        plan = captured.plan()
        stage.detail(plan.summary())
    return captured, plan


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
    request = export_request(**locals(), verify=False)
    from opbridge.capture.listing import listing

    return listing(capture_model(request).capture)
