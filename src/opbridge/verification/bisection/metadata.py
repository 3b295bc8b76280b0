"""What a node of a file, or of a captured graph, says of where it comes from."""

from __future__ import annotations

import ast
import contextlib

import onnx
from torch.fx import Node

from opbridge.graph import operators
from opbridge.graph.node_sources import module_path_of, sources_of
from opbridge.verification.bisection.report import Operator

__all__ = ["PYTORCH", "operator_of", "torch_operator"]

PYTORCH = "PyTorch"


def operator_of(side: str, node: onnx.NodeProto) -> Operator:
    """A node of a file as an operator of a side: with what opbridge or torch.onnx wrote of its origin."""
    said = {each.key: each.value for each in node.metadata_props}
    domain = f"{node.domain}::" if node.domain not in ("", "ai.onnx") else ""
    return Operator(
        side,
        f"{domain}{node.op_type}",
        node.name or next(iter(node.output), ""),
        said.get("opbridge.module", "") or _module(said.get("pkg.torch.onnx.name_scopes", "")),
        said.get("opbridge.source", "") or _line(said.get("pkg.torch.onnx.stack_trace", "")),
        said.get("opbridge.operator", ""),
    )


def torch_operator(node: Node, key: str) -> Operator:
    """A node of a captured graph as an operator of PyTorch's side."""
    frames = sources_of(node)
    return Operator(
        PYTORCH, operators.operator_of(node), key, module_path_of(node), str(frames[0]) if frames else "", ""
    )


def _line(stack: str) -> str:
    """The innermost line of a stack trace."""
    lines = [each.strip() for each in stack.splitlines() if each.strip().startswith('File "')]
    if not lines:
        return ""
    file, _, rest = lines[-1].removeprefix('File "').partition('", line ')
    return f"{file}:{rest.partition(',')[0]}"


def _module(scopes: str) -> str:
    """The module of torch.onnx's scopes: "['', 'layer1', 'layer1.0', 'add']"."""
    with contextlib.suppress(ValueError, SyntaxError):
        found = ast.literal_eval(scopes) if scopes else []
        if isinstance(found, list) and len(found) > 1:
            return str(found[-2])
    return ""
