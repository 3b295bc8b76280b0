"""Finds a route for every operator of a capture: the planner."""

from __future__ import annotations

import dataclasses
import fnmatch
from collections.abc import Iterator
from typing import Any

import torch
from torch.fx import GraphModule, Node

from opbridge.base.routes import ROUTES
from opbridge.base.torch_private import torch_operators
from opbridge.graph import control_flow
from opbridge.graph.decompose import decompose
from opbridge.graph.function_calls import call_of
from opbridge.graph.operators import calls_in, functional_name, operator_of
from opbridge.graph.promotion import computation_dtype
from opbridge.graph.values import is_complex
from opbridge.nodes import operator_nodes
from opbridge.plan.data import Plan
from opbridge.plan.permitted_routes import PermittedRoutes
from opbridge.plan.rows import PlanRow, Step, row_of
from opbridge.symbolics.equivalents import name_in_trace
from opbridge.translations.registry import Registry, Translation
from opbridge.translations.signature import mismatch, symbolic_mismatch

__all__ = ["make_plan"]

_DEFAULT = PermittedRoutes()
_UNKNOWN_HIGHER_ORDER = "This higher-order operator is not supported."


def make_plan(
    capture: Any, registry: Registry, *, opset: int, routes: PermittedRoutes = _DEFAULT, target: str = "onnxruntime"
) -> Plan:
    """Plans a capture: every operator gets a route or a reason, and nothing raises for a missing one.

    Args:
        capture: What `capture()` returned.
        registry: The translations to plan with.
        opset: The opset to plan for.
        routes: The routes that operators may take.
        target: The runtime that the model is for.
    """
    functional = capture.functional
    planner = _Planner(registry, opset, routes, capture.whole)
    planner.walk(functional.graph.module, functional.constant)
    notes = (*capture.notes, *planner.pin_notes(), *planner.ambiguity_notes())
    return Plan(
        planner.rows(),
        opset,
        target,
        notes,
        allow=routes.allow,
        steps=planner.steps,
        occurrences=planner.occurrences,
        decisions=capture.decisions,
        captures=capture.tried,
    )


