"""For every operator of a capture: its route, or why it has none and what would give it one."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx import GraphModule, Node

from opbridge import _torch, control_flow
from opbridge.decompose import decompose
from opbridge.errors import UsageError
from opbridge.functionalize import (
    Dataflow,
    functional_name,
    functionalize,
    lifted_tensors,
    written_placeholders,
)
from opbridge.promotion import computation_dtype
from opbridge.registry import Registry, Translation
from opbridge.signature import mismatch
from opbridge.sources import Source, innermost

__all__ = ["ALLOWED_BY_DEFAULT", "ROUTES", "Plan", "PlanRow", "Step", "make_plan"]

ROUTES = ("standard", "function", "kernel", "aten", "fallthrough")
ALLOWED_BY_DEFAULT = ("standard", "function", "kernel")

# What a capture holds for torch's own sake; nothing of it is left in an ONNX model.
_NOT_OPERATORS = frozenset(
    {
        "aten::_assert_async.msg",
        "aten::_assert_async",
        "aten::_assert_scalar",
        "aten::_assert_tensor_metadata",
        "aten::sym_constrain_range",
        "aten::sym_constrain_range_for_size",
        "_operator::getitem",
    }
)


_UNKNOWN_HIGHER_ORDER = "opbridge has no way to build this higher-order operator."


@dataclass(frozen=True)
class Step:
    """What becomes of one node.

    Attributes:
        route: One of ROUTES, or None where there is none.
        translation: The function that builds its nodes.
        graph: The operators that take its place, where it is decomposed.
        evaluated: Whether its value is computed at export.
        reason: Why there is no route.
        remedy: What would give it one; None: a translation would.
    """

    route: str | None
    translation: Translation | None = None
    graph: GraphModule | None = None
    evaluated: bool = False
    reason: str = ""
    remedy: str | None = None


@dataclass
class PlanRow:
    """One operator of the model.

    Attributes:
        operator: Its name.
        count: How many nodes of the capture call it.
        route: The route that it takes, None where it has none.
        how: What the route consists of: whose translation, or which operators it is decomposed into.
        sources: The model's lines that it comes from, without repeats, in order.
        reason: Why it has no route.
        remedy: What would give it one.
        schema: Its arguments, as torch declares them.
    """

    operator: str
    count: int
    route: str | None
    how: str
    sources: tuple[Source, ...]
    reason: str = ""
    remedy: str = ""
    schema: str = ""

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        data = dataclasses.asdict(self)
        data["sources"] = [str(source) for source in self.sources]
        return data


@dataclass
class Plan:
    """The routes of a whole model.

    Attributes:
        rows: Every operator, in the order in which the model first calls it.
        opset: The opset that it is planned for.
        target: The runtime that it is planned for.
        notes: What a person should know about the capture.
    """

    rows: list[PlanRow]
    opset: int
    target: str = "onnxruntime"
    notes: tuple[str, ...] = ()
    steps: dict[Node, Step] = field(default_factory=dict, repr=False)
    program: Any = field(default=None, repr=False)
    flow: Dataflow | None = field(default=None, repr=False)

    @property
    def missing(self) -> list[PlanRow]:
        """The operators without a route."""
        return [row for row in self.rows if row.route is None]

    @property
    def ok(self) -> bool:
        """Whether every operator has a route."""
        return not self.missing

    def with_failures(self, failures: Mapping[Node, str]) -> Plan:
        """This plan, in which operators whose translation failed have no route.

        Args:
            failures: The nodes whose translation raised, with the reason.
        """
        if not failures:
            return self
        lost: dict[str, list[Node]] = {}
        for node in failures:
            lost.setdefault(_torch.operator_name(node.target) or str(node.target), []).append(node)
        rows = []
        for row in self.rows:
            nodes = lost.get(row.operator)
            if nodes and row.route is not None:
                row = dataclasses.replace(
                    row,
                    route=None,
                    reason=failures[nodes[0]],
                    remedy=_remedy(row.operator, row.schema),
                    sources=_sources(nodes),
                )
            rows.append(row)
        return dataclasses.replace(self, rows=rows)

    def with_problems(self, problems: Mapping[str, str]) -> Plan:
        """This plan, in which operators that the target cannot run have no route; `problems` says why, by operator."""
        if not problems:
            return self
        rows = [
            dataclasses.replace(row, route=None, reason=problems[row.operator], remedy=_runtime_remedy())
            if row.operator in problems
            else row
            for row in self.rows
        ]
        return dataclasses.replace(self, rows=rows)

    def routes(self) -> dict[str, int]:
        """How many operators take each route; those without one count as "missing"."""
        counted = Counter(row.route or "missing" for row in self.rows)
        return {route: counted[route] for route in (*ROUTES, "missing") if counted[route]}

    def summary(self) -> str:
        """One line: operators, nodes, and operators by route."""
        nodes = sum(row.count for row in self.rows)
        routes = ", ".join(f"{count} {route}" for route, count in self.routes().items())
        return f"{len(self.rows)} operators, {nodes} nodes, opset {self.opset}: {routes or 'nothing to translate'}"

    def describe_missing(self) -> str:
        """The missing operators, each with its line, reason and remedy."""
        rows = self.missing
        lines = [f"{len(rows)} of {len(self.rows)} operators have no route to ONNX at opset {self.opset}:"]
        for row in rows:
            where = f" at {row.sources[0]}" if row.sources else ""
            lines.append(f"  {row.operator} ({row.count}x{where}): {row.reason} {row.remedy}".rstrip())
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "ok": self.ok,
            "opset": self.opset,
            "target": self.target,
            "operators": [row.to_json() for row in self.rows],
            "routes": self.routes(),
            "notes": list(self.notes),
        }

    def __str__(self) -> str:
        width = max([len("operator"), *(len(row.operator) for row in self.rows)])
        lines = [f"{'operator':<{width}}  {'count':>5}  {'route':<11}  source"]
        for row in self.rows:
            source = str(row.sources[0]) if row.sources else ""
            lines.append(f"{row.operator:<{width}}  {row.count:>5}  {row.route or 'MISSING':<11}  {source}".rstrip())
            if row.route is None:
                lines.append(f"{'':<{width}}         {row.reason} {row.remedy}".rstrip())
        return "\n".join([*lines, self.summary(), *(f"note: {note}" for note in self.notes)])


def make_plan(
    capture: Any,
    registry: Registry,
    *,
    opset: int,
    allow: Sequence[str] = ALLOWED_BY_DEFAULT,
    routes: Mapping[str, str] | None = None,
    target: str = "onnxruntime",
) -> Plan:
    """Plans a capture: every operator gets a route or a reason, and nothing raises for a missing one.

    Args:
        capture: What `capture()` returned.
        registry: The translations to plan with.
        opset: The opset to plan for.
        allow: The routes permitted.
        routes: Operators pinned to a route, by name.
        target: The runtime that the model is for.

    Raises:
        UsageError: a route in `allow` or `routes` that does not exist.
    """
    for route in (*allow, *(routes or {}).values()):
        if route not in ROUTES:
            raise UsageError(f"There is no route '{route}'; the routes are {', '.join(ROUTES)}.")
    program, flow = functionalize(capture.exported_program)
    planner = _Planner(registry, opset, tuple(allow), dict(routes or {}))
    lifted = lifted_tensors(program)
    planner.walk(program.graph_module, flow.constant)
    notes = (*capture.notes, *_state_notes(program, lifted, planner.occurrences))
    return Plan(planner.rows(), opset, target, notes, planner.steps, program, flow)


class _Planner:
    def __init__(self, registry: Registry, opset: int, allow: tuple[str, ...], pinned: dict[str, str]) -> None:
        self.registry = registry
        self.opset = opset
        self.allow = allow
        self.pinned = pinned
        self.steps: dict[Node, Step] = {}
        self.occurrences: dict[str, list[Node]] = {}

    def walk(self, module: GraphModule, constant: set[Node]) -> None:
        """Plans the nodes of a graph and of the graphs inside it."""
        for node, operator in _calls(module):
            self.occurrences.setdefault(operator, []).append(node)
            if node in constant:
                self.steps[node] = Step("standard", evaluated=True)
            elif operator.startswith("higher_order::"):
                known = control_flow.is_known(operator)
                self.steps[node] = Step("standard") if known else Step(None, reason=_UNKNOWN_HIGHER_ORDER)
                for inner in control_flow.bodies(node, module):
                    self.walk(inner, set())
            else:
                self.steps[node] = self.step(node, operator)

    def step(self, node: Node, operator: str) -> Step:
        """The best route for one node."""
        pinned = self.pinned.get(operator)
        if pinned is not None and pinned not in ("standard", "function"):
            return Step(None, reason=f"It is pinned to the route '{pinned}', which this release cannot take.")
        found = self.lookup(node, operator)
        if found is not None and (found.route in self.allow and pinned in (None, found.route)):
            wrong = mismatch(found.function, getattr(node.target, "_schema", None)) if found.origin == "user" else None
            return Step(None, reason=wrong, remedy="") if wrong else Step(found.route, translation=found)
        if found is not None:
            return Step(None, reason=f"Its translation takes the route '{found.route}', which is not allowed.")
        if "standard" in self.allow:
            return self.decomposed(node, operator)
        return Step(None, reason="The route 'standard' is not allowed.")

    def lookup(self, node: Node, operator: str) -> Translation | None:
        """The translation of the operator, or of its functional form where it writes in place."""
        is_complex = has_complex(node)
        found = self.registry.find(operator, self.opset, complex=is_complex)
        functional = functional_name(operator)
        if found is None and functional is not None:
            found = self.registry.find(functional, self.opset, complex=is_complex)
        return found

    def decomposed(self, node: Node, operator: str) -> Step:
        """The operators that take the place of one that has no translation."""
        graph = decompose(node, self._is_translated)
        if graph is None:
            said = self.registry.near_misses(operator, self.opset, complex=has_complex(node))
            near = f" Near: {'; '.join(said)}." if said else ""
            return Step(None, reason=f"No translation, and torch has no decomposition of it.{near}")
        missing = []
        for inner, name in _calls(graph):
            step = self.step(inner, name)
            self.steps[inner] = step
            if step.route is None:
                missing.append(name)
        if missing:
            names = ", ".join(dict.fromkeys(missing))
            return Step(None, graph=graph, reason=f"It decomposes into {names}, which has no translation.")
        return Step("standard", graph=graph)

    def _is_translated(self, operator: str) -> bool:
        return self.registry.find(operator, self.opset) is not None

    def rows(self) -> list[PlanRow]:
        """The plan's rows, one for each operator."""
        return [self._row(operator, nodes) for operator, nodes in self.occurrences.items()]

    def _row(self, operator: str, nodes: list[Node]) -> PlanRow:
        steps = [self.steps[node] for node in nodes]
        lost = [(node, step) for node, step in zip(nodes, steps, strict=True) if step.route is None]
        sources = _sources([node for node, _ in lost] or nodes)
        schema = str(getattr(nodes[0].target, "_schema", ""))
        if lost:
            step = lost[0][1]
            remedy = _remedy(operator, schema) if step.remedy is None else step.remedy
            return PlanRow(operator, len(nodes), None, "", sources, step.reason, remedy, schema)
        worst = max((step.route or "" for step in steps), key=ROUTES.index)
        how = "; ".join(dict.fromkeys(_how(step) for step in steps))
        return PlanRow(operator, len(nodes), worst, how, sources, schema=schema)


