"""A model without the operators that only the user's runtime has, for a comparison where nothing can run them.

The results of such a node become inputs of the model, whose values are drawn at random, and what it reads becomes
outputs, which are compared. So all of the model but these nodes is compared.
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir
from onnx_ir import convenience

from opbridge.onnx import serialize
from opbridge.targets import Target

__all__ = ["cut_out", "has_provided"]


def has_provided(model: ir.Model, targets: Sequence[Target]) -> bool:
    """Whether a model has an operator that a user states that one of the targets has in addition."""
    return any(_is_provided(node, targets) for node in model.graph.all_nodes())


def cut_out(model: ir.Model, targets: Sequence[Target]) -> bytes | None:
    """The content of a model without these operators.

    Args:
        model: The model, which is changed.
        targets: The targets, with what the user states that they have.

    Returns:
        None where one is in a body of another node, or the type of what it reads or gives is not in the file, or the
        model is too large.
    """
    graph = model.graph
    nodes = [node for node in graph.all_nodes() if _is_provided(node, targets)]
    for node in nodes:
        if node.graph is not graph or any(each.type is None for each in (*_read(node), *node.outputs)):
            return None
    for node in nodes:
        for value in _read(node):
            if value not in graph.outputs and value not in graph.inputs:
                graph.outputs.append(value)
        for value in node.outputs:
            while value in graph.outputs:
                graph.outputs.remove(value)
            given = ir.Value(name=value.name, type=value.type, shape=value.shape)
            convenience.replace_all_uses_with(value, given)
            value.name = None
            graph.inputs.append(given)
        graph.remove(node, safe=True)
    content = serialize.serialize(model)
    return serialize.written(content) if content.size() <= serialize.MAX_FILE_BYTES else None


def _is_provided(node: ir.Node, targets: Sequence[Target]) -> bool:
    return any(each.provides(node.domain, node.op_type) for each in targets)


def _read(node: ir.Node) -> list[ir.Value]:
    """What a node reads that the model computes."""
    return [each for each in node.inputs if each is not None and not each.is_initializer()]