class _Planner:
    def __init__(self, registry: Registry, opset: int, routes: PermittedRoutes, whole: frozenset[str]) -> None:
        self.registry = registry
        self.opset = opset
        self.allow = routes.allow
        self.pinned = routes.pinned
        self.whole = whole
        self.pins_used: set[str] = set()
        self.steps: dict[Node, Step] = {}
        self.occurrences: dict[str, list[Node]] = {}

    def walk(self, module: GraphModule, constant: set[Node]) -> None:
        """Plans the nodes of a graph and of the graphs inside it."""
        for node, operator in calls_in(module):
            self.occurrences.setdefault(operator, []).append(node)
            if node in constant:
                self.steps[node] = Step("standard", evaluated=True)
            elif operator.startswith("higher_order::"):
                known = operator in control_flow.KNOWN
                self.steps[node] = Step("standard") if known else Step(None, reason=_UNKNOWN_HIGHER_ORDER)
                for inner in control_flow.bodies(node, module):
                    self.walk(inner, set())
            else:
                self.steps[node] = self.step(node, operator)

    def step(self, node: Node, operator: str, *, carry: bool = True) -> Step:
        """The best route for one node.

        Args:
            node: The node.
            operator: Its operator.
            carry: Whether the routes that need nothing but the operator itself may be taken where no other is there.
        """
        pinned = self.pin(node, operator)
        if pinned in operator_nodes.ROUTES:
            problem = operator_nodes.reason_impossible(node, pinned)
            if problem is None:
                return Step(pinned, final=True)
            reason = f"It is pinned to the route '{pinned}', which is not available for it. {problem}"
            return Step(None, reason=reason, remedy="Pin it to another route, or do not pin it.", final=True)
        step = self.built(node, operator, pinned)
        ambiguous = self.ambiguity(step) if carry and not step.final and "aten" in self.allow else ""
        if ambiguous and operator_nodes.reason_impossible(node, "aten") is None:
            return Step("aten", reason=f"{ambiguous}, and libtorch's are PyTorch's.")
        if step.route is None and not step.final and carry:
            route = operator_nodes.first_possible(node, self.allow)
            return step if route is None else Step(route, reason=step.reason)
        return step

    def ambiguity(self, step: Step) -> str:
        """What PyTorch leaves open of the results of what a node becomes; "" where there is nothing."""
        if step.translation is not None:
            return step.translation.ambiguous
        inner = () if step.graph is None else (self.steps[each] for each, _ in calls_in(step.graph))
        return next((said for each in inner if (said := self.ambiguity(each))), "")

    def ambiguity_notes(self) -> Iterator[str]:
        """What is left open of the results of the model's operators."""
        for operator, nodes in self.occurrences.items():
            said = next((said for node in nodes if (said := self.ambiguity(self.steps[node]))), "")
            if said:
                yield f"{operator}: {said[0].lower()}{said[1:]}; allow the route aten to run those of PyTorch"

    def pin(self, node: Node, operator: str) -> str | None:
        """The route that the operator is pinned to: by its name, or by a pattern whose route can carry it."""
        if operator in self.pinned:
            self.pins_used.add(operator)
            return self.pinned[operator]
        for pattern, route in self.pinned.items():
            names = (operator, operator.partition(".")[0])
            if not any(fnmatch.fnmatchcase(name, pattern) for name in names):
                continue
            self.pins_used.add(pattern)
            is_one = not set(pattern) & set("*?[")
            if is_one or route not in operator_nodes.ROUTES or operator_nodes.reason_impossible(node, route) is None:
                return route
        return None

    def pin_notes(self) -> Iterator[str]:
        """Pins of single operators that the model does not call: most likely misspelt."""
        for name in self.pinned:
            if name not in self.pins_used and not set(name) & set("*?["):
                yield f"routes= has an entry for {name}, which the model does not use"

    def built(self, node: Node, operator: str, pinned: str | None) -> Step:
        """The route by which a node becomes what translations build."""
        found = self.lookup(node, operator)
        final = pinned is not None
        if found is not None and (found.route in self.allow and pinned in (None, "kernel", found.route)):
            wrong = _mismatch(found, node) if found.origin == "user" else None
            if wrong:
                return Step(None, reason=wrong, remedy="", final=True)
            return Step("kernel" if pinned == "kernel" else found.route, translation=found, final=final)
        if found is not None:
            reason = f"Its translation uses the route '{found.route}', which is not allowed."
            return Step(None, reason=reason, final=final)
        if pinned == "kernel":
            return Step(None, reason="It is pinned to the route 'kernel' but has no translation.", final=True)
        if "standard" in self.allow:
            step = self.decomposed(node, operator)
            return dataclasses.replace(step, final=final)
        return Step(None, reason="The route 'standard' is not allowed.", final=final)

    def lookup(self, node: Node, operator: str) -> Translation | None:
        """The translation of the operator, or of its functional form where it writes in place; a function's own."""
        call = call_of(node)
        if call is not None:
            return Translation(operator, call.handler or call.cls.symbolic, 1, "user", form="symbolic")
        is_complex = _has_complex(node)
        functional = functional_name(operator)
        found = self.registry.find(operator, self.opset, complex=is_complex, torchlib=functional is None)
        if functional is not None and (found is None or found.origin != "user"):
            other = self.registry.find(functional, self.opset, complex=is_complex)
            if found is None or (other is not None and other.origin == "user"):
                found = other
        traced = name_in_trace(operator)
        if traced is not None and (found is None or found.origin != "user"):
            other = self.registry.find(traced, self.opset, complex=is_complex)
            if other is not None and other.form == "symbolic":
                found = other
        return found

    def decomposed(self, node: Node, operator: str) -> Step:
        """The operators that take the place of one that has no translation."""
        # An operator that was kept whole would read memory that is not there.
        graph = decompose(node, self._is_translated) if operator not in self.whole else None
        if graph is None:
            misses = self.registry.near_misses(operator, self.opset, complex=_has_complex(node))
            near = f" Near: {'; '.join(misses)}." if misses else ""
            return Step(None, reason=f"It has no translation, and PyTorch has no decomposition for it.{near}")
        missing = []
        for inner, name in calls_in(graph):
            step = self.step(inner, name, carry=False)
            self.steps[inner] = step
            if step.route is None:
                missing.append(name)
        if missing:
            names = ", ".join(dict.fromkeys(missing))
            return Step(None, graph=graph, reason=f"It decomposes into {names}, for which there is no translation.")
        routes = (self.steps[inner].route or "standard" for inner, _ in calls_in(graph))
        return Step(max(("standard", *routes), key=ROUTES.index), graph=graph)

    def _is_translated(self, operator: str) -> bool:
        return self.registry.find(operator, self.opset) is not None

    def rows(self) -> list[PlanRow]:
        """The plan's rows, one for each operator."""
        return [row_of(operator, nodes, self.steps, self.allow) for operator, nodes in self.occurrences.items()]


def _mismatch(entry: Translation, node: Node) -> str | None:
    """What is wrong with the parameters of a user's translation, or None."""
    if call_of(node) is not None:
        return None  # what a class's own `symbolic` takes is its forward's business
    if entry.form != "symbolic":
        return mismatch(entry.function, getattr(node.target, "_schema", None))
    renamed = (
        torch_operators.operator_object(entry.operator) if entry.operator == name_in_trace(operator_of(node)) else None
    )
    return symbolic_mismatch(entry.function, getattr(renamed or node.target, "_schema", None))


def _has_complex(node: Node) -> bool:
    """Whether a node works on complex tensors: takes some, converts a real one to complex, or makes one of nothing."""
    if any(is_complex(argument) for argument in node.all_input_nodes):
        return True
    if not is_complex(node):
        return False
    converted = computation_dtype(node)
    makes = not any(isinstance(argument.meta.get("val"), torch.Tensor) for argument in node.all_input_nodes)
    return makes or (converted is not None and converted.is_complex)