def _sources(nodes: Sequence[Node]) -> tuple[Source, ...]:
    """The lines that nodes come from, without repeats."""
    return tuple(dict.fromkeys(frames[0] for node in nodes if (frames := innermost(node.meta.get("stack_trace")))))


def has_complex(node: Node) -> bool:
    """Whether a node works on complex tensors: takes some, converts a real one to complex, or makes one of nothing."""
    if any(is_complex(argument) for argument in node.all_input_nodes):
        return True
    if not is_complex(node):
        return False
    converted = computation_dtype(node)
    makes = not any(isinstance(argument.meta.get("val"), torch.Tensor) for argument in node.all_input_nodes)
    return makes or (converted is not None and converted.is_complex)


def is_complex(node: Node) -> bool:
    """Whether a node stands for a complex tensor, or a list that starts with one."""
    value = node.meta.get("val")
    if isinstance(value, (list, tuple)) and value:
        value = value[0]
    return isinstance(value, torch.Tensor) and value.is_complex()


def _how(step: Step) -> str:
    if step.evaluated:
        return "evaluated at export"
    if step.translation is not None:
        return step.translation.describe()
    if step.graph is not None:
        return f"decomposed into {', '.join(_inner_names(step.graph))}"
    return "control flow"


def _inner_names(graph: GraphModule) -> list[str]:
    return list(dict.fromkeys(name for _, name in _calls(graph)))


