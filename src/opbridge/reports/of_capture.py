"""The picture of a capture: every operator that the model calls, with its route and the ONNX nodes that it became."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

import onnx_ir as ir
import torch
from torch.fx import GraphModule, Node

from opbridge.graph.captured_graph import CapturedGraph
from opbridge.graph.control_flow import bodies
from opbridge.graph.node_sources import module_path_of, sources_of
from opbridge.graph.operators import calls_in, operator_of
from opbridge.reports.of_file import NodesByCall
from opbridge.reports.picture import Operator, Picture

__all__ = ["StepOf", "picture_of_capture"]

_MOST_FRAMES = 8
"""How many frames of an operator are kept."""


class StepOf(Protocol):
    """What became of a node of the capture: `opbridge.plan.rows.Step`."""

    @property
    def route(self) -> str | None: ...

    @property
    def evaluated(self) -> bool: ...

    @property
    def reason(self) -> str: ...


def picture_of_capture(
    graph: CapturedGraph,
    steps: Mapping[Node, StepOf],
    built: ir.Model | None,
    model: Any,
    dim_names: Mapping[str, str],
) -> Picture:
    """The picture of a model as it was captured.

    Args:
        graph: The captured graph.
        steps: What became of its nodes.
        built: The ONNX model that was built from it; None where none was.
        model: The user's model, whose modules' classes are shown.
        dim_names: torch's symbols, and what their dimensions are called in the ONNX file.
    """
    picture = Picture()
    if isinstance(model, torch.nn.Module):
        picture.classes({path: type(module).__name__ for path, module in model.named_modules()})
    collected = _Collected(picture, steps, NodesByCall(built, picture) if built is not None else None, dim_names)
    for node, weight in graph.weights.items():
        collected.weights[node] = [weight.name, collected.type_of(node.meta.get("val"))]
    for leaf in graph.inputs:
        if leaf.node is not None:
            value = picture.value(leaf.node, leaf.name, collected.type_of(leaf.node.meta.get("val")))
            picture.inputs.append(value)
    collected.walk(graph.module, -1, "")
    if built is not None:
        collected.find_inner_nodes()
    for leaf in graph.outputs:
        if leaf.node is not None:
            picture.outputs += collected.read(leaf.node)
    return picture


class _Collected:
    """Collects the operators of a graph and of the graphs inside it."""

    def __init__(
        self,
        picture: Picture,
        steps: Mapping[Node, StepOf],
        built: NodesByCall | None,
        dim_names: Mapping[str, str],
    ) -> None:
        self._picture = picture
        self._steps = steps
        self._built = built
        self._names = dim_names
        self._symbol = re.compile("|".join(rf"\b{re.escape(name)}\b" for name in dim_names) or r"(?!)")
        self.weights: dict[Node, list[str]] = {}
        self._same: dict[Node, list[int]] = {}

    def walk(self, module: GraphModule, inside: int, body: str) -> None:
        """Adds the operators of a graph."""
        for node, operator in calls_in(module):
            step = self._steps.get(node)
            found = Operator(node.name, operator, self._picture.module(module_path_of(node)), inside=inside, body=body)
            found.frames = self._picture.code.numbers(sources_of(node)[:_MOST_FRAMES])
            for each in node.all_input_nodes:
                if each in self.weights:
                    found.weights.append(self.weights[each])
                else:
                    found.reads += [value for value in self.read(each) if value not in found.reads]
            found.gives = [self._picture.value(node, node.name, self.type_of(node.meta.get("val")))]
            if self._built is not None and inside < 0:
                found.nodes = self._built.of(node.name)
            if step is not None:
                found.state, found.how = self._state(step, found)
            number = len(self._picture.operators)
            self._picture.operators.append(found)
            for name, graph in zip(_body_names(operator), bodies(node, module), strict=False):
                self._inner(graph, node, number, name)

    def find_inner_nodes(self) -> None:
        """Gives the operators in bodies their ONNX nodes, once all of them are known."""
        assert self._built is not None
        inner = [each for each in self._picture.operators if each.inside >= 0]
        left = Counter(map(self._origin, inner))
        for each in inner:
            origin = self._origin(each)
            each.nodes = self._built.inside(*origin, left[origin])
            left[origin] -= 1

    def _origin(self, of: Operator) -> tuple[str, str, str]:
        frames = self._picture.code.frames
        file, line = frames[of.frames[0]][:2] if of.frames else ("", 0)
        return of.operator, self._picture.path(of.module), f"{file}:{line}" if file else ""

    def _inner(self, graph: GraphModule, node: Node, number: int, name: str) -> None:
        """Adds the body of an operator; its inputs are the values that the operator is given."""
        given = list(_operands(node))
        placeholders = [each for each in graph.graph.nodes if each.op == "placeholder"]
        for placeholder, each in zip(placeholders, given[-len(placeholders) :] if placeholders else [], strict=False):
            if each in self.weights:
                self.weights[placeholder] = self.weights[each]
            elif values := self.read(each):
                self._same[placeholder] = values
        self.walk(graph, number, name)
        output = next(each for each in graph.graph.nodes if each.op == "output")
        operator = self._picture.operators[number]
        for each in output.all_input_nodes:
            operator.reads += [value for value in self.read(each) if value not in operator.reads]

    def read(self, node: Node) -> list[int]:
        """The values that a node stands for: those of what it picks its value from, where it only picks."""
        if node in self._same:
            return self._same[node]
        if node.op == "get_attr":
            return []
        if node.op == "call_function" and operator_of(node) == "_operator::getitem":
            return self.read(node.args[0]) if isinstance(node.args[0], Node) else []
        known = self._picture.known(node)
        return [] if known is None else [known]

    def _state(self, step: StepOf, found: Operator) -> tuple[str, str]:
        if step.route is None:
            return "missing", step.reason
        if step.evaluated:
            return "none", "Its value depends on no input: it was computed at export and is a constant of the file."
        if self._built is not None and not found.nodes and found.inside < 0:
            return "none", "It requires no ONNX node: its value is an existing value or a constant."
        return step.route, step.reason

    def type_of(self, value: Any) -> str:
        """The type of a fake value: "float32 [batch, 3]"."""
        if isinstance(value, (list, tuple)):
            return ", ".join(filter(None, map(self.type_of, value)))
        if isinstance(value, torch.Tensor):
            sizes = ", ".join(self._symbol.sub(lambda found: self._names[found[0]], str(size)) for size in value.shape)
            return f"{str(value.dtype).removeprefix('torch.')} [{sizes}]"
        kinds = {torch.SymInt: "int", torch.SymFloat: "float", torch.SymBool: "bool"}
        return kinds.get(type(value), "")


def _body_names(operator: str) -> tuple[str, ...]:
    if operator == "higher_order::cond":
        return ("if true", "if false")
    if operator == "higher_order::while_loop":
        return ("condition", "turn")
    return tuple(f"body {number}" for number in range(1, 9))


def _operands(node: Node) -> Iterator[Node]:
    """The tensors that an operator hands to its bodies, in order."""
    for argument in (*node.args, *node.kwargs.values()):
        if isinstance(argument, (list, tuple)):
            yield from (each for each in argument if isinstance(each, Node))
