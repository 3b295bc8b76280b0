"""Errors of ONNX Runtime at run time, and the operator of the model that they come from."""

from __future__ import annotations

import re
from dataclasses import dataclass

import onnx_ir as ir

__all__ = ["RuntimeFailure", "label", "locate_failure"]


@dataclass(frozen=True)
class RuntimeFailure:
    """An error of the runtime.

    Attributes:
        message: Its text.
        operator: The PyTorch operator that the failing node was made from; None if it is not known.
        source: The line of the model's source, "net.py:31".
        module: The path of the module that calls the operator.
        onnx_node: The ONNX node that failed: its operator and its name.
    """

    message: str
    operator: str | None = None
    source: str | None = None
    module: str = ""
    onnx_node: str | None = None

    def __str__(self) -> str:
        if self.operator is None and self.onnx_node is None:
            return self.message
        where = f" at {self.source}" if self.source else ""
        place = ", ".join(part for part in (self.module and f"module {self.module}", self.onnx_node or "") if part)
        return f"{self.operator or 'an operator'}{where} ({place}): {self.message}"


def locate_failure(message: str, model: ir.Model | None) -> RuntimeFailure:
    """The error of ONNX Runtime, with the PyTorch operator that the failing node was made from.

    Args:
        message: The text of its error.
        model: The model that was run; None if it could not be read.
    """
    text = " ".join(_NOISE.sub("", message).split())
    named = next((found for pattern in _NODE_NAMES if (found := pattern.search(message))), None)
    groups = named.groupdict() if named else {}
    node = _node_named(model, groups.get("name") or "") if model is not None else None
    if node is None:
        kind = groups.get("kind")
        name = f" '{groups['name']}'" if groups.get("name") else ""
        return RuntimeFailure(text, onnx_node=f"ONNX {kind}{name}" if kind else None)
    metadata = node.metadata_props
    return RuntimeFailure(
        text,
        metadata.get("opbridge.operator"),
        metadata.get("opbridge.source"),
        metadata.get("opbridge.module", ""),
        label(node),
    )


_NOISE = re.compile(r"\[ONNXRuntimeError\] : \d+ : \w+ : |/\S+:\d+ [^\n]*?\)(?: \[with [^\]]*\])? (?=\S)")
_NODE_NAMES = (
    re.compile(r"while running (?P<kind>\S+) node\. Name:'(?P<name>[^']*)'"),
    re.compile(r'In Node, \("(?P<name>[^"]*)", (?P<kind>[^,]+)'),
    re.compile(r"Node:? ?\((?P<name>[^)]+)\) Op \((?P<kind>[^)]+)\)"),
    re.compile(r"in node \((?P<name>[^)]+)\)"),
    re.compile(r"node:? ?(?:with name )?'(?P<name>[^']+)'"),
)


def label(node: ir.Node) -> str:
    """An ONNX node in messages: "ONNX Gelu 'act/gelu'"."""
    domain = f"{node.domain}::" if node.domain else ""
    return f"ONNX {domain}{node.op_type}" + (f" '{node.name}'" if node.name else "")


def _node_named(model: ir.Model, name: str) -> ir.Node | None:
    return next((node for node in model.graph.all_nodes() if node.name == name), None) if name else None
