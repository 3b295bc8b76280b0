"""The file of a model as it is exported, and with what a matcher has fused in it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import onnx_ir as ir

import opbridge

__all__ = ["plain_and_fused"]


def plain_and_fused(
    fuse: Callable[[ir.Graph, int], Counter[str]], model: Any, args: Any, opset: int, dynamic_shapes: Any = None
) -> tuple[bytes, ir.Model, Counter[str]]:
    """Exports a model, and fuses nodes of it as an export for ONNX Runtime does.

    Args:
        fuse: The matcher: gets the graph and the opset, and counts the nodes that it puts.
        model: The model, which is set to eval mode.
        args: Its example inputs.
        opset: The opset of the file.
        dynamic_shapes: Its dynamic dimensions.

    Returns:
        The file before, the model afterwards, and the counts.
    """
    program = opbridge.export(model.eval(), args, dynamic_shapes=dynamic_shapes, opset_version=opset, verify=False)
    plain = program.to_bytes()
    made = fuse(program.model.graph, opset)
    if any(node.domain == "com.microsoft" for node in program.model.graph):
        program.model.graph.opset_imports.setdefault("com.microsoft", 1)
    ir.passes.common.RemoveUnusedNodesPass()(program.model)
    program.model.graph.sort()
    return plain, program.model, made
