"""The model that a plan describes, and what there is to say of it."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from opbridge.base.version import __version__
from opbridge.capture.advice import advise_eager
from opbridge.capture.model_inputs import described
from opbridge.errors import MissingOperators, TranslationFault, UsageError
from opbridge.fit.kernels_needed import unmatched_patterns
from opbridge.fit.target import Target
from opbridge.plan.data import Plan
from opbridge.program import Program
from opbridge.request import ExportRequest
from opbridge.stages.running import Stages
from opbridge.torchscript.capture_methods import CapturedModel
from opbridge.translate.asked_for import check_dimensions
from opbridge.translations import unknown_operators

if TYPE_CHECKING:
    import onnx_ir as ir

__all__ = ["new_program", "refuse_missing", "translated", "with_notes"]


def translated(captured: CapturedModel, plan: Plan) -> tuple[ir.Model, Plan]:
    """The ONNX model of a plan, which is valid only where the plan is ok, and the plan as it turned out.

    Raises:
        UsageError: The model cannot be exported, and fails in PyTorch too; the message has PyTorch's own, and the line.
    """
    built, plan = captured.build(plan)
    if plan.ok and not plan.faults:
        return built, plan
    from opbridge.verification import eager

    capture = captured.capture
    failure = eager.failure(capture.model, capture.args, capture.kwargs)
    if failure is not None:
        raise UsageError(advise_eager(failure, described(capture.args, capture.kwargs))) from failure
    return built, plan


def refuse_missing(plan: Plan) -> None:
    """Refuses a plan with operators that have no route, or whose translation failed.

    Raises:
        MissingOperators, TranslationFault: There are such.
    """
    if plan.faults:
        raise TranslationFault(plan) from plan.faults[0].error
    if not plan.ok:
        raise MissingOperators(plan)


def with_notes(plan: Plan, request: ExportRequest, captured: CapturedModel, built: ir.Model) -> Plan:
    """The plan with what there is to say of the arguments, now that the model is built.

    Raises:
        CaptureError: A dimension that was asked to be dynamic is fixed in the model.
    """
    notes = (
        *request.notes,
        *unknown_operators.notes(request.building.registry),
        *check_dimensions(captured.capture, built),
        *unmatched_patterns(built, captured.target),
    )
    return dataclasses.replace(plan, notes=(*plan.notes, *notes)) if notes else plan


def new_program(
    request: ExportRequest, captured: CapturedModel, built: ir.Model, plan: Plan, stages: Stages
) -> Program:
    """The program of a model that was built."""
    built.metadata_props.update(_metadata(captured.target, plan))
    return Program(
        built,
        plan,
        captured.capture,
        timings=stages.spent.seconds,
        peaks=stages.spent.peaks,
        kernels=list(plan.kernels),
        architectures=request.kernels.architectures,
    )


def _metadata(target: Target, plan: Plan) -> dict[str, str]:
    import torch

    return {
        "opbridge.version": __version__,
        "torch.version": torch.__version__,
        "opbridge.opset": str(target.opset),
        "opbridge.target": str(target),
        **({"opbridge.kernels": " ".join(plan.kernels)} if plan.kernels else {}),
    }
