"""A listing of a capture: every operator as the model called it, with its source line. Nothing is translated."""

from __future__ import annotations

import dataclasses
import operator
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch.fx import GraphModule, Node

from opbridge.base.wording import counted
from opbridge.graph.captured_graph import CapturedGraph
from opbridge.graph.node_sources import sources_of
from opbridge.graph.operators import operator_of

if TYPE_CHECKING:
    from opbridge.capture import Capture

__all__ = ["Line", "Raw", "listing"]


@dataclass(frozen=True)
class Line:
    """One node of the captured graph.

    Attributes:
        name: What it is called.
        kind: "input", "weight", "operator", "graph" (the body of a control flow operator) or "output".
        operator: The operator, "aten::triu"; of a weight, its name in the model.
        arguments: The arguments, as Python would write them.
        result: The type of its result: "float32[3, batch]".
        source: The model's line, "net.py:31".
        code: The text of that line.
        depth: The number of subgraphs that it is nested in.
    """

    name: str
    kind: str
    operator: str = ""
    arguments: str = ""
    result: str = ""
    source: str = ""
    code: str = ""
    depth: int = 0

    def text(self) -> str:
        """The node in one line: `triu = aten::triu(mul, 1)`."""
        indent = "  " * self.depth
        if self.kind == "operator":
            return f"{indent}{self.name} = {self.operator}({self.arguments})"
        if self.kind == "output":
            return f"{indent}return {self.arguments}"
        if self.kind == "weight":
            return f"{indent}weight {self.name} = {self.operator}"
        return f"{indent}{self.kind} {self.name}"


@dataclass(frozen=True)
class Raw:
    """A captured graph.

    Attributes:
        lines: Its nodes, in order.
        mode: How it was captured.
        notes: Notes for the user about the capture.
    """

    lines: tuple[Line, ...]
    mode: str
    notes: tuple[str, ...] = ()

    def summary(self) -> str:
        """One line."""
        operators = [line.operator for line in self.lines if line.kind == "operator"]
        found = f"{counted(len(set(operators)), 'operator')}, {counted(len(operators), 'node')}"
        return f"{found}, captured as they are ({self.mode})"

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        nodes = [dataclasses.asdict(line) for line in self.lines]
        return {"ok": True, "mode": self.mode, "nodes": nodes, "notes": list(self.notes)}

    def __str__(self) -> str:
        cells = [(line.text(), line.result, line.source) for line in self.lines]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines = [f"{text:<{widths[0]}}  {result:<{widths[1]}}  {source}".rstrip() for text, result, source in cells]
        return "\n".join([*lines, self.summary(), *(f"note: {note}" for note in self.notes)])


def listing(capture: Capture) -> Raw:
    """The nodes of a capture, in order.

    Args:
        capture: What `opbridge.capture.capture` returned.
    """
    dims = _Dims(capture.dim_names)
    lines = (*_interface(capture.graph, dims), *_lines(capture.graph.module, dims, 0))
    return Raw(lines, capture.mode, capture.notes)


class _Dims:
    """Formats sizes with the names that they have in the ONNX model."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = names
        self._symbol = re.compile("|".join(rf"\b{re.escape(name)}\b" for name in names) or r"(?!)")

    def __call__(self, size: Any) -> str:
        return self._symbol.sub(lambda found: self._names[found[0]], str(size))


def _interface(graph: CapturedGraph, dims: _Dims) -> Iterator[Line]:
    """The weights and the inputs, constants among them."""
    for node, weight in graph.weights.items():
        yield Line(node.name, "weight", weight.name, result=_result(node.meta.get("val"), dims))
    for leaf in graph.inputs:
        value = leaf.value if leaf.node is None else leaf.node.meta.get("val")
        yield Line(leaf.name, "input", result=_result(value, dims))


def _lines(module: GraphModule, dims: _Dims, depth: int) -> Iterator[Line]:
    """The nodes of a graph; of a subgraph, the inputs too."""
    for node in module.graph.nodes:
        result = _result(node.meta.get("val"), dims)
        if node.op == "placeholder" and depth:
            yield Line(node.name, "input", result=result, depth=depth)
        elif node.op == "get_attr":
            body = operator.attrgetter(str(node.target))(module)
            if isinstance(body, GraphModule):
                yield Line(node.name, "graph", depth=depth)
                yield from _lines(body, dims, depth + 1)
            else:
                yield Line(node.name, "weight", str(node.target), result=result or _result(body, dims), depth=depth)
        elif node.op == "call_function":
            frames = sources_of(node)
            source, code = (str(frames[0]), frames[0].code) if frames else ("", "")
            yield Line(node.name, "operator", operator_of(node), _arguments(node), result, source, code, depth)
        elif node.op == "output":
            yield Line(node.name, "output", arguments=_written(node.args[0]), depth=depth)


def _arguments(node: Node) -> str:
    named = [f"{name}={_written(value)}" for name, value in node.kwargs.items()]
    return ", ".join([*map(_written, node.args), *named])


def _written(value: Any) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(map(_written, value))}{',' * (len(value) == 1)})"
    if isinstance(value, list):
        return f"[{', '.join(map(_written, value))}]"
    if isinstance(value, Node):
        return value.name
    if isinstance(value, (torch.dtype, torch.layout, torch.memory_format)):
        return str(value).removeprefix("torch.")
    return repr(str(value) if isinstance(value, torch.device) else value)


def _result(value: Any, dims: _Dims) -> str:
    if isinstance(value, (list, tuple)):
        return f"({', '.join(_result(item, dims) for item in value)})"
    if isinstance(value, torch.Tensor):
        return f"{str(value.dtype).removeprefix('torch.')}[{', '.join(map(dims, value.shape))}]"
    numbers = {torch.SymInt: "int", torch.SymFloat: "float", torch.SymBool: "bool"}
    kind = numbers.get(type(value))
    return f"{kind} {dims(value)}" if kind else "" if value is None else type(value).__name__
