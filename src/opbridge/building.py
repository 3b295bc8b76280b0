"""A plan becomes a model that fits its target, and tells what turned out to be missing on the way.

    translate -> kernels -> fit

A node whose translation fails, or builds what the target cannot run, takes the next route that is allowed; the model is
then built again. What has no such route is missing, and everything missing is told together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from opbridge import fit, kernels_needed
from opbridge.plan import Plan, Problem
from opbridge.translate import translate

if TYPE_CHECKING:
    import onnx_ir as ir

    from opbridge.capture import Capture
    from opbridge.targets import Target

__all__ = ["build", "fitted"]


def build(
    capture: Capture,
    plan: Plan,
    target: Target,
    *,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    custom_opsets: Mapping[str, int] | None = None,
) -> tuple[ir.Model, Plan]:
    """Builds the model that a plan describes.

    Args:
        capture: The capture that was planned.
        plan: Its plan; operators without a route are left out of the model.
        target: What the model is fitted to.
        input_names: Names for the graph's inputs.
        output_names: Names for its outputs.
        custom_opsets: The versions of domains other than ONNX's own; for their kernels the user vouches.

    Returns:
        The model, of use only where the plan is ok, and the plan as it turned out.

    Raises:
        UsageError: names that do not fit.
    """
    names: dict[str, Any] = {"input_names": input_names, "output_names": output_names, "custom_opsets": custom_opsets}
    while True:
        built = translate(capture, plan, **names)
        settled, problems = _settled(built.model, plan, target, custom_opsets or {}, whole=not built.failures)
        again = plan.rerouted(_reasons(plan, built.failures, problems))
        if again is None:
            break
        plan = again
    return built.model, settled.with_problems(problems).with_failures(built.failures)


def fitted(model: ir.Model, plan: Plan, target: Target, custom_opsets: Mapping[str, int]) -> tuple[ir.Model, Plan]:
    """The last steps alone, for a model that is built already and whose nodes have no other route.

    The arguments and what is returned are those of `build`.
    """
    settled, problems = _settled(model, plan, target, custom_opsets, whole=True)
    return model, settled.with_problems(problems)


def _settled(
    model: ir.Model, plan: Plan, target: Target, custom_opsets: Mapping[str, int], *, whole: bool
) -> tuple[Plan, dict[str, Problem]]:
    """The plan with what is known of kernels, and what the target cannot run; a whole model is fitted to it."""
    settled, problems = kernels_needed.settle(plan, model, target, custom_opsets)
    if whole and plan.ok and not problems:
        problems = {operator: Problem(reason) for operator, reason in fit.fit(model, target).items()}
    return settled, problems


def _reasons(plan: Plan, failures: Mapping[Any, str], problems: Mapping[str, Problem]) -> dict[Any, str]:
    """Why each node has no route, after what is known of nodes and of operators."""
    by_operator = {
        node: problem.reason for operator, problem in problems.items() for node in plan.occurrences.get(operator, ())
    }
    planned = {node for nodes in plan.occurrences.values() for node in nodes if plan.steps[node].route is not None}
    return {node: reason for node, reason in {**by_operator, **failures}.items() if node in planned}
