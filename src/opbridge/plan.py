"""For every operator of a capture: its route, or why it has none and what would give it one."""

from __future__ import annotations

import dataclasses
import fnmatch
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx import GraphModule, Node

from opbridge import _torch, control_flow, operator_nodes
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
from opbridge.signature import mismatch, symbolic_mismatch
from opbridge.sources import Source, innermost
from opbridge.symbolics.equivalents import name_in_trace
from opbridge.symbolics.functions import call_of, operator_of

__all__ = ["ALLOWED_BY_DEFAULT", "ROUTES", "Plan", "PlanRow", "Problem", "Step", "make_plan"]

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
        reason: Why there is no route, or why a better one is not taken.
        remedy: What would give it one; None: a translation would.
        settled: Whether the user chose it, or has to: no later route is taken in its place.
    """

    route: str | None
    translation: Translation | None = None
    graph: GraphModule | None = None
    evaluated: bool = False
    reason: str = ""
    remedy: str | None = None
    settled: bool = False


@dataclass(frozen=True)
class Problem:
    """Why the target cannot run what an operator was built as.

    Attributes:
        reason: In a sentence.
        remedy: What to do about it.
        permissions: The routes that the remedy names: they would do, were they allowed.
    """

    reason: str
    remedy: str = "Convert the model or this part of it to another type, or pin it to another translation."
    permissions: tuple[str, ...] = ()


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
        permissions: The routes that would carry it, were they allowed.
    """

    operator: str
    count: int
    route: str | None
    how: str
    sources: tuple[Source, ...]
    reason: str = ""
    remedy: str = ""
    schema: str = ""
    permissions: tuple[str, ...] = ()

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
        kernels: What the model calls that the runtime has no kernel for by itself, as "domain::name"; known after
            translation.
        unverified: Why the model cannot be run here; "" where it can.
    """

    rows: list[PlanRow]
    opset: int
    target: str = "onnxruntime"
    notes: tuple[str, ...] = ()
    kernels: tuple[str, ...] = ()
    unverified: str = ""
    allow: tuple[str, ...] = ALLOWED_BY_DEFAULT
    steps: dict[Node, Step] = field(default_factory=dict, repr=False)
    occurrences: dict[str, list[Node]] = field(default_factory=dict, repr=False)
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
            lost.setdefault(operator_of(node), []).append(node)
        rows = []
        for row in self.rows:
            nodes = lost.get(row.operator)
            if nodes and row.route is not None:
                permissions = () if self.steps[nodes[0]].settled else operator_nodes.permissions(nodes, self.allow)
                translation = self.steps[nodes[0]].translation
                own = translation is not None and translation.form == "symbolic"
                row = dataclasses.replace(
                    row,
                    route=None,
                    reason=failures[nodes[0]],
                    remedy=operator_nodes.permitting(permissions).strip()
                    if own
                    else _remedy(row.operator, row.schema, permissions),
                    sources=_sources(nodes),
                    permissions=permissions,
                )
            rows.append(row)
        return dataclasses.replace(self, rows=rows)

    def with_problems(self, problems: Mapping[str, Problem]) -> Plan:
        """This plan, in which operators that the target cannot run have no route.

        Args:
            problems: By operator.
        """
        if not problems:
            return self
        rows = []
        for row in self.rows:
            if row.operator in problems:
                problem = problems[row.operator]
                nodes = () if self.is_pinned(row.operator) else self.occurrences.get(row.operator, ())
                others = operator_nodes.permissions(nodes, self.allow)
                others = tuple(route for route in others if route not in problem.permissions)
                row = dataclasses.replace(
                    row,
                    route=None,
                    reason=problem.reason,
                    remedy=f"{problem.remedy}{operator_nodes.permitting(others)}",
                    permissions=(*others, *problem.permissions),
                )
            rows.append(row)
        return dataclasses.replace(self, rows=rows)

    def with_kernels(self, called: Mapping[str, Sequence[str]], kernels: tuple[str, ...], unverified: str) -> Plan:
        """This plan, with what is known of kernels once the model is built.

        Args:
            called: The nodes that each operator's translation calls kernels by.
            kernels: Every such node, also of the routes `aten` and `fallthrough`.
            unverified: Why the model cannot be run here.
        """
        rows = []
        for row in self.rows:
            if row.operator in called and row.route in ("standard", "function", "kernel"):
                how = f"{row.how}, as {', '.join(called[row.operator])}"
                row = dataclasses.replace(row, route="kernel", how=how)
            rows.append(row)
        return dataclasses.replace(self, rows=rows, kernels=kernels, unverified=unverified)

    def is_pinned(self, operator: str) -> bool:
        """Whether the user chose the operator's route."""
        return any(self.steps[node].settled for node in self.occurrences.get(operator, ()))

    def rerouted(self, reasons: Mapping[Node, str]) -> Plan | None:
        """This plan, in which nodes that turned out to have no route take the next one that is allowed.

        Args:
            reasons: The nodes, and why their routes failed.

        Returns:
            None where no such route is allowed for any of them.
        """
        steps = dict(self.steps)
        for node, reason in reasons.items():
            step = steps[node]
            route = None if step.settled else operator_nodes.carrying(node, self.allow, after=step.route)
            if route is not None:
                steps[node] = Step(route, reason=reason)
        changed = {operator_of(node) for node in reasons if steps[node] is not self.steps[node]}
        if not changed:
            return None
        rows = [
            _row(row.operator, self.occurrences[row.operator], steps, self.allow) if row.operator in changed else row
            for row in self.rows
        ]
        return dataclasses.replace(self, rows=rows, steps=steps)

    def permissions(self) -> dict[str, tuple[int, int]]:
        """For each route that is not allowed: how many of the missing operators it would carry, and of the nodes."""
        found = {}
        for route in operator_nodes.ROUTES:
            counts = [row.count for row in self.missing if route in row.permissions]
            if counts:
                found[route] = len(counts), sum(counts)
        return found

    def routes(self) -> dict[str, int]:
        """How many operators take each route; those without one count as "missing"."""
        counted = Counter(row.route or "missing" for row in self.rows)
        return {route: counted[route] for route in (*ROUTES, "missing") if counted[route]}

    def summary(self) -> str:
        """One line: operators, nodes, and operators by route."""
        nodes = sum(row.count for row in self.rows)
        routes = ", ".join(f"{count} {route}" for route, count in self.routes().items())
        carried = "".join(f"; {text}" for text in self._carried(nodes))
        said = f"{routes or 'nothing to translate'}{carried}"
        return f"{len(self.rows)} operators, {nodes} nodes, opset {self.opset}: {said}"

    def _carried(self, nodes: int) -> Iterator[str]:
        """What permissions would bring, in words; routes that would carry the same together."""
        by_count: dict[tuple[int, int], list[str]] = {}
        for route, counts in self.permissions().items():
            by_count.setdefault(counts, []).append(route)
        for (operators, calls), routes in by_count.items():
            share = f"{calls} of the model's {nodes} nodes"
            yield f"allowing {' or '.join(routes)} would carry {operators} of the missing across ({share})"

    def describe_missing(self) -> str:
        """The missing operators, each with its line, reason and remedy."""
        rows = self.missing
        lines = [f"{len(rows)} of {len(self.rows)} operators have no route to ONNX at opset {self.opset}:"]
        for row in rows:
            where = f" at {row.sources[0]}" if row.sources else ""
            lines.append(f"  {row.operator} ({row.count}x{where}): {row.reason} {row.remedy}".rstrip())
        lines += [f"{text[0].upper()}{text[1:]}." for text in self._carried(sum(row.count for row in self.rows))]
        return "\n".join(lines)

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
        unverified = [f"not verified: {self.unverified}"] if self.unverified and self.ok else []
        return "\n".join([*lines, self.summary(), *unverified, *(f"note: {note}" for note in self.notes)])


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
        routes: Operators pinned to a route, by name; a name without an overload stands for all of them, and a shell
            pattern ("aten::*") for every operator that it fits and that the route can carry.
        target: The runtime that the model is for.

    Raises:
        UsageError: a route in `allow` or `routes` that does not exist.
    """
    for route in (*allow, *(routes or {}).values()):
        if route not in ROUTES:
            raise UsageError(f"There is no route '{route}'; the routes are {', '.join(ROUTES)}.")
    program, flow = functionalize(capture.exported_program, capture.whole)
    planner = _Planner(registry, opset, tuple(allow), dict(routes or {}), capture.whole)
    lifted = lifted_tensors(program)
    planner.walk(program.graph_module, flow.constant)
    notes = (*capture.notes, *_state_notes(program, lifted, planner.occurrences), *planner.pin_notes())
    return Plan(
        planner.rows(),
        opset,
        target,
        notes,
        allow=tuple(allow),
        steps=planner.steps,
        occurrences=planner.occurrences,
        program=program,
        flow=flow,
    )


class _Planner:
    def __init__(
        self, registry: Registry, opset: int, allow: tuple[str, ...], pinned: dict[str, str], whole: frozenset[str]
    ) -> None:
        self.registry = registry
        self.opset = opset
        self.allow = allow
        self.pinned = pinned
        self.whole = whole
        self.pins_used: set[str] = set()
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

    def step(self, node: Node, operator: str, *, carry: bool = True) -> Step:
        """The best route for one node.

        Args:
            node: The node.
            operator: Its operator.
            carry: Whether the routes that need nothing but the operator itself may be taken where no other is there.
        """
        pinned = self.pin(node, operator)
        if pinned in operator_nodes.ROUTES:
            problem = operator_nodes.obstacle(node, pinned)
            if problem is None:
                return Step(pinned, settled=True)
            reason = f"It is pinned to the route '{pinned}', which cannot carry it. {problem}"
            return Step(None, reason=reason, remedy="Pin it to another route, or to none.", settled=True)
        step = self.built(node, operator, pinned)
        if step.route is None and not step.settled and carry:
            route = operator_nodes.carrying(node, self.allow)
            return step if route is None else Step(route, reason=step.reason)
        return step

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
            if is_one or route not in operator_nodes.ROUTES or operator_nodes.obstacle(node, route) is None:
                return route
        return None

    def pin_notes(self) -> Iterator[str]:
        """Pins of single operators that the model does not call: most likely misspelt."""
        for name in self.pinned:
            if name not in self.pins_used and not set(name) & set("*?["):
                yield f"routes= pins {name}, which the model does not call"

    def built(self, node: Node, operator: str, pinned: str | None) -> Step:
        """The route by which a node becomes what translations build."""
        found = self.lookup(node, operator)
        settled = pinned is not None
        if found is not None and (found.route in self.allow and pinned in (None, "kernel", found.route)):
            wrong = _mismatch(found, node) if found.origin == "user" else None
            if wrong:
                return Step(None, reason=wrong, remedy="", settled=True)
            return Step("kernel" if pinned == "kernel" else found.route, translation=found, settled=settled)
        if found is not None:
            reason = f"Its translation takes the route '{found.route}', which is not allowed."
            return Step(None, reason=reason, settled=settled)
        if pinned == "kernel":
            return Step(None, reason="It is pinned to the route 'kernel', and has no translation.", settled=True)
        if "standard" in self.allow:
            step = self.decomposed(node, operator)
            return dataclasses.replace(step, settled=settled)
        return Step(None, reason="The route 'standard' is not allowed.", settled=settled)

    def lookup(self, node: Node, operator: str) -> Translation | None:
        """The translation of the operator, or of its functional form where it writes in place; a function's own."""
        call = call_of(node)
        if call is not None:
            return Translation(operator, call.handler or call.cls.symbolic, 1, "user", form="symbolic")  # type: ignore[attr-defined]
        is_complex = has_complex(node)
        found = self.registry.find(operator, self.opset, complex=is_complex)
        functional = functional_name(operator)
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
            said = self.registry.near_misses(operator, self.opset, complex=has_complex(node))
            near = f" Near: {'; '.join(said)}." if said else ""
            return Step(None, reason=f"No translation, and torch has no decomposition of it.{near}")
        missing = []
        for inner, name in _calls(graph):
            step = self.step(inner, name, carry=False)
            self.steps[inner] = step
            if step.route is None:
                missing.append(name)
        if missing:
            names = ", ".join(dict.fromkeys(missing))
            return Step(None, graph=graph, reason=f"It decomposes into {names}, which has no translation.")
        routes = (self.steps[inner].route or "standard" for inner, _ in _calls(graph))
        return Step(max(("standard", *routes), key=ROUTES.index), graph=graph)

    def _is_translated(self, operator: str) -> bool:
        return self.registry.find(operator, self.opset) is not None

    def rows(self) -> list[PlanRow]:
        """The plan's rows, one for each operator."""
        return [_row(operator, nodes, self.steps, self.allow) for operator, nodes in self.occurrences.items()]


