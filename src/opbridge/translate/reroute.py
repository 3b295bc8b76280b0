"""Translate, and translate again with other routes for what failed.

    translate -> fit -> (another route for the nodes that failed -> translate -> fit)*

A node whose translation fails, or builds what the target cannot run, takes the next route that is allowed, and the
model is built again: rarely more than once, and never more often than there are routes. What has no such route is
missing, and everything missing is reported together. A translation of opbridge's own that fails unexpectedly is a
fault, for which no other route is taken: it would hide the fault.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from opbridge.plan import revise
from opbridge.plan.data import Plan
from opbridge.plan.rows import Problem
from opbridge.translate.graph_names import GraphNames
from opbridge.translate.translator import translate

if TYPE_CHECKING:
    import onnx_ir as ir

    from opbridge.capture import Capture

__all__ = ["Fit", "translate_with_reroutes"]

Fit = Callable[..., tuple[Plan, dict[str, Problem]]]
"""`opbridge.fit.fitting.fit` with its target: (model, plan, complete=) -> the plan, and what the target cannot run."""

_UNNAMED = GraphNames()


def translate_with_reroutes(
    capture: Capture,
    plan: Plan,
    fit: Fit,
    names: GraphNames = _UNNAMED,
    custom_opsets: Mapping[str, int] | None = None,
) -> tuple[ir.Model, Plan]:
    """Builds the model that a plan describes, fitted to its target.

    Args:
        capture: The capture that was planned.
        plan: Its plan; operators without a route are left out of the model.
        fit: Fits what was built, and says what the target cannot run.
        names: Names for the graph's inputs and outputs.
        custom_opsets: The versions of domains other than ONNX's own.

    Returns:
        The model, of use only where the plan is ok, and the plan as it turned out.

    Raises:
        UsageError: names that do not fit.
    """
    while True:
        built = translate(capture, plan, names, custom_opsets)
        fitted, problems = fit(built.model, plan, complete=not (built.failures or built.faults))
        rerouted = revise.rerouted(plan, _reasons(plan, built.failures, problems))
        if rerouted is None:
            plan = revise.with_problems(fitted, problems)
            plan = revise.with_failures(plan, built.failures)
            return built.model, revise.with_faults(plan, built.faults)
        plan = rerouted


def _reasons(plan: Plan, failures: Mapping[Any, str], problems: Mapping[str, Problem]) -> dict[Any, str]:
    """Why each node has no route, after what is known of nodes and of operators."""
    by_operator = {
        node: problem.reason for operator, problem in problems.items() for node in plan.occurrences.get(operator, ())
    }
    planned = {node for nodes in plan.occurrences.values() for node in nodes if plan.steps[node].route is not None}
    return {node: reason for node, reason in {**by_operator, **failures}.items() if node in planned}
