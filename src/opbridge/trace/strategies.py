"""How a model is captured, and what follows from that: the one place that knows of the two ways.

export   torch.export; the graph is planned and translated here
trace    torch's TorchScript exporter, which does all three at once, with our translations in it
auto     export; trace where torch.export cannot capture the model
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from opbridge.capture import Capture, capture
from opbridge.errors import CaptureError, UsageError
from opbridge.fit.fitting import fit
from opbridge.fit.targets import Target
from opbridge.plan.data import Plan
from opbridge.plan.planner import make_plan
from opbridge.plan.revise import with_problems
from opbridge.symbolics.registered import PYTHON_OPERATOR
from opbridge.translate.reroute import translate_with_reroutes
from opbridge.translations.registry import Registry

if TYPE_CHECKING:
    import onnx_ir as ir

    from opbridge.trace.tracer import Traced

__all__ = ["STRATEGIES", "Request", "Taken", "take"]

STRATEGIES = ("export", "trace", "auto")


@dataclass(frozen=True)
class Request:
    """What is asked of a capture, its plan and its model.

    Attributes:
        model: The model.
        args: Positional example inputs.
        kwargs: Keyword example inputs.
        dynamic_shapes: Which dimensions may vary.
        registry: The translations and symbolic functions.
        target: What the model is fitted to.
        opset_version: The opset that was asked for; None: any.
        allow: The routes permitted.
        routes: Operators pinned to a route.
        input_names: Names for the inputs.
        output_names: Names for the outputs.
        custom_opsets: The versions of domains other than ONNX's own.
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


class Taken(Protocol):
    """A model that has been captured.

    Attributes:
        capture: The capture.
        target: What the model is fitted to; its opset is the one that is built for.
    """

    @property
    def capture(self) -> Capture: ...

    @property
    def target(self) -> Target: ...

    def describe(self) -> str:
        """The capture in a few words."""

    def plan(self) -> Plan:
        """Every operator, its route, and what is missing."""

    def build(self, plan: Plan) -> tuple[ir.Model, Plan]:
        """The model, of use only where the plan is ok, and the plan as it turned out."""


def take(strategy: str, request: Request) -> Taken:
    """Captures a model.

    Raises:
        CaptureError: The model cannot be captured.
        UsageError: An unknown strategy, or arguments that cannot be used.
    """
    if strategy not in STRATEGIES:
        raise UsageError(f"capture={strategy!r} is not known; use 'export', 'trace' or 'auto'.")
    if strategy == "trace":
        return _traced(request)
    try:
        return _exported(request, thorough=strategy == "export")
    except CaptureError as error:
        if strategy == "export":
            raise
        first = error
    try:
        return _traced(request, f"captured by a trace, as torch.export cannot capture the model: {_clause(first)}")
    except CaptureError as error:
        raise CaptureError(f"{first} A trace, which capture='auto' tried next, fails too: {error}") from error


@dataclass
class _Exported:
    request: Request
    capture: Capture
    target: Target

    def describe(self) -> str:
        return f"{self.capture.strategy}, {len(self.capture.exported_program.graph.nodes)} nodes"

    def plan(self) -> Plan:
        asked = self.request
        return make_plan(
            self.capture,
            asked.registry,
            opset=self.target.opset,
            allow=asked.allow,
            routes=asked.routes,
            target=self.target.name,
        )

    def build(self, plan: Plan) -> tuple[ir.Model, Plan]:
        asked = self.request
        return translate_with_reroutes(
            self.capture,
            plan,
            functools.partial(fit, target=self.target, custom_opsets=asked.custom_opsets),
            input_names=asked.input_names,
            output_names=asked.output_names,
            custom_opsets=asked.custom_opsets,
        )


@dataclass
class _Traced:
    request: Request
    traced: Traced
    target: Target

    @property
    def capture(self) -> Capture:
        return self.traced.capture

    def describe(self) -> str:
        frozen = sum(note.startswith("frozen by") for note in self.capture.notes)
        return f"trace, {sum(row.count for row in self.traced.plan.rows)} nodes, {frozen} values frozen"

    def plan(self) -> Plan:
        return self.traced.plan

    def build(self, plan: Plan) -> tuple[ir.Model, Plan]:
        # No node of it has another route.
        plan, problems = fit(self.traced.model, plan, target=self.target, custom_opsets=self.request.custom_opsets)
        return self.traced.model, with_problems(plan, problems)


def _exported(asked: Request, *, thorough: bool) -> Taken:
    found = asked.registry.find(PYTHON_OPERATOR, asked.target.opset)
    taken = capture(
        asked.model,
        asked.args,
        asked.kwargs,
        dynamic_shapes=asked.dynamic_shapes,
        opset=asked.target.opset,
        handler=found.function if found is not None else None,
        thorough=thorough,
    )
    return _Exported(asked, taken, asked.target)


def _traced(asked: Request, note: str = "") -> Taken:
    from opbridge import trace
    from opbridge.base.torch_private import torchscript

    target, notes = asked.target, [note] if note else []
    newest = torchscript.newest_opset()
    if asked.opset_version is None and target.opset > newest:
        notes.append(
            f"built for opset {newest}, the newest that torch's TorchScript exporter does, in place of {target.opset}"
        )
        target = dataclasses.replace(target, opset=newest)
    traced = trace.trace(
        asked.model,
        asked.args,
        asked.kwargs,
        dynamic_shapes=asked.dynamic_shapes,
        registry=asked.registry,
        opset=target.opset,
        target=target.name,
        allow=asked.allow,
        routes=asked.routes,
        input_names=asked.input_names,
        output_names=asked.output_names,
        custom_opsets=asked.custom_opsets,
        notes=notes,
    )
    return _Traced(asked, traced, target)


def _clause(error: CaptureError) -> str:
    """An error as a part of a note."""
    return str(error).removeprefix("The model cannot be captured: ").partition("\n")[0].rstrip(". ")