def _row(operator: str, nodes: list[Node], steps: Mapping[Node, Step], allow: tuple[str, ...]) -> PlanRow:
    """What a plan says of one operator."""
    taken = [steps[node] for node in nodes]
    lost = [node for node in nodes if steps[node].route is None]
    sources = _sources(lost or nodes)
    schema = str(getattr(nodes[0].target, "_schema", ""))
    if lost:
        step = steps[lost[0]]
        permissions = () if any(steps[node].settled for node in lost) else operator_nodes.permissions(lost, allow)
        remedy = _remedy(operator, schema, permissions) if step.remedy is None else step.remedy
        return PlanRow(operator, len(nodes), None, "", sources, step.reason, remedy, schema, permissions)
    worst = max((step.route or "" for step in taken), key=ROUTES.index)
    how = "; ".join(dict.fromkeys(_how(step) for step in taken))
    return PlanRow(operator, len(nodes), worst, how, sources, schema=schema)


def _mismatch(entry: Translation, node: Node) -> str | None:
    """What is wrong with the parameters of a user's translation, or None."""
    if call_of(node) is not None:
        return None  # what a class's own `symbolic` takes is its forward's business
    if entry.form != "symbolic":
        return mismatch(entry.function, getattr(node.target, "_schema", None))
    renamed = _torch.operator_object(entry.operator) if entry.operator == name_in_trace(operator_of(node)) else None
    return symbolic_mismatch(entry.function, getattr(renamed or node.target, "_schema", None))


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
    if step.route in operator_nodes.ROUTES:
        what = "handed to libtorch" if step.route == "aten" else "a node of its own"
        return f"{what}, as it is pinned to that" if step.settled else f"{what}: {step.reason}"
    return "control flow"


