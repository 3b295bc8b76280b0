"""Writes in place that an ONNX file does not hold, in words."""

from __future__ import annotations

from torch.fx import Node

from opbridge.errors import CaptureError
from opbridge.graph.node_sources import sources_of

__all__ = ["write_to_view"]


def write_to_view(operator: str, node: Node) -> CaptureError:
    """The error of an operator that writes in place to a view of a tensor.

    Args:
        operator: The operator's name.
        node: The node of the call, which tells the model's line.
    """
    return CaptureError(
        f"The operator {operator} writes, at {next(iter(sources_of(node)), node.name)}, in place to a view of a tensor "
        "that is read after it, which is not supported in ONNX. Give it a tensor of its own, and copy that to the "
        "view: part = x[0].clone(); write(part); x[0] = part."
    )
