"""The plan of a whole model: data alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from torch.fx import Node

from opbridge.base.routes import ALLOWED_BY_DEFAULT
from opbridge.graph.decisions import Decision
from opbridge.graph.tried_strategies import Tried
from opbridge.plan.faults import Fault
from opbridge.plan.report import PlanReport
from opbridge.plan.rows import PlanRow, Step

__all__ = ["Plan"]


@dataclass
class Plan(PlanReport):
    """The routes of a whole model.

    Attributes:
        rows: Every operator, in the order in which the model first calls it.
        opset: The opset that it is planned for.
        target: The runtime that it is planned for.
        notes: What a person should know about the capture.
        kernels: What the model calls that the runtime has no kernel for by itself, as "domain::name"; known after
            translation.
        unverified: Why the model cannot be run here; "" where it can.
        faults: Translations of opbridge's own that failed unexpectedly; known after translation.
        allow: The routes permitted.
        steps: What becomes of each node of the captured graph, and of the graphs inside it.
        occurrences: The nodes that call each operator.
        decisions: The truth values that only data decides, with what the model does for each.
        captures: The strategies that were tried for the capture, in order, and how each ended.
    """

    rows: list[PlanRow]
    opset: int
    target: str = "onnxruntime"
    notes: tuple[str, ...] = ()
    kernels: tuple[str, ...] = ()
    unverified: str = ""
    faults: tuple[Fault, ...] = ()
    allow: tuple[str, ...] = ALLOWED_BY_DEFAULT
    steps: dict[Node, Step] = field(default_factory=dict, repr=False)
    occurrences: dict[str, list[Node]] = field(default_factory=dict, repr=False)
    decisions: tuple[Decision, ...] = ()
    captures: tuple[Tried, ...] = ()

    def is_pinned(self, operator: str) -> bool:
        """Whether the user chose the operator's route."""
        return any(self.steps[node].final for node in self.occurrences.get(operator, ()))

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "ok": self.ok,
            "opset": self.opset,
            "target": self.target,
            "operators": [row.to_json() for row in self.rows],
            "routes": self.routes(),
            "permissions": {
                route: {"operators": operators, "nodes": nodes}
                for route, (operators, nodes) in self.permissions().items()
            },
            "kernels": list(self.kernels),
            "unverified": self.unverified,
            "faults": [fault.to_json() for fault in self.faults],
            "captures": [each.to_json() for each in self.captures],
            "decisions": [each.to_json() for each in self.decisions],
            "notes": list(self.notes),
        }

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        from opbridge.pages.notebook import of_plan

        return of_plan(self.to_json())
