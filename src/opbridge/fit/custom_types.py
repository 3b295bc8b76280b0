"""A correction for ONNX Runtime, which computes nodes of other domains in float32 where the model has float16.

On the CPU it casts around nodes of float16 that have no kernel for it, and then (1.32) also around a node that has one,
where all of its inputs of float16 come from such nodes: it takes for granted that every kernel exists for float32. A
kernel of the user's may not, and a node that PyTorch runs declares its types. Two Casts before an input, to float32 and
back, keep it as it is; ONNX Runtime drops the two afterwards.
"""

from __future__ import annotations

import onnx_ir as ir

__all__ = ["keep_types"]

_RUNTIME = ("", "ai.onnx", "ai.onnx.ml", "com.microsoft")
_HALF = ir.DataType.FLOAT16


def keep_types(model: ir.Model) -> None:
    """Puts two Casts before an input of each node that ONNX Runtime would compute in float32, in place.

    Args:
        model: The model. The types of its values are known.
    """
    for graph in [model.graph, *model.graph.subgraphs()]:
        for node in list(graph):
            if node.domain in _RUNTIME or node.op_identifier() in model.functions:
                continue
            halves = [(at, value) for at, value in enumerate(node.inputs) if value is not None and value.dtype == _HALF]
            if halves and all(_is_computed_in(graph, value) for _, value in halves):
                _cast_twice(graph, node, *halves[0])


def _is_computed_in(graph: ir.Graph, value: ir.Value) -> bool:
    producer = value.producer()
    return producer is not None and producer.graph is graph


def _cast_twice(graph: ir.Graph, node: ir.Node, at: int, value: ir.Value) -> None:
    given = value
    for dtype in (ir.DataType.FLOAT, _HALF):
        cast = ir.node("Cast", [given], {"to": int(dtype)})
        given = cast.outputs[0]
        cast.name = given.name = f"{node.outputs[0].name}/kept{at}_{dtype.name.lower()}"
        given.type, given.shape = ir.TensorType(dtype), value.shape
        cast.metadata_props.update({key: text for key, text in node.metadata_props.items() if key != "opbridge.node"})
        graph.insert_before(node, cast)
    node.replace_input_with(at, given)
