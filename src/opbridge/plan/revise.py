"""How a plan changes with what translation finds: failures, faults, kernels, limits of the target."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from torch.fx import Node

from opbridge.graph.operators import operator_of
from opbridge.nodes import operator_nodes
from opbridge.plan.data import Plan
from opbridge.plan.faults import Fault
from opbridge.plan.report import FAULT_REMEDY
from opbridge.plan.rows import PlanRow, Problem, Step, lines_of, remedy_for, row_of
from opbridge.translations.registry import Translation

__all__ = ["rerouted", "with_failures", "with_faults", "with_kernels", "with_problems"]


def with_failures(plan: Plan, failures: Mapping[Node, str]) -> Plan:
    """The plan, in which operators whose translation failed have no route.

    Args:
        plan: The plan.
        failures: The nodes whose translation raised, with the reason.
    """
    if not failures:
        return plan
    lost: dict[str, list[Node]] = {}
    for node in failures:
        lost.setdefault(operator_of(node), []).append(node)
    rows = []
    for row in plan.rows:
        nodes = lost.get(row.operator)
        if nodes and row.route is not None:
            permissions = () if plan.steps[nodes[0]].final else operator_nodes.routes_to_allow(nodes, plan.allow)
            translation = plan.steps[nodes[0]].translation
            row = dataclasses.replace(
                row,
                route=None,
                reason=failures[nodes[0]],
                remedy=_remedy(row, translation, permissions),
                sources=lines_of(nodes),
                permissions=permissions,
            )
        rows.append(row)
    return dataclasses.replace(plan, rows=rows)


def _remedy(row: PlanRow, translation: Translation | None, permissions: tuple[str, ...]) -> str:
    """What to do about a translation that failed: the user's own is corrected, and others are replaced by one."""
    advice = operator_nodes.permission_advice(permissions)
    if translation is not None and translation.form == "symbolic":
        return advice.strip()
    if translation is not None and translation.origin == "user":
        return f"Correct that translation.{advice}"
    return remedy_for(row.operator, row.schema, permissions)


def with_faults(plan: Plan, faults: Mapping[Node, Fault]) -> Plan:
    """The plan, in which operators whose translation is at fault have no route.

    Args:
        plan: The plan.
        faults: The nodes whose translation failed unexpectedly.
    """
    if not faults:
        return plan
    by_operator: dict[str, list[Node]] = {}
    for node, fault in faults.items():
        by_operator.setdefault(fault.operator, []).append(node)
    rows = []
    for row in plan.rows:
        nodes = by_operator.get(row.operator)
        if nodes:
            reason = faults[nodes[0]].reason
            row = dataclasses.replace(
                row, route=None, reason=reason, remedy=FAULT_REMEDY, sources=lines_of(nodes), permissions=()
            )
        rows.append(row)
    found = {(fault.operator, fault.place): fault for fault in faults.values()}
    return dataclasses.replace(plan, rows=rows, faults=tuple(found.values()))


def with_problems(plan: Plan, problems: Mapping[str, Problem]) -> Plan:
    """The plan, in which operators that the target cannot run have no route.

    Args:
        plan: The plan.
        problems: By operator.
    """
    if not problems:
        return plan
    rows = []
    for row in plan.rows:
        if row.operator in problems:
            problem = problems[row.operator]
            nodes = () if plan.is_pinned(row.operator) else plan.occurrences.get(row.operator, ())
            others = operator_nodes.routes_to_allow(nodes, plan.allow)
            others = tuple(route for route in others if route not in problem.permissions)
            row = dataclasses.replace(
                row,
                route=None,
                reason=problem.reason,
                remedy=f"{problem.remedy}{operator_nodes.permission_advice(others)}",
                permissions=(*others, *problem.permissions),
            )
        rows.append(row)
    return dataclasses.replace(plan, rows=rows)


def with_kernels(plan: Plan, called: Mapping[str, Sequence[str]], kernels: tuple[str, ...], unverified: str) -> Plan:
    """The plan, with what is known of kernels once the model is built.

    Args:
        plan: The plan.
        called: The nodes that each operator's translation calls kernels by.
        kernels: Every such node, also of the routes `aten` and `fallthrough`.
        unverified: Why the model cannot be run here.
    """
    rows = []
    for row in plan.rows:
        if row.operator in called and row.route in ("standard", "function", "kernel"):
            how = f"{row.how}, as {', '.join(called[row.operator])}"
            row = dataclasses.replace(row, route="kernel", how=how)
        rows.append(row)
    return dataclasses.replace(plan, rows=rows, kernels=kernels, unverified=unverified)


def rerouted(plan: Plan, reasons: Mapping[Node, str]) -> Plan | None:
    """The plan, in which nodes that turned out to have no route take the next one that is allowed.

    Args:
        plan: The plan.
        reasons: The nodes, and why their routes failed.

    Returns:
        None where no such route is allowed for any of them.
    """
    steps = dict(plan.steps)
    for node, reason in reasons.items():
        step = steps[node]
        route = None if step.final else operator_nodes.first_possible(node, plan.allow, after=step.route)
        if route is not None:
            steps[node] = Step(route, reason=reason)
    changed = {operator_of(node) for node in reasons if steps[node] is not plan.steps[node]}
    if not changed:
        return None
    rows = [
        row_of(row.operator, plan.occurrences[row.operator], steps, plan.allow) if row.operator in changed else row
        for row in plan.rows
    ]
    return dataclasses.replace(plan, rows=rows, steps=steps)
