"""One operator of a plan: the steps of its nodes, and the row that describes it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch.fx import GraphModule, Node

from opbridge.base.routes import ROUTES
from opbridge.base.sources import Source
from opbridge.graph.node_sources import sources_of
from opbridge.graph.operators import calls_in
from opbridge.nodes import operator_nodes
from opbridge.translations.registry import Translation

__all__ = ["PlanRow", "Problem", "Step", "lines_of", "remedy_for", "row_of"]


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
        final: Whether no other route is taken in its place: the user chose it, or the user has to mend it.
    """

    route: str | None
    translation: Translation | None = None
    graph: GraphModule | None = None
    evaluated: bool = False
    reason: str = ""
    remedy: str | None = None
    final: bool = False


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


def row_of(operator: str, nodes: list[Node], steps: Mapping[Node, Step], allow: tuple[str, ...]) -> PlanRow:
    """What a plan says of one operator."""
    taken = [steps[node] for node in nodes]
    lost = [node for node in nodes if steps[node].route is None]
    sources = lines_of(lost or nodes)
    schema = str(getattr(nodes[0].target, "_schema", ""))
    if lost:
        step = steps[lost[0]]
        permissions = () if any(steps[node].final for node in lost) else operator_nodes.routes_to_allow(lost, allow)
        remedy = remedy_for(operator, schema, permissions) if step.remedy is None else step.remedy
        return PlanRow(operator, len(nodes), None, "", sources, step.reason, remedy, schema, permissions)
    worst = max((step.route or "" for step in taken), key=ROUTES.index)
    how = "; ".join(dict.fromkeys(_how(step) for step in taken))
    bare = any(step.route in operator_nodes.ROUTES and not step.final for step in taken)
    remedy = remedy_for(operator, schema, ()) if bare else ""
    return PlanRow(operator, len(nodes), worst, how, sources, remedy=remedy, schema=schema)


def lines_of(nodes: Sequence[Node]) -> tuple[Source, ...]:
    """The lines that nodes come from, without repeats."""
    return tuple(dict.fromkeys(frames[0] for node in nodes if (frames := sources_of(node))))


def _how(step: Step) -> str:
    if step.evaluated:
        return "evaluated at export"
    if step.translation is not None:
        return step.translation.describe()
    if step.graph is not None:
        return f"decomposed into {', '.join(_inner_names(step.graph))}"
    if step.route in operator_nodes.ROUTES:
        what = "run by libtorch" if step.route == "aten" else "one custom node"
        return f"{what}, pinned to this route" if step.final else f"{what}: {step.reason}"
    return "control flow"


def _inner_names(graph: GraphModule) -> list[str]:
    return list(dict.fromkeys(name for _, name in calls_in(graph)))


def remedy_for(operator: str, schema: str, permissions: Sequence[str]) -> str:
    """What would give an operator a route: a translation, or the routes that would carry it were they allowed."""
    if operator.startswith("python::"):
        return ""  # the reason says what to do
    if not schema:
        return "Replace it in the model."
    arguments = schema.partition("(")[2].rpartition(" -> ")[0].removesuffix(")")
    advice = f'Write a translation: @opbridge.translation("{operator}") over a function of ({arguments}).'
    return f"{advice}{operator_nodes.permission_advice(permissions)}"
