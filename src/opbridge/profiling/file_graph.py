"""The nodes of an ONNX file with their modules and source lines, under names that the runtime's profile repeats."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import onnx

from opbridge.errors import ModelFileError
from opbridge.onnx.subgraphs import operator_name
from opbridge.reports.of_file import line_of, module_of

__all__ = ["FileGraph", "FileNode", "RunNode", "core_name", "graph_of", "read", "short_name", "with_own_names"]


@dataclass(frozen=True, slots=True)
class FileNode:
    """A node of the file.

    Attributes:
        name: The name that it has in the run, which no other node has.
        shown: What it is called in the file; its first output, or its operator, where it has no name.
        operator: Its operator: "Conv", "com.microsoft::Gelu".
        module: The path of the module that it comes from; "" for the model itself.
        line: The line of the model's code, "net.py:12"; "" where the file does not say it.
        torch: The PyTorch operator that it comes from, "aten::conv2d"; "" where the file does not say it.
        inputs: The values that it reads, those of the bodies that it holds included.
        outputs: The values that it computes.
        position: Its place among the nodes of its graph.
    """

    name: str
    shown: str
    operator: str
    module: str
    line: str
    torch: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    position: int = 0


@dataclass(frozen=True, slots=True)
class RunNode:
    """A node of the graph that the runtime runs, after its optimisations.

    Attributes:
        name: Its name.
        operator: Its operator.
        inputs: The values that it reads.
        outputs: The values that it computes.
    """

    name: str
    operator: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass
class FileGraph:
    """A graph of the file, or of what the runtime made of it: the model's own, or the body of a node.

    Attributes:
        nodes: Its nodes, in their order.
        constants: The values that are stored in the file.
        bodies: The bodies that its nodes hold, by the name of the node and of its attribute.
    """

    nodes: list[Any] = field(default_factory=list)
    constants: set[str] = field(default_factory=set)
    bodies: dict[tuple[str, str], FileGraph] = field(default_factory=dict)

    def all_nodes(self) -> Iterator[Any]:
        """Its nodes, and those of all bodies in it."""
        yield from self.nodes
        for body in self.bodies.values():
            yield from body.all_nodes()


def core_name(operator: str) -> str:
    """An operator without its domain, and what fusions put before it: "Conv" for "com.microsoft::FusedConv"."""
    return operator.rpartition("::")[2].removeprefix("Fused")


def short_name(operator: str) -> str:
    """An operator without the domains of ONNX Runtime: "FusedMatMul" for "com.microsoft::FusedMatMul"."""
    domain, _, name = operator.rpartition("::")
    return name if domain.startswith("com.microsoft") else operator


def read(model: str | bytes, label: str) -> onnx.ModelProto:
    """The model in a file, without external data.

    Args:
        model: The path of the file, or its content.
        label: Its name in messages.

    Raises:
        ModelFileError: It cannot be read, or has no nodes.
    """
    try:
        is_content = isinstance(model, bytes)
        proto = onnx.ModelProto.FromString(model) if is_content else onnx.load(model, load_external_data=False)
    except Exception as error:  # a damaged file raises anything
        said = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        raise ModelFileError(f"{label} cannot be read as an ONNX model ({said}). Export or copy it again.") from None
    if not proto.graph.node:
        raise ModelFileError(f"{label} has no nodes, so there is nothing to profile. Give a model that computes.")
    return proto


def with_own_names(proto: onnx.ModelProto) -> dict[str, str]:
    """Gives each node without a name, or with that of another one, a name of its own.

    Args:
        proto: The model, which is changed.

    Returns:
        What such nodes are called in the file, by the new name; nothing where the file is left as it is.
    """
    taken: set[str] = set()
    renamed: dict[str, str] = {}
    waiting = []
    functions = [node for each in proto.functions for node in _proto_nodes(each.node)]
    for node in (*_proto_nodes(proto.graph.node), *functions):
        if not node.name or node.name in taken:
            waiting.append(node)
        taken.add(node.name)
    for node in waiting:
        shown = node.name or next(filter(None, node.output), "") or node.op_type
        base, number = shown, 1
        while base in taken:
            number += 1
            base = f"{shown}#{number}"
        taken.add(base)
        renamed[base] = shown
        node.name = base
    return renamed


def graph_of(graph: Any, renamed: Mapping[str, str] | None = None) -> FileGraph:
    """The graph of a model.

    Args:
        graph: The graph, of a file whose nodes have names of their own, or of what the runtime made of it.
        renamed: What nodes are called in the file, by the names that they were given; None: the runtime made it.
    """
    found = FileGraph()
    found.constants.update(each.name for each in graph.initializer)
    found.constants.update(each.values.name for each in graph.sparse_initializer)
    for node in graph.node:
        reads = [each for each in node.input if each]
        for attribute in node.attribute:
            for number, body in enumerate([attribute.g] if attribute.HasField("g") else attribute.graphs):
                made = graph_of(body, renamed)
                found.bodies[node.name, f"{attribute.name}{number or ''}"] = made
                inner = {name for each in made.nodes for name in each.outputs}
                reads += [name for each in made.nodes for name in each.inputs if name not in inner]
        if node.op_type == "Constant" and node.domain in ("", "ai.onnx"):
            found.constants.update(node.output)
            continue
        inputs, outputs = tuple(dict.fromkeys(reads)), tuple(each for each in node.output if each)
        operator = operator_name(node.domain, node.op_type)
        if renamed is None:
            found.nodes.append(RunNode(node.name, operator, inputs, outputs))
            continue
        said = {each.key: each.value for each in node.metadata_props}
        shown = renamed.get(node.name, node.name)
        place = (module_of(shown, said), line_of(said), said.get("opbridge.operator", ""))
        found.nodes.append(FileNode(node.name, shown, operator, *place, inputs, outputs, len(found.nodes)))
    return found


def _proto_nodes(nodes: Any) -> Iterator[Any]:
    for node in nodes:
        yield node
        for attribute in node.attribute:
            for body in (attribute.g, *attribute.graphs):
                yield from _proto_nodes(body.node)
