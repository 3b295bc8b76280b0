"""The products of one input with several weights as one product with the weights beside each other.

GroupQueryAttention takes queries, keys and values in one tensor. The weights are joined when they are read, so that
they are not in memory twice before the model is written.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from opbridge.fit.fused.patterns import dims, numbers, only_reader, producer, shape_of

__all__ = ["packed"]


def packed(graph: ir.Graph, values: Sequence[ir.Value], before: ir.Node) -> ir.Value | None:
    """One value with the elements of several ones, [..., a], [..., b], as [..., a + b].

    That is the value that they were cut from, or a product with joined weights.

    Args:
        graph: The graph, to which the joined weights are added.
        values: The values.
        before: The node before which the product is put.

    Returns:
        The value; None: they are not cut from one, nor products of one input with weights that nothing else reads.
    """
    if (whole := _cut(values)) is not None:
        return whole
    products = [_product(each) for each in values]
    found = [each for each in products if each is not None]
    if len(found) < len(values) or len({x for x, _, _ in found}) > 1 or len({w.dtype for _, w, _ in found}) > 1:
        return None
    x = found[0][0]
    biases = [bias for _, _, bias in found if bias is not None]
    if biases and len(biases) < len(values):
        return None
    made = ir.node(
        "MatMul", [x, _joined(graph, [weight for _, weight, _ in found], 1)], name=f"{values[0].name}/packed"
    )
    nodes = [made]
    if biases:
        nodes.append(
            ir.node("Add", [made.outputs[0], _joined(graph, biases, 0)], name=f"{values[0].name}/packed/biased")
        )
    source = values[0].producer()
    assert source is not None
    for node in nodes:
        node.metadata_props.update(
            {key: source.metadata_props[key] for key in ("opbridge.source",) if key in source.metadata_props}
        )
        node.outputs[0].name, node.outputs[0].type = node.name, values[0].type
        if values[0].shape is not None:
            widths = [int(weight.shape[1]) for _, weight, _ in found if weight.shape is not None]  # type: ignore[arg-type]
            node.outputs[0].shape = ir.Shape([*values[0].shape[:-1], sum(widths)])
        graph.insert_before(before, node)
    return nodes[-1].outputs[0]


def _cut(values: Sequence[ir.Value]) -> ir.Value | None:
    """The value of three dimensions that is cut into several ones along the last, of which none is left out."""
    start, source = 0, None
    for each in values:
        node = producer(each, "Slice")
        width = dims(each, 3)[2]
        if node is None or not isinstance(width, int) or len(node.inputs) < 4:
            return None
        given = [numbers(one) for one in (node.inputs[1], *node.inputs[3:])]
        if any(one is None or one.size != 1 for one in given):
            return None
        at, axis, *step = (int(one.reshape(())) for one in given if one is not None)
        if at != start or axis not in (2, -1) or step not in ([], [1]) or source not in (None, node.inputs[0]):
            return None
        start, source = start + width, node.inputs[0]
    return source if dims(source, 3)[2] == start else None


def _product(value: ir.Value) -> tuple[ir.Value, ir.Value, ir.Value | None] | None:
    """The input, the weight and the bias of a product."""
    if only_reader(value) is None:
        return None
    bias: ir.Value | None = None
    added = producer(value, "Add")
    if added is not None:
        one, other = added.inputs
        bias, product = (other, one) if _is_weight(other, 1) else (one, other)
        if not _is_weight(bias, 1) or product is None or only_reader(product) is None:
            return None
        value = product
    node = producer(value, "MatMul")
    if node is None or node.inputs[0] is None or not _is_weight(node.inputs[1], 2):
        return None
    weight = node.inputs[1]
    assert weight is not None
    return node.inputs[0], weight, bias


def _is_weight(value: ir.Value | None, rank: int) -> bool:
    """Whether a value is a weight of a rank that one node reads."""
    if value is None or value.const_value is None or value.is_graph_input() or not value.is_initializer():
        return False
    return len(shape_of(value) or ()) == rank and only_reader(value) is not None


def _joined(graph: ir.Graph, weights: Sequence[ir.Value], axis: int) -> ir.Value:
    tensors = [weight.const_value for weight in weights if weight.const_value is not None]
    shape = list(tensors[0].shape.numpy())
    shape[axis] = sum(tensor.shape.numpy()[axis] for tensor in tensors)
    name = f"{weights[0].name}/packed"

    def join() -> ir.Tensor[np.ndarray]:
        return ir.Tensor(np.concatenate([tensor.numpy() for tensor in tensors], axis=axis))

    tensor = ir.LazyTensor(join, dtype=tensors[0].dtype, shape=ir.Shape(shape), name=name)
    made = ir.Value(name=name, shape=ir.Shape(shape), type=weights[0].type, const_value=tensor)
    graph.register_initializer(made)
    return made
