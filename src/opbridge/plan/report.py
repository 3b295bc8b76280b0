"""What a plan says to a person."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from opbridge.base.routes import ROUTES
from opbridge.base.wording import counted, listed
from opbridge.graph.decisions import Decision, summary_of
from opbridge.graph.tried_strategies import CAPTURED, Tried
from opbridge.nodes import operator_nodes
from opbridge.plan.faults import Fault
from opbridge.plan.rows import PlanRow

__all__ = ["FAULT_REMEDY", "PlanReport"]

_MOST_NAMED = 6

FAULT_REMEDY = (
    "As a workaround, register your own translation (@opbridge.translation), or pin the operator to another route "
    "(routes={name: 'aten'})."
)


class PlanReport:
    """The text of a plan; the base of `opbridge.Plan`, whose attributes these are."""

    rows: list[PlanRow]
    opset: int
    notes: tuple[str, ...]
    unverified: str
    faults: tuple[Fault, ...]
    decisions: tuple[Decision, ...]
    captures: tuple[Tried, ...]

    @property
    def missing(self) -> list[PlanRow]:
        """The operators without a route."""
        return [row for row in self.rows if row.route is None]

    @property
    def ok(self) -> bool:
        """Whether every operator has a route."""
        return not self.missing

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
        counts = Counter(row.route or "missing" for row in self.rows)
        return {route: counts[route] for route in (*ROUTES, "missing") if counts[route]}

    def summary(self) -> str:
        """One line: operators, nodes, and operators by route."""
        nodes = sum(row.count for row in self.rows)
        routes = ", ".join(f"{count} {route}" for route, count in self.routes().items())
        carried = "".join(f"; {text}" for text in self._carried(nodes))
        routes_text = f"{routes or 'nothing to translate'}{carried}"
        return f"{counted(len(self.rows), 'operator')}, {counted(nodes, 'node')}, opset {self.opset}: {routes_text}"

    def _carried(self, nodes: int) -> Iterator[str]:
        """Which operators a route would carry across if it were allowed; routes that carry the same ones together."""
        by_rows: dict[tuple[str, ...], list[str]] = {}
        for route, rows in self._permitted().items():
            by_rows.setdefault(tuple(row.operator for row in rows), []).append(route)
        for operators, routes in by_rows.items():
            calls = sum(row.count for row in self.rows if row.operator in operators)
            of_model = counted(len(self.rows), "operator")
            share = f"{len(operators)} of the model's {of_model}, {calls} of its {counted(nodes, 'node')}"
            names = listed(operators, _MOST_NAMED)
            yield f"allowing {' or '.join(routes)} would add a route for {names} ({share})"

    def decision_lines(self) -> Iterator[str]:
        """The decisions that depend on data: each with its line and its condition, then each of its branches."""
        for each in self.decisions:
            yield f"condition {each.place}: {each.condition}"
            for branch in each.branches:
                yield f"  {branch.answer}: {branch if branch.raises or each.is_in_file else 'what is in the file'}"
        if said := summary_of(self.decisions):
            yield said

    def capture_line(self) -> str:
        """The strategies that gave the capture, and how often the model ran; empty where the first one was enough."""
        took = [each.strategy for each in self.captures if each.result == CAPTURED]
        executions = sum(each.executions for each in self.captures)
        if len(self.captures) < 2 or took == [self.captures[0].strategy]:
            return ""
        return f"captured by: {', then '.join(took)} ({executions} executions of the model)"

    def describe_faults(self) -> str:
        """The translations that failed unexpectedly, each with its operator and place, and what else is missing."""
        count = len(self.faults)
        lines = [f"{count} translation{'s' * (count > 1)} failed unexpectedly, which is a bug of opbridge or torchlib:"]
        for fault in self.faults:
            row = next(row for row in self.rows if row.operator == fault.operator)
            where = f" at {row.sources[0]}" if row.sources else ""
            lines.append(f"  {fault.operator} ({row.count}x{where}): {fault.reason}")
        lines.append(FAULT_REMEDY)
        lines.append("Run it with --debug, or OPBRIDGE_DEBUG=1, for the traceback, and report it.")
        at_fault = {fault.operator for fault in self.faults}
        others = [row for row in self.missing if row.operator not in at_fault]
        return "\n".join([*lines, *([self._missing_text(others)] if others else [])])

    def describe_missing(self) -> str:
        """The missing operators, each with its line, reason and remedy."""
        return self._missing_text(self.missing)

    def _missing_text(self, rows: Sequence[PlanRow]) -> str:
        verb = "has" if len(self.rows) == 1 else "have"
        share = f"{len(rows)} of {counted(len(self.rows), 'operator')}"
        lines = [f"{share} {verb} no route to ONNX at opset {self.opset}:"]
        for row in rows:
            where = f" at {row.sources[0]}" if row.sources else ""
            lines.append(f"  {row.operator} ({row.count}x{where}): {row.reason} {row.remedy}".rstrip())
        lines += [f"{text[0].upper()}{text[1:]}." for text in self._carried(sum(row.count for row in self.rows))]
        return "\n".join(lines)

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
        lines.extend(self.decision_lines())
        unverified = [f"not verified: {self.unverified}"] if self.unverified and self.ok else []
        captured = [line] if (line := self.capture_line()) else []
        return "\n".join([*lines, self.summary(), *captured, *unverified, *(f"note: {note}" for note in self.notes)])
