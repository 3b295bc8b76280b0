"""Attention without a cache as one node: ONNX's Attention, or MultiHeadAttention of com.microsoft.

    y = softmax(scale * q @ k.T + bias) @ v

Rules, attention by attention:

    1. Attention, from opset 23 on, is taken where all sizes are known. ONNX Runtime's kernel rejects sizes of 0, which
       a dynamic size may be.
    2. That kernel gives 0 for queries that see no key, where PyTorch gives NaN, or the mean of all values where the
       mask is the lowest number. So a bias is a constant that leaves each query a key, or a mask of
       `scaled_dot_product_attention`, which gives 0 for such queries itself.
    3. Queries, keys, values and results that are views of [batch, tokens, heads * size] stay so: the kernels read the
       heads where they are. What `nn.MultiheadAttention` makes of [tokens, batch, heads * size] is transposed to it.
    4. MultiHeadAttention is taken for such views alone, and where nothing is added to the scores. With a bias its
       kernel is no faster than the nodes that it would replace.
    5. float32 alone: in half precision ONNX Runtime computes MatMul and Softmax on the CPU in float32.

Measured on ONNX Runtime 1.32: bench/latency.py, in the column "fused".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from opbridge.fit.fused.attention_pattern import Bias, Given, WholeAttention, attentions, known, put_by_heads
from opbridge.fit.fused.patterns import put
from opbridge.fit.fused.scores import HEADS_BY_TOKENS, joined_heads
from opbridge.fit.fused.steps import Steps

__all__ = ["fuse_whole_attention"]

_ATTENTION_FROM = 23
_OLDEST_OPSET = 13
"""Before it, Softmax takes all dimensions from its axis on together."""


def fuse_whole_attention(graph: ir.Graph, opset: int) -> Counter[str]:
    """Fuses the attention of a graph that has no cache, in place.

    Args:
        graph: The graph. The types of its values are known. The nodes that are fused stay, unread.
        opset: The opset of the model; before 13, nothing is fused.

    Returns:
        How many nodes of each form were put, "Attention" and "MultiHeadAttention".
    """
    made: Counter[str] = Counter()
    if opset < _OLDEST_OPSET:
        return made
    steps = Steps(graph, "attention")
    for found in attentions(graph):
        is_known = all(isinstance(size, int) for each in (found.query, found.key, found.value) for size in each.sizes)
        if opset >= _ATTENTION_FROM and is_known and found.scale > 0:
            _put_attention(found, steps)
            made["Attention"] += 1
        elif _put_multi_head(found, steps):
            made["MultiHeadAttention"] += 1
    return made


def _put_attention(found: WholeAttention, steps: Steps) -> None:
    """Puts ONNX's Attention in the place of the nodes."""
    before = found.product
    given = (found.query, found.key, found.value)
    by_token = all(each.is_view() for each in given)
    inputs = [each.joined(steps, before) if by_token else _by_heads(each, steps, before) for each in given]
    attributes: dict[str, int | float] = {"scale": found.scale}
    if by_token:
        attributes |= {"q_num_heads": known(found.query.sizes[1]), "kv_num_heads": known(found.key.sizes[1])}
    if found.biases:
        inputs.append(_total(found.biases, steps, before))
    made = ir.node("Attention", inputs, attributes)
    if by_token:
        _put_by_token(made, found, steps)
    else:
        put(made, [before.outputs[0]])


def _put_multi_head(found: WholeAttention, steps: Steps) -> bool:
    """Puts MultiHeadAttention of com.microsoft in the place of the nodes, if it may stand there."""
    given = (found.query, found.key, found.value)
    if found.biases or found.key.sizes[1] != found.query.sizes[1] or not all(each.is_view() for each in given):
        return False
    inputs = [each.joined(steps, found.product) for each in given]
    attributes = {"num_heads": known(found.query.sizes[1]), "scale": found.scale}
    _put_by_token(ir.node("MultiHeadAttention", inputs, attributes, domain="com.microsoft"), found, steps)
    return True


def _put_by_token(made: ir.Node, found: WholeAttention, steps: Steps) -> None:
    """Puts a node whose results are [batch, tokens, heads * size] in the place of the nodes of an attention."""
    before, output = found.product, found.product.outputs[0]
    seen = None if found.zeroing is None else _by_query(found, steps)
    last = joined_heads(output, _mask(found)) if found.zeroing is None or seen is not None else None
    if last is not None and seen is None:
        put(made, [last])
        return
    whole = steps.place(made, before, "attention")
    if last is None:
        put_by_heads(whole, found, steps)
        return
    batch, heads, tokens, _ = found.query.sizes
    whole.type, whole.shape = output.type, ir.Shape([batch, tokens, known(heads) * known(found.value.sizes[3])])
    assert found.zeroing is not None
    put(ir.node("Where", [seen, whole, found.zeroing.inputs[2]]), [last])


def _mask(found: WholeAttention) -> ir.Value | None:
    """The bias that a mask chooses."""
    return next((each.value for each in found.biases if each.mask is not None), None)


def _by_query(found: WholeAttention, steps: Steps) -> ir.Value | None:
    """Which queries see a key, in a shape that broadcasts to [batch, tokens, heads * size]; None: heads differ."""
    assert found.zeroing is not None
    sizes = next(each.sizes for each in found.biases if each.mask is not None)
    if len(sizes) > 2 and sizes[-3] != 1:
        return None
    seen = found.zeroing.inputs[0]
    assert seen is not None
    if len(sizes) < 4:
        return seen
    axis = steps.constant(np.array([1], np.int64), found.product, "axis")
    made = steps.step("Squeeze", [seen, axis], found.product, "seen")
    made.type, made.shape = ir.TensorType(ir.DataType.BOOL), ir.Shape([sizes[0], sizes[2], 1])
    return made


def _by_heads(given: Given, steps: Steps, before: ir.Node) -> ir.Value:
    """Queries, keys or values of shape [batch, heads, tokens, size]."""
    if given.heads is not None:
        return given.heads
    assert given.tokens is not None
    made = steps.step("Transpose", [given.tokens], before, "by_head", perm=HEADS_BY_TOKENS)
    made.type, made.shape = given.dtype(), ir.Shape(given.sizes)
    return made


def _total(biases: Sequence[Bias], steps: Steps, before: ir.Node) -> ir.Value:
    """The sum of biases. ONNX Runtime computes what is constant of it once."""
    total: ir.Value | None = None
    sizes: tuple[int, ...] = ()
    for each in biases:
        value = each.value
        if each.windows:
            whole = steps.constant(np.array(each.windows, np.int64), before, "windows")
            flat = steps.constant(np.array(each.sizes, np.int64), before, "flat")
            value = steps.step("Expand", [value, whole], before, "bias_of_windows")
            value.type, value.shape = each.value.type, ir.Shape(each.windows)
            value = steps.step("Reshape", [value, flat], before, "bias")
            value.type, value.shape = each.value.type, ir.Shape(each.sizes)
        sizes = each.sizes if total is None else np.broadcast_shapes(sizes, each.sizes)
        if total is not None:
            value = steps.step("Add", [total, value], before, "biases")
            value.type, value.shape = each.value.type, ir.Shape(sizes)
        total = value
    assert total is not None
    return total
