"""The capture methods, the values of `capture=`. No other module knows both the capture and the trace of a model.

export         opbridge captures the model, by torch.export where that stops, and plans and translates the graph
torch.export   the same, captured by torch.export from the start
trace          torch's TorchScript exporter does all three in one step, and calls opbridge's translations
auto           export; trace where that cannot capture the model
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import torch

from opbridge.base.wording import counted
from opbridge.capture import Capture, capture_call
from opbridge.errors import CaptureError
from opbridge.fit.fitting import fit
from opbridge.fit.target import Target
from opbridge.graph.precision import precisions
from opbridge.plan.data import Plan
from opbridge.plan.planner import make_plan
from opbridge.plan.revise import with_problems
from opbridge.plan.rows import Problem
from opbridge.request import BuildConfig, ExportRequest
from opbridge.request.traceable import refuse_untraceable
from opbridge.translate.reroute import translate_with_reroutes

if TYPE_CHECKING:
    import onnx_ir as ir

    from opbridge.torchscript.tracer import Traced

__all__ = ["CapturedModel", "capture_model"]


class CapturedModel(Protocol):
    """A model that has been captured.

    Attributes:
        capture: The capture.
        target: What the model is fitted to. The model is built for the target's opset.
    """

    @property
    def capture(self) -> Capture: ...

    @property
    def target(self) -> Target: ...

    def describe(self) -> str:
        """A short description of the capture."""

    def plan(self) -> Plan:
        """Plans the model: every operator, its route, and what is missing."""

    def build(self, plan: Plan) -> tuple[ir.Model, Plan]:
        """The ONNX model, which is valid only where the plan is ok, and the plan with the routes that were used."""


def capture_model(request: ExportRequest, tell: Callable[[str], None] = lambda text: None) -> CapturedModel:
    """Captures a model.

    Args:
        request: What is asked of the export.
        tell: Called with what is done now.

    Raises:
        CaptureError: The model cannot be captured.
        UsageError: The method does not support the model, its dynamic shapes or the opset, or the model fails by
            itself.
    """
    method = request.capturing.method
    if method == "trace":
        return _capture_by_trace(request)
    try:
        captured = capture_call(request.call, request.capturing, tell)
        return _ExportedModel(request.building, captured, request.building.target)
    except CaptureError as error:
        if method != "auto":
            raise
        first = error
    try:
        return _capture_by_trace(request, f"captured by a trace, because capture='export' failed: {_as_clause(first)}")
    except CaptureError as error:
        raise CaptureError(f"{first} The trace, which capture='auto' tried next, failed too: {error}") from error


@dataclass
class _ExportedModel:
    building: BuildConfig
    capture: Capture
    target: Target

    def __post_init__(self) -> None:
        newer = self.target if self.building.opset_version is not None else self.target.for_bfloat16()
        if newer != self.target and torch.bfloat16 in precisions(self.capture.graph).values():
            self.target = newer

    def describe(self) -> str:
        count = sum(each.is_in_file for each in self.capture.decisions)
        decisions = f", {counted(count, 'condition')}" if count else ""
        return f"{self.capture.mode}, {counted(len(self.capture.graph.graph.nodes), 'node')}{decisions}"

    def plan(self) -> Plan:
        target, building = self.target, self.building
        return make_plan(
            self.capture, building.registry, opset=target.opset, routes=building.routes, target=target.name
        )

    def build(self, plan: Plan) -> tuple[ir.Model, Plan]:
        built, found = self._build(plan)
        if not found.ok and self.target != self.building.target:  # the runtime lacks kernels at the newer opset
            self.target = self.building.target
            return self._build(self.plan())
        return built, found

    def _build(self, plan: Plan) -> tuple[ir.Model, Plan]:
        building = self.building
        fitted = functools.partial(_fit, self.target, building)
        return translate_with_reroutes(self.capture, plan, fitted, building.names, building.custom_opsets)


@dataclass
class _TracedModel:
    building: BuildConfig
    traced: Traced
    target: Target

    @property
    def capture(self) -> Capture:
        return self.traced.capture

    def describe(self) -> str:
        frozen = sum(note.startswith("constant in the trace") for note in self.capture.notes)
        nodes = sum(row.count for row in self.traced.plan.rows)
        return f"trace, {counted(nodes, 'node')}, {counted(frozen, 'value')} constant"

    def plan(self) -> Plan:
        return self.traced.plan

    def build(self, plan: Plan) -> tuple[ir.Model, Plan]:
        # The nodes of a trace have no alternative route, so that there is no reroute.
        plan, problems = _fit(self.target, self.building, self.traced.model, plan)
        return self.traced.model, with_problems(plan, problems)


def _fit(
    target: Target, building: BuildConfig, model: ir.Model, plan: Plan, *, complete: bool = True
) -> tuple[Plan, dict[str, Problem]]:
    return fit(
        model,
        plan,
        target=target,
        custom_opsets=building.custom_opsets,
        fusing=building.fusing,
        folding=building.folding,
        complete=complete,
    )


def _capture_by_trace(request: ExportRequest, note: str = "") -> CapturedModel:
    from opbridge import torchscript
    from opbridge.base.torch_private import torchscript_export

    building = request.building
    refuse_untraceable(request.call, building.opset_version)
    target, notes = building.target, [note] if note else []
    newest = torchscript_export.newest_opset()
    if building.opset_version is None and target.opset > newest:
        notes.append(
            f"built for opset {newest}, the newest that PyTorch's TorchScript exporter supports, instead of opset "
            f"{target.opset}"
        )
        target = target.at(newest)
    return _TracedModel(building, torchscript.trace(request.call, building, target, notes), target)


def _as_clause(error: CaptureError) -> str:
    """The message of an error as a clause of a note."""
    return str(error).removeprefix("The model cannot be captured: ").partition("\n")[0].rstrip(". ")
