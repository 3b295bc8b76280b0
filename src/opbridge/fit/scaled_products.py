"""Keeps ONNX Runtime from rounding a factor of a double matrix product to float32.

ONNX Runtime (1.31.1) replaces MatMul and a multiplication or division by one number, before it or after it, by its own
FusedMatMul, whose factor is a float32 attribute. It looks for tensors of one element only:

    1. A double factor that is exact in float32, and whose inverse is where it divides, stays as it is.
    2. Any other one becomes a vector as long as the last dimension of the other operand, expanded when the model runs
       where that is not known.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

__all__ = ["keep_exact"]

_TRANSPARENT = ("Transpose", "Cast")


def keep_exact(model: ir.Model) -> None:
    """Rewrites the factors of double matrix products, in place."""
    for graph in [model.graph, *model.graph.subgraphs()]:
        for node in list(graph):
            if node.op_type in ("Mul", "Div") and node.domain == "" and node.outputs[0].dtype == ir.DataType.DOUBLE:
                _rewrite(graph, node)


def _rewrite(graph: ir.Graph, node: ir.Node) -> None:
    for position in (1,) if node.op_type == "Div" else (1, 0):
        factor, other = node.inputs[position], node.inputs[1 - position]
        constant = ir.convenience.get_const_tensor(factor) if factor is not None else None
        if constant is None or constant.size != 1 or other is None or not (_is_product(other) or _feeds_product(node)):
            continue
        number = float(constant.numpy().reshape(()))
        if _is_exact(number) and (node.op_type == "Mul" or _is_exact(1.0 / number if number else 0.0)):
            return
        length = other.shape[-1] if other.shape is not None and len(other.shape) > 0 else None
        name = f"{node.name}/factor"
        if isinstance(length, int):
            vector = ir.node("Constant", [], {"value": ir.tensor(np.full(length, number))}, name=name)
            added = [vector]
        else:
            size = ir.node("Shape", [other], {"start": -1}, name=f"{name}_size")
            size.outputs[0].name, size.outputs[0].dtype = f"{name}_size", ir.DataType.INT64
            added = [size, ir.node("Expand", [factor, size.outputs[0]], name=name)]
        made = added[-1].outputs[0]
        made.name, made.dtype, made.shape = name, ir.DataType.DOUBLE, ir.Shape([length])
        for each in added:
            each.metadata_props.update(
                {key: text for key, text in node.metadata_props.items() if key != "opbridge.node"}
            )
        graph.insert_before(node, added)
        node.replace_input_with(position, made)
        return


def _is_exact(number: float) -> bool:
    with np.errstate(over="ignore"):
        return float(np.float32(number)) == number or number != number


def _is_product(value: ir.Value) -> bool:
    """Whether a value is a matrix product, perhaps transposed."""
    producer = value.producer()
    while producer is not None and producer.op_type in _TRANSPARENT:
        before = producer.inputs[0]
        producer = before.producer() if before is not None else None
    return producer is not None and producer.op_type == "MatMul"


def _feeds_product(node: ir.Node) -> bool:
    """Whether a node's result goes into a matrix product, perhaps transposed."""
    readers = list(node.outputs[0].consumers())
    for reader in readers:
        if reader.op_type == "MatMul":
            return True
        if reader.op_type in _TRANSPARENT:
            readers.extend(reader.outputs[0].consumers())
    return False
