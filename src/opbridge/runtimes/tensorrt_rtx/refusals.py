"""Why TensorRT-RTX refuses a model: its own words, the node that they are about, and the line of the model."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import onnx

__all__ = ["Complaint", "explained", "reason"]

_LONGEST = 600

_OF_THE_DRIVER = "cudaError"
"""What an error contains that only ever follows another one: there is no driver."""

_HEAD = re.compile(
    r"^(?:\S+\.(?:cpp|hpp|h):\d+: |ERROR: |\S+ In function \w+: |"
    r"\[\S+\.(?:cpp|h)::?[^\]]*\] |I\w+::\w+: |Error Code \d+: )+"
)
_PLACE = re.compile(r"\s*\bIn [\w:~<>()]+(?: \w+)* at \S+?:\d+")
_WRAPPED = re.compile(r"^(?:API Usage|Shape|Internal) Error \((?P<said>.*)\)$", re.S)
_COMPILER = re.compile(r"^Myelin \((?:.*?CHECK\(.*?\) failed\. |\[[^\]]*\] )(?P<said>.*?)(?: \(See .*|\.?\))$", re.S)
_QUOTED = re.compile(r'^.* && (?P<said>"[^"]*"(?:\s+"[^"]*")*)$', re.S)
_ASSERTED = re.compile(r"^Assertion failed: .+?(?<!:): (?P<said>.+)$", re.S)
_PLUGIN = re.compile(r"plugin.*not found|load \w+ plugin", re.I)
_TYPE = "to TensorRT data type"
_NEVER = ("false", "")

_NO_TYPES = ("UINT16", "INT16", "STRING", "UINT32", "UINT64", "COMPLEX64", "COMPLEX128", "FLOAT8E4M3FNUZ", "FLOAT8E5M2")
"""Types that it has none for, as far as they were tried."""


@dataclass(frozen=True)
class Complaint:
    """An error of the parser or the builder.

    Attributes:
        said: Its text.
        number: The place of the node in the graph; -1 where it names none.
        node: The node's name.
        operator: The node's operator.
    """

    said: str
    number: int = -1
    node: str = ""
    operator: str = ""


def reason(complaint: Complaint) -> str:
    """What an error says, in one line and without places in TensorRT's code."""
    lines = [each.strip() for each in complaint.said.strip().splitlines()]
    told = [each for each in lines if _OF_THE_DRIVER not in each and not each.startswith("Invalid Node - ")]
    said = _HEAD.sub("", (told or lines or [""])[0]).strip()
    said = _PLACE.sub("", said).strip()
    for pattern in (_WRAPPED, _COMPILER, _QUOTED, _ASSERTED):
        if found := pattern.match(said):
            said = found["said"].strip()
    said = said.replace('"', "") if said.startswith('"') else said
    if complaint.operator and (said in _NEVER or _PLUGIN.search(said)):
        return f"the operator {complaint.operator} is not supported"
    words = " ".join(said.split()).rstrip(" .!") or "it gives no reason"
    return words if len(words) <= _LONGEST else words[: _LONGEST - 3] + "..."


def explained(complaints: Sequence[Complaint], model: str | bytes) -> str:
    """One sentence or more on a refusal: the operator, the line of the model, the node, and what is said.

    Args:
        complaints: The errors, the first of which counts.
        model: The path of the file, or its content.
    """
    if not complaints:
        return "it gives no reason"
    first = complaints[0]
    graph = _graph(model)
    node = _node_of(first, graph)
    if node is None:
        if _TYPE in first.said and (named := _of_unknown_type(graph)):
            return named
        return f"{first.operator}: {reason(first)}" if first.operator else reason(first)
    metadata = {each.key: each.value for each in node.metadata_props}
    source = metadata.get("opbridge.source", "")
    operator = metadata.get("opbridge.operator", "")
    where = f" at {source}" if source else ""
    name = f"ONNX {node.op_type}" + (f" '{node.name}'" if node.name else f" that gives '{node.output[0]}'")
    if operator:
        return f"{operator}{where} ({name}): {reason(first)}"
    return f"{name}{where}: {reason(first)}"


def _of_unknown_type(graph: Any) -> str:
    """The first input of a graph that has a type which there is none for; "" where all have one."""
    if graph is None:
        return ""
    for each in graph.input:
        name = onnx.TensorProto.DataType.Name(each.type.tensor_type.elem_type)
        if name in _NO_TYPES:
            return f"the type of the input '{each.name}', {name.lower()}, is not supported"
    return ""


def _graph(model: str | bytes) -> Any:
    try:
        proto = (
            onnx.ModelProto.FromString(model)
            if isinstance(model, bytes)
            else onnx.load(model, load_external_data=False)
        )
    except Exception:  # a damaged file raises anything, and has no nodes to name
        return None
    return proto.graph


def _node_of(complaint: Complaint, graph: Any) -> Any:
    """The node that an error is about; None where it names none."""
    if graph is None:
        return None
    if complaint.node or complaint.operator:
        nodes = list(graph.node)
        if 0 <= complaint.number < len(nodes):
            found = nodes[complaint.number]
            if found.op_type == complaint.operator and found.name == complaint.node:
                return found
        named = [each for each in _nodes(graph) if complaint.node and each.name == complaint.node]
        return next(iter(named), None)
    return _named_in(complaint.said, graph)


def _named_in(said: str, graph: Any) -> Any:
    """The node whose layer a text names: one of its name, or with more behind it, as a further layer of a node has."""
    words = {each.rstrip(".") for each in re.findall(r"[^\s{}\[\]()'\",|:]+", said)}
    # A node without a name has one of its first output there.
    names = [(each.name or (f"node_of_{each.output[0]}" if each.output else ""), each) for each in _nodes(graph)]
    exact = [node for name, node in names if name in words]
    begun = [(len(name), node) for name, node in names if name and any(each.startswith(f"{name}_") for each in words)]
    return exact[0] if exact else max(begun, key=lambda each: each[0])[1] if begun else None


def _nodes(graph: Any) -> Iterator[Any]:
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            for body in (attribute.g, *attribute.graphs):
                yield from _nodes(body)
