"""For every operator of a capture: its route, or why it has none and what would give it one."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch.fx import GraphModule, Node

from opbridge.base.routes import ALLOWED_BY_DEFAULT, ROUTES
from opbridge.base.sources import Source, innermost
from opbridge.base.wording import listed
from opbridge.graph.operators import calls_in, operator_of
from opbridge.nodes import operator_nodes
from opbridge.translations.registry import Translation

__all__ = ["Plan", "PlanRow", "Problem", "Step", "row_of"]

_MOST_NAMED = 6


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
        remedy: What would give it one; where only its bare node is written, what would give it a better one.
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
        allow: The routes permitted.
        steps: What becomes of each node of the captured graph, and of the graphs inside it.
        occurrences: The nodes that call each operator.
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
            row_of(row.operator, self.occurrences[row.operator], steps, self.allow) if row.operator in changed else row
            for row in self.rows
        ]
        return dataclasses.replace(self, rows=rows, steps=steps)

    def permissions(self) -> dict[str, tuple[int, int]]:
        """For each route that is not allowed: how many of the missing operators it would carry, and of the nodes."""
        carried = self._permitted().items()
        return {route: (len(rows), sum(row.count for row in rows)) for route, rows in carried}

    def _permitted(self) -> dict[str, list[PlanRow]]:
        """For each route that is not allowed: the missing operators that it would carry, if there are any."""
        found = {}
        for route in operator_nodes.ROUTES:
            rows = [row for row in self.missing if route in row.permissions]
            if rows:
                found[route] = rows
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
        by_rows: dict[tuple[str, ...], list[str]] = {}
        for route, rows in self._permitted().items():
            by_rows.setdefault(tuple(row.operator for row in rows), []).append(route)
        for operators, routes in by_rows.items():
            calls = sum(row.count for row in self.rows if row.operator in operators)
            share = f"{len(operators)} of the model's {len(self.rows)} operators, {calls} of its {nodes} nodes"
            names = listed(operators, _MOST_NAMED)
            yield f"allowing {' or '.join(routes)} would carry {names} across ({share})"

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
            elif row.remedy:
                lines.append(f"{'':<{width}}         {row.how} For a better route: {row.remedy}")
        unverified = [f"not verified: {self.unverified}"] if self.unverified and self.ok else []
        return "\n".join([*lines, self.summary(), *unverified, *(f"note: {note}" for note in self.notes)])


def row_of(operator: str, nodes: list[Node], steps: Mapping[Node, Step], allow: tuple[str, ...]) -> PlanRow:
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
    bare = any(step.route in operator_nodes.ROUTES and not step.settled for step in taken)
    remedy = _remedy(operator, schema, ()) if bare else ""
    return PlanRow(operator, len(nodes), worst, how, sources, remedy=remedy, schema=schema)


def _sources(nodes: Sequence[Node]) -> tuple[Source, ...]:
    """The lines that nodes come from, without repeats."""
    return tuple(dict.fromkeys(frames[0] for node in nodes if (frames := innermost(node.meta.get("stack_trace")))))


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
    return list(dict.fromkeys(name for _, name in calls_in(graph)))


def _remedy(operator: str, schema: str, permissions: Sequence[str]) -> str:
    if operator.startswith("python::"):
        return ""  # the reason says what to do
    if not schema:
        return "Write the model without it, or around it."
    arguments = schema.partition("(")[2].rpartition(" -> ")[0].removesuffix(")")
    said = f'Write a translation: @opbridge.translation("{operator}") over a function of ({arguments}).'
    return f"{said}{operator_nodes.permitting(permissions)}"
