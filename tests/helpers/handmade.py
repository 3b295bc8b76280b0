"""ONNX models written by hand, with the metadata that the translator leaves in its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import onnx.parser
import onnx_ir as ir

from opbridge.base.torch_private import torch_operators


def onnx_model(graph: str, capture: Any = None, nodes: Mapping[str, str] | None = None, opset: int = 20) -> ir.Model:
    """A model from ONNX's text form.

    Args:
        graph: "(float[2, 3] x) => (float[2, 3] y) { y = Relu(x) }".
        capture: The capture that it stands for.
        nodes: The node of the captured graph, "split:1", for some of the model's values.
        opset: Its opset.
    """
    model = ir.from_proto(onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["": {opset}]> g {graph}'))
    operators = {}
    if capture is not None:
        nodes_captured = capture.functional.graph.graph.nodes
        operators = {node.name: torch_operators.operator_name(node.target) for node in nodes_captured}
    for node in model.graph:
        node.name = f"node_{node.outputs[0].name}"
        named = [(nodes[str(value.name)], str(value.name)) for value in node.outputs if value.name in (nodes or {})]
        if named:
            node.metadata_props["opbridge.node"] = " ".join(key for key, _ in named)
            node.metadata_props["opbridge.output"] = " ".join(name for _, name in named)
            node.metadata_props["opbridge.operator"] = operators[named[0][0].partition(":")[0]] or ""
            node.metadata_props["opbridge.source"] = "net.py:7"
    return model
