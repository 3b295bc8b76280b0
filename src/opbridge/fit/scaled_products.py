"""A correction for ONNX Runtime, which rounds a factor of a matrix product in float64 to float32.

ONNX Runtime (1.31.1) fuses MatMul with a multiplication or division by a constant, before or after it, into its own
FusedMatMul, whose factor is a float32 attribute. It fuses constants of one element only:

    1. A float64 factor is not changed if it is exact in float32; a divisor, if its reciprocal is exact too.
    2. Any other factor becomes a vector of the size of the other operand's last dimension. If that is not known, it is
       expanded at run time.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

__all__ = ["keep_exact"]

_FUSED_THROUGH = ("Transpose", "Cast")


def keep_exact(model: ir.Model) -> None:
    """Rewrites the factors of matrix products in float64, in place.

    Args:
        model: The model. The types of its values are known.
    """
    for graph in [model.graph, *model.graph.subgraphs()]:
        for node in list(graph):
            if node.op_type in ("Mul", "Div") and node.domain == "" and node.outputs[0].dtype == ir.DataType.DOUBLE:
                _rewrite(graph, node)


def _rewrite(graph: ir.Graph, node: ir.Node) -> None:
    """Rewrites the factor of one multiplication or division, if it has to be."""
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
    """Whether a number is the same in float32; NaN is."""
    with np.errstate(over="ignore"):
        return float(np.float32(number)) == number or number != number


def _is_product(value: ir.Value) -> bool:
    """Whether a value is the result of a MatMul, possibly transposed or cast."""
    producer = value.producer()
    while producer is not None and producer.op_type in _FUSED_THROUGH:
        before = producer.inputs[0]
        producer = before.producer() if before is not None else None
    return producer is not None and producer.op_type == "MatMul"


def _feeds_product(node: ir.Node) -> bool:
    """Whether a node's result is an input of a MatMul, possibly transposed or cast."""
    readers = list(node.outputs[0].consumers())
    for reader in readers:
        if reader.op_type == "MatMul":
            return True
        if reader.op_type in _FUSED_THROUGH:
            readers.extend(reader.outputs[0].consumers())
    return False
