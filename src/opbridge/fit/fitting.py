"""The whole stage: the kernels that a model needs, the form of its weights, the rewrites for its target."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import onnx_ir as ir
from onnx_ir.passes import common as passes

from opbridge.fit import kernels_needed, plugins, quantized_weights, weight_layouts, widening
from opbridge.fit.cancelling_nodes import cancel
from opbridge.fit.folded_norms import fold_norms
from opbridge.fit.fused.fusing import Fusing, fuse
from opbridge.fit.target import Target
from opbridge.plan.data import Plan
from opbridge.plan.rows import Problem

__all__ = ["fit"]


def fit(
    model: ir.Model,
    plan: Plan,
    *,
    target: Target,
    custom_opsets: Mapping[str, int],
    fusing: Fusing | None = None,
    folding: bool = False,
    complete: bool = True,
) -> tuple[Plan, dict[str, Problem]]:
    """Fits a model to its target, in place.

    Args:
        model: The model that was built by the plan.
        plan: The plan.
        target: The runtime that is to run it.
        custom_opsets: The versions of domains other than ONNX's own, whose kernels the user provides.
        fusing: The fused forms that the model may have; None: none.
        folding: Whether batch normalizations are folded into the weights before them.
        complete: Whether every node of the model was built. Of an incomplete model only the kernels are determined.

    Returns:
        The plan with the kernels that the model calls, and a problem for each operator that the target cannot run.
    """
    plan, problems = kernels_needed.assign_kernel_routes(plan, model, target, custom_opsets)
    if complete and plan.ok and not problems:
        weight_layouts.store_as_used(model)
        arranged, cancelled = quantized_weights.arrange(model), cancel(model)
        if arranged or cancelled:
            passes.RemoveUnusedNodesPass()(model)
        folded = fold_norms(model) if folding else ""
        fused = "" if fusing is None else fuse(model, fusing, target.opset)
        widened = widening.widen(model, target)
        problems = {operator: Problem(reason) for operator, reason in widened.problems.items()}
        problems |= plugins.mark(model, target)
        said = (folded, fused, widening.note(widened, target))
        notes = dict.fromkeys((*plan.notes, *filter(None, said)))
        plan = dataclasses.replace(plan, notes=tuple(notes))
    return plan, problems
