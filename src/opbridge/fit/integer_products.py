"""Corrections for ONNX Runtime, which then computes products of quantised tensors with integers.

ONNX Runtime (1.31.1) looks for DequantizeLinear before a node and QuantizeLinear after it. It does not find them, or
writes nodes that it refuses itself, in these places:

    1. It makes Gemm of MatMul and Add. For Gemm without QuantizeLinear behind it, it has no product of integers, and
       where the input is of int8 and of three dimensions, it does not load the model. What is added is subtracted
       negated.
    2. Its kernels on x86 take uint8. It turns int8 into uint8 itself, but not where a quantised tensor is read twice.
       If there is such a tensor, all tensors that are quantised and dequantised as int8 are uint8.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx_ir as ir

__all__ = ["keep_products"]

_T = ir.DataType
_BYTES = frozenset({_T.INT8, _T.UINT8})


def keep_products(model: ir.Model) -> None:
    """Rewrites what stands in the way of products of integers, in place.

    Args:
        model: The model. The types of its values are known.
    """
    for graph in [model.graph, *model.graph.subgraphs()]:
        nodes = [node for node in graph if node.domain == ""]
        if not any(node.op_type == "QuantizeLinear" for node in nodes):
            continue
        for node in nodes:
            if node.op_type == "Add":
                _subtract(graph, node, model.graph.initializers)
        quantizing = [node for node in nodes if node.op_type == "QuantizeLinear" and _is_int8(node)]
        if any(len(_readers(node)) > 1 for node in quantizing):
            for node in quantizing:
                _make_unsigned(node, model.graph.initializers)


def _subtract(graph: ir.Graph, node: Any, constants: Any) -> None:
    """Rule 1."""
    for position in (0, 1):
        product, bias = node.inputs[position], node.inputs[1 - position]
        matrix = product.producer() if product is not None else None
        if matrix is None or matrix.op_type != "MatMul" or bias is None or bias.const_value is None:
            continue
        if bias.dtype != _T.FLOAT or not all(value is not None and _is_dequantized(value) for value in matrix.inputs):
            continue
        negated = _constant(constants, f"{bias.name}_negated", -bias.const_value.numpy())
        result = node.outputs[0]
        made = ir.node("Sub", [product, negated], name=node.name)
        made.outputs[0].shape, made.outputs[0].dtype = result.shape, result.dtype
        made.metadata_props.update(node.metadata_props)
        graph.insert_after(node, made)
        ir.convenience.replace_all_uses_with(result, made.outputs[0], replace_graph_outputs=True)
        name = result.name
        graph.remove(node, safe=True)
        made.outputs[0].name = name
        return


def _make_unsigned(node: Any, constants: Any) -> None:
    """Rule 2."""
    zero = node.inputs[2]
    assert zero is not None
    dequantizing = list(node.outputs[0].consumers())
    unsigned = _unsigned(constants, zero)
    for each in (node, *dequantizing):
        each.replace_input_with(2, unsigned)
    node.outputs[0].dtype = _T.UINT8


def _is_int8(node: Any) -> bool:
    """Whether a node makes int8 by one known zero point, and only DequantizeLinear of the same reads that."""
    zero = node.inputs[2] if len(node.inputs) > 2 else None
    if zero is None or zero.const_value is None or zero.dtype != _T.INT8 or node.outputs[0].is_graph_output():
        return False
    if any(name not in ("axis", "saturate") for name in node.attributes):
        return False
    return all(
        reader.op_type == "DequantizeLinear" and len(reader.inputs) > 2 and reader.inputs[2] is zero
        for reader in node.outputs[0].consumers()
    )


def _readers(node: Any) -> list[ir.Node]:
    """The nodes that read what was quantised and dequantised."""
    return [reader for each in node.outputs[0].consumers() for reader in _uses(each.outputs[0])]


def _uses(value: Any) -> Iterator[ir.Node]:
    for node, _ in value.uses():
        yield node


def _is_dequantized(value: Any) -> bool:
    """Whether a value is the result of a DequantizeLinear of bytes, without blocks."""
    node = value.producer()
    if node is None or node.op_type != "DequantizeLinear" or "block_size" in node.attributes:
        return False
    return node.inputs[0] is not None and node.inputs[0].dtype in _BYTES


def _unsigned(constants: Any, zero: Any) -> ir.Value:
    """A zero point for the same numbers as uint8."""
    name = f"{zero.name}_unsigned"
    if name in constants:
        return constants[name]
    assert zero.const_value is not None
    return _constant(constants, name, (zero.const_value.numpy().astype(np.int32) + 128).astype(np.uint8))


def _constant(constants: Any, name: str, array: np.ndarray) -> ir.Value:
    found = constants.get(name)
    if found is not None:
        return found
    tensor = ir.Tensor(array, name=name)
    value = ir.Value(name=name, const_value=tensor)
    value.shape, value.dtype = ir.Shape(array.shape), tensor.dtype
    constants[name] = value
    return value
