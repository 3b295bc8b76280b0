"""RMS normalization as one node, with the sum before it where it is the first reader of one.

    y = w * (x / sqrt(mean(x * x) + epsilon))

Rules, norm by norm:

    1. The mean is over the last dimension, of a known size, and the weight has that size.
    2. Where x = a + b, and a and b have the sizes of x, both become SkipSimplifiedLayerNormalization, which also gives
       the sum to its other readers.
    3. Any other norm becomes RMSNormalization where the opset has it. Before opset 23 it is written as the nodes that
       ONNX Runtime replaces by SimplifiedLayerNormalization when it loads a file, since that operator is in no domain
       that ONNX allows.
    4. In half precision, the norm that is computed in float32 between two Casts is taken, which is how both operators
       compute, and the weight is multiplied after the second Cast.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from opbridge.fit.fused.patterns import axes_of, is_same_shape, number, producer, put, shape_of

__all__ = ["fuse_norms"]

_STANDARD_FROM = 23
_AXES_ARE_INPUTS_FROM = 18
_TYPES = (ir.DataType.FLOAT, ir.DataType.FLOAT16)


@dataclass(frozen=True)
class _Norm:
    """One norm: its input, its weight, and what it adds before the root."""

    x: ir.Value
    weight: ir.Value
    epsilon: float


def fuse_norms(graph: ir.Graph, opset: int) -> Counter[str]:
    """Fuses the norms of a graph, in place.

    Args:
        graph: The graph. The types of its values are known. The nodes of the norms stay, unread.
        opset: The opset of the model.

    Returns:
        How many nodes of each form were put.
    """
    made: Counter[str] = Counter()
    for node in list(graph):
        norm = _norm(node) if node.op_type == "Mul" and node.domain == "" else None
        if norm is None:
            continue
        skipped = _skipped(norm)
        if skipped is not None:
            _put_with_sum(node, norm, skipped)
            made["SkipSimplifiedLayerNormalization"] += 1
        elif opset >= _STANDARD_FROM:
            attributes = {"axis": -1, "epsilon": norm.epsilon}
            put(ir.node("RMSNormalization", [norm.x, norm.weight], attributes), [node.outputs[0]])
            made["RMSNormalization"] += 1
        else:
            _put_pattern(node, norm, opset)
            made["SimplifiedLayerNormalization when it is loaded"] += 1
    return made


def _norm(node: ir.Node) -> _Norm | None:
    """The norm whose last node is a multiplication by its weight."""
    for weight, scaled in (node.inputs, reversed(node.inputs)):
        shape, whole = shape_of(weight), shape_of(node.outputs[0])
        if weight is None or shape is None or whole is None or len(shape) != 1 or shape[0] != whole[-1]:
            continue
        found = _scaled(scaled)
        if found is not None and shape == (shape_of(found[0]) or (None,))[-1:] and isinstance(shape[0], int):
            x, epsilon = found
            if x.dtype == weight.dtype == node.outputs[0].dtype and x.dtype in _TYPES:
                return _Norm(x, weight, epsilon)
    return None


def _scaled(value: ir.Value | None) -> tuple[ir.Value, float] | None:
    """What x / sqrt(mean(x * x) + epsilon) is computed from."""
    cast = producer(value, "Cast")
    if cast is not None:
        value = cast.inputs[0]
    product = producer(value, "Mul", "Div")
    if product is None:
        return None
    orders = [product.inputs] if product.op_type == "Div" else [product.inputs, tuple(reversed(product.inputs))]
    for x, factor in orders:
        root = producer(factor, "Reciprocal" if product.op_type == "Mul" else "Sqrt")
        if root is not None and root.op_type == "Reciprocal":
            root = producer(root.inputs[0], "Sqrt")
        epsilon = None if root is None or x is None else _mean_of_squares(root.inputs[0], x)
        if epsilon is None or x is None:
            continue
        if cast is None:
            return x, epsilon
        before = producer(x, "Cast")
        if before is None or before.inputs[0] is None or x.dtype != ir.DataType.FLOAT:
            return None
        return before.inputs[0], epsilon
    return None


def _mean_of_squares(value: ir.Value | None, x: ir.Value) -> float | None:
    """What is added to the mean of x * x."""
    total = producer(value, "Add")
    if total is None:
        return None
    for mean, added in (total.inputs, reversed(total.inputs)):
        epsilon, reduced = number(added), producer(mean, "ReduceMean")
        if epsilon is None or reduced is None or not reduced.attributes.get_int("keepdims", 1):
            continue
        rank, axes = len(shape_of(x) or ()), axes_of(reduced, 1)
        square = producer(reduced.inputs[0], "Mul", "Pow")
        if not rank or axes is None or [each % rank for each in axes] != [rank - 1] or square is None:
            continue
        is_square = square.inputs[1] is x if square.op_type == "Mul" else number(square.inputs[1]) == 2.0
        if square.inputs[0] is x and is_square:
            return epsilon
    return None


def _skipped(norm: _Norm) -> tuple[ir.Value, ir.Value] | None:
    """The two values whose sum a norm reads, where one node may give both."""
    add = producer(norm.x, "Add")
    if add is None or norm.x.is_graph_output() or len(shape_of(norm.x) or ()) != 3:
        return None
    one, other = add.inputs
    if one is None or other is None or not is_same_shape(one, norm.x) or not is_same_shape(other, norm.x):
        return None
    return one, other


def _put_with_sum(node: ir.Node, norm: _Norm, skipped: tuple[ir.Value, ir.Value]) -> None:
    made = ir.node(
        "SkipSimplifiedLayerNormalization",
        [*skipped, norm.weight],
        {"epsilon": norm.epsilon},
        domain="com.microsoft",
        num_outputs=4,
    )
    put(made, [node.outputs[0], None, None, norm.x])
    for unread in made.outputs[1:3]:
        unread.name = ""


def _put_pattern(node: ir.Node, norm: _Norm, opset: int) -> None:
    """Writes a norm as the nodes that ONNX Runtime's SimplifiedLayerNormFusion finds."""
    last, x, shape = node.outputs[0], norm.x, norm.x.shape
    graph = node.graph
    assert graph is not None
    assert shape is not None
    dtype = ir.DataType.FLOAT
    reduced = ir.Shape([*shape[:-1], 1])

    def place(made: ir.Node, what: str, kind: ir.DataType, sizes: ir.Shape) -> ir.Value:
        made.name, value = f"{node.name}/{what}", made.outputs[0]
        value.name, value.type, value.shape = f"{last.name}/{what}", ir.TensorType(kind), sizes
        made.metadata_props.update({key: text for key, text in node.metadata_props.items() if key != "opbridge.node"})
        graph.insert_before(node, made)
        return value

    def step(op_type: str, inputs: list[ir.Value], sizes: ir.Shape, what: str) -> ir.Value:
        return place(ir.node(op_type, inputs), what, dtype, sizes)

    def cast(value: ir.Value, to: ir.DataType, what: str) -> ir.Value:
        return place(ir.node("Cast", [value], {"to": to.value}), what, to, shape)

    def constant(found: np.ndarray, what: str) -> ir.Value:
        made = ir.node("Constant", [], {"value": ir.tensor(found)})
        return place(made, what, ir.DataType.from_numpy(found.dtype), ir.Shape(found.shape))

    wide = x if x.dtype == dtype else cast(x, dtype, "wide")
    square = step("Pow", [wide, constant(np.array(2.0, np.float32), "two")], shape, "square")
    if opset >= _AXES_ARE_INPUTS_FROM:
        mean = step("ReduceMean", [square, constant(np.array([-1]), "axis")], reduced, "mean")
    else:
        mean = place(ir.node("ReduceMean", [square], {"axes": [-1]}), "mean", dtype, reduced)
    total = step("Add", [mean, constant(np.array(norm.epsilon, np.float32), "epsilon")], reduced, "total")
    scaled = step("Div", [wide, step("Sqrt", [total], reduced, "root")], shape, "scaled")
    if x.dtype is not None and x.dtype != dtype:
        scaled = cast(scaled, x.dtype, "narrow")
    put(ir.node("Mul", [scaled, norm.weight]), [last])
