"""The strategies of `capture=`. This is the only module that knows both ways of capturing a model.

export         opbridge captures the model, by torch.export where that stops, and plans and translates the graph
torch.export   the same, captured by torch.export from the start
trace          torch's TorchScript exporter does all three in one step, and calls opbridge's translations
auto           export; trace where that cannot capture the model
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import torch

from opbridge.base.wording import counted
from opbridge.capture import Capture, capture
from opbridge.capture.limits import CaptureLimits
from opbridge.errors import CaptureError, UsageError
from opbridge.fit.fitting import fit
from opbridge.fit.target import Target
from opbridge.graph.precision import precisions
from opbridge.plan.data import Plan
from opbridge.plan.planner import make_plan
from opbridge.plan.revise import with_problems
from opbridge.symbolics.registered import PYTHON_OPERATOR
from opbridge.translate.reroute import translate_with_reroutes
from opbridge.translations.registry import Registry

if TYPE_CHECKING:
    import onnx_ir as ir

    from opbridge.trace.tracer import Traced

__all__ = ["STRATEGIES", "CapturedModel", "ExportRequest", "capture_model"]

STRATEGIES = ("export", "torch.export", "trace", "auto")


@dataclass(frozen=True)
class ExportRequest:
    """The arguments of an export: what to capture, how to plan it, and what to build.

    Attributes:
        model: The model.
        args: Positional example inputs.
        kwargs: Keyword example inputs.
        dynamic_shapes: Which dimensions may vary.
        registry: The translations and symbolic functions.
        target: What the model is fitted to.
        opset_version: The requested opset; None where the user gave none.
        allow: The allowed routes.
        routes: Operators pinned to a route.
        input_names: Names for the inputs.
        output_names: Names for the outputs.
        custom_opsets: The versions of domains other than ONNX's own.
        limits: How many captures a model that decides by data may take.
        strict: Whether relations between dimensions that dynamic_shapes does not state are an error.
    """

    model: Any
    args: Any
    kwargs: Mapping[str, Any] | None
    dynamic_shapes: Any
    registry: Registry
    target: Target
    opset_version: int | None
    allow: Sequence[str]
    routes: Mapping[str, str]
    input_names: Sequence[str] | None = None
    output_names: Sequence[str] | None = None
    custom_opsets: Mapping[str, int] = field(default_factory=dict)
    limits: CaptureLimits = field(default_factory=CaptureLimits)
    strict: bool = False


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


def capture_model(strategy: str, request: ExportRequest) -> CapturedModel:
    """Captures a model.

    Raises:
        CaptureError: The model cannot be captured.
        UsageError: An unknown strategy, or arguments that cannot be used.
    """
    if strategy not in STRATEGIES:
        raise UsageError(f"capture={strategy!r} is not known; use 'export', 'torch.export', 'trace' or 'auto'.")
    if strategy == "trace":
        return _capture_by_trace(request)
    try:
        return _capture_by_export(request, strategy)
    except CaptureError as error:
        if strategy != "auto":
            raise
        first = error
    try:
        return _capture_by_trace(request, f"captured by a trace, because capture='export' failed: {_as_clause(first)}")
    except CaptureError as error:
        raise CaptureError(f"{first} The trace, which capture='auto' tried next, failed too: {error}") from error


@dataclass
class _ExportedModel:
    request: ExportRequest
    capture: Capture
    target: Target

    def __post_init__(self) -> None:
        newer = self.target if self.request.opset_version is not None else self.target.for_bfloat16()
        if newer != self.target and torch.bfloat16 in precisions(self.capture.graph).values():
            self.target = newer

    def describe(self) -> str:
        count = sum(each.is_in_file for each in self.capture.decisions)
        decisions = f", {counted(count, 'condition')}" if count else ""
        return f"{self.capture.strategy}, {counted(len(self.capture.graph.graph.nodes), 'node')}{decisions}"

    def plan(self) -> Plan:
        request = self.request
        return make_plan(
            self.capture,
            request.registry,
            opset=self.target.opset,
            allow=request.allow,
            routes=request.routes,
            target=self.target.name,
        )

    def build(self, plan: Plan) -> tuple[ir.Model, Plan]:
        built, found = self._build(plan)
        if not found.ok and self.target != self.request.target:  # the runtime lacks kernels at the newer opset
            self.target = self.request.target
            return self._build(self.plan())
        return built, found

    def _build(self, plan: Plan) -> tuple[ir.Model, Plan]:
        request = self.request
        return translate_with_reroutes(
            self.capture,
            plan,
            functools.partial(fit, target=self.target, custom_opsets=request.custom_opsets),
            input_names=request.input_names,
            output_names=request.output_names,
            custom_opsets=request.custom_opsets,
        )


@dataclass
class _TracedModel:
    request: ExportRequest
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
        plan, problems = fit(self.traced.model, plan, target=self.target, custom_opsets=self.request.custom_opsets)
        return self.traced.model, with_problems(plan, problems)


def _capture_by_export(request: ExportRequest, strategy: str) -> CapturedModel:
    found = request.registry.find(PYTHON_OPERATOR, request.target.opset)
    captured = capture(
        request.model,
        request.args,
        request.kwargs,
        dynamic_shapes=request.dynamic_shapes,
        opset=request.target.opset,
        handler=found.function if found is not None else None,
        thorough=strategy != "auto",
        by_torch_export=strategy == "torch.export",
        limits=request.limits,
        strict=request.strict,
    )
    return _ExportedModel(request, captured, request.target)


def _capture_by_trace(request: ExportRequest, note: str = "") -> CapturedModel:
    from opbridge import trace
    from opbridge.base.torch_private import torchscript_export

    target, notes = request.target, [note] if note else []
    newest = torchscript_export.newest_opset()
    if request.opset_version is None and target.opset > newest:
        notes.append(
            f"built for opset {newest}, the newest that PyTorch's TorchScript exporter supports, instead of opset "
            f"{target.opset}"
        )
        target = target.at(newest)
    traced = trace.trace(
        request.model,
        request.args,
        request.kwargs,
        dynamic_shapes=request.dynamic_shapes,
        registry=request.registry,
        opset=target.opset,
        target=target.name,
        allow=request.allow,
        routes=request.routes,
        input_names=request.input_names,
        output_names=request.output_names,
        custom_opsets=request.custom_opsets,
        notes=notes,
    )
    return _TracedModel(request, traced, target)


def _as_clause(error: CaptureError) -> str:
    """The message of an error as a clause of a note."""
    return str(error).removeprefix("The model cannot be captured: ").partition("\n")[0].rstrip(". ")