def _calls(module: GraphModule) -> Iterator[tuple[Node, str]]:
    """The operators that a graph calls, with their names; not what it holds for torch's own sake."""
    for node in module.graph.nodes:
        if node.op == "call_function":
            operator = _torch.operator_name(node.target) or str(node.target)
            if operator not in _NOT_OPERATORS:
                yield node, operator


def _remedy(operator: str, schema: str) -> str:
    if not schema:
        return "Write the model without it, or around it."
    arguments = schema.partition("(")[2].rpartition(" -> ")[0].removesuffix(")")
    return f'Write a translation: @opbridge.translation("{operator}") over a function of ({arguments}).'


def _runtime_remedy() -> str:
    return "Convert the model or this part of it to float32 or int64, or pin the operator to another translation."


def _state_notes(program: Any, lifted: Any, occurrences: Mapping[str, list[Node]]) -> Iterator[str]:
    """What the model does that an ONNX model cannot: it keeps no state between runs."""
    mutated = sorted({*program.graph_signature.buffers_to_mutate.values()})
    for name in written_placeholders(program.graph):
        if name in lifted:
            mutated.append(lifted[name][0])
        else:
            yield f"the model writes to its input '{name}'; the ONNX model leaves its inputs as they are"
    if mutated:
        names = ", ".join(dict.fromkeys(mutated))
        yield f"the model updates {names}; an ONNX model keeps no state between runs, so the updates are left out"