def _inner_names(graph: GraphModule) -> list[str]:
    return list(dict.fromkeys(name for _, name in _calls(graph)))


def _calls(module: GraphModule) -> Iterator[tuple[Node, str]]:
    """The operators that a graph calls, with their names; not what it holds for torch's own sake."""
    idle: set[Node] = set()  # assertions, and what only they read
    for node in reversed(module.graph.nodes):
        if node.op != "call_function":
            continue
        asserts = operator_of(node).partition("::")[2].startswith(("_assert", "sym_constrain"))
        is_number = isinstance(node.meta.get("val"), (torch.SymInt, torch.SymFloat, torch.SymBool, bool, int, float))
        if asserts or (is_number and node.users and idle.issuperset(node.users)):
            idle.add(node)
    for node in module.graph.nodes:
        if node.op == "call_function" and node not in idle:
            operator = operator_of(node)
            if operator not in _NOT_OPERATORS:
                yield node, operator


def _remedy(operator: str, schema: str, permissions: Sequence[str]) -> str:
    if operator.startswith("python::"):
        return ""  # the reason says what to do
    if not schema:
        return "Write the model without it, or around it."
    arguments = schema.partition("(")[2].rpartition(" -> ")[0].removesuffix(")")
    said = f'Write a translation: @opbridge.translation("{operator}") over a function of ({arguments}).'
    return f"{said}{operator_nodes.permitting(permissions)}"


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
