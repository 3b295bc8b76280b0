"""What a node of a file, or of a captured graph, says of where it comes from."""

from __future__ import annotations

import onnx
from torch.fx import Node

from opbridge.graph import operators
from opbridge.graph.node_sources import module_path_of, sources_of
from opbridge.onnx.subgraphs import operator_name
from opbridge.reports.of_file import line_of, module_of
from opbridge.verification.bisection.report import Operator

__all__ = ["PYTORCH", "operator_of", "torch_operator"]

PYTORCH = "PyTorch"


def operator_of(side: str, node: onnx.NodeProto) -> Operator:
    """A node of a file as an operator of a side: with what opbridge or torch.onnx wrote of its origin."""
    said = {each.key: each.value for each in node.metadata_props}
    return Operator(
        side,
        operator_name(node.domain, node.op_type),
        node.name or next(iter(node.output), ""),
        module_of(node.name, said),
        line_of(said),
        said.get("opbridge.operator", ""),
    )


def torch_operator(node: Node, key: str) -> Operator:
    """A node of a captured graph as an operator of PyTorch's side."""
    frames = sources_of(node)
    return Operator(
        PYTORCH, operators.operator_of(node), key, module_path_of(node), str(frames[0]) if frames else "", ""
    )
