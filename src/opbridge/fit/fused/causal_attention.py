"""Causal attention without a cache as one node, GroupQueryAttention of com.microsoft.

    y = softmax(scale * q @ k.T, each query seeing the keys up to itself) @ v

Its kernel computes the softmax of the visible keys alone, where the nodes and ONNX's Attention compute it of all.

Rules, attention by attention:

    1. All sizes are known and not 0: the kernel rejects 0 tokens, and ends the process for 0 texts.
    2. The mask is a constant that shows each query the keys up to itself, or a window of them.
    3. A rotation of queries and keys becomes a part of the node where its factors are constants that are the same for
       all texts and heads, and for both halves of a head.
    4. Queries, keys and values that are products of one input become one product (`packing`).
    5. Without a rotation it is taken from 128 tokens on. For fewer, the nodes that it would replace are as fast.
    6. Heads are of a size that the kernel takes: a multiple of 8, with rotation of 16.
    7. float32 alone, as in `whole_attention`.

Measured on ONNX Runtime 1.32: bench/latency.py, in the column "fused".
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from opbridge.fit.fused.attention_pattern import VISIBLE_FROM, Bias, WholeAttention, attentions, known, put_by_heads
from opbridge.fit.fused.packing import packed
from opbridge.fit.fused.patterns import dims, is_same_shape, put
from opbridge.fit.fused.rotary import rotary
from opbridge.fit.fused.scores import joined_heads, unrepeated
from opbridge.fit.fused.steps import Steps

__all__ = ["fuse_causal_attention"]

_OLDEST_OPSET = 13
_TOKENS_WITHOUT_ROTATION = 128


def fuse_causal_attention(graph: ir.Graph, opset: int) -> Counter[str]:
    """Fuses the causal attention of a graph that has no cache, in place.

    Args:
        graph: The graph. The types of its values are known. The nodes that are fused stay, unread.
        opset: The opset of the model; before 13, nothing is fused.

    Returns:
        How many nodes of each form were put, "GroupQueryAttention" and "GroupQueryAttention with rotation".
    """
    if opset < _OLDEST_OPSET:
        return Counter()
    fusing = _Fusing(graph)
    for found in attentions(graph):
        fusing.fuse(found)
    return fusing.made


@dataclass(frozen=True)
class _Rotation:
    """The rotation of queries and keys of one attention.

    Attributes:
        query: The queries before it.
        key: The keys before it.
        tables: The cosines and the sines, [tokens, half of what is rotated].
    """

    query: ir.Value
    key: ir.Value
    tables: tuple[np.ndarray, np.ndarray]


class _Fusing:
    """The rules for one graph."""

    def __init__(self, graph: ir.Graph) -> None:
        self.made: Counter[str] = Counter()
        self._graph = graph
        self._steps = Steps(graph, "causal_attention")
        self._constants: dict[object, ir.Value] = {}

    def fuse(self, found: WholeAttention) -> None:
        """Fuses an attention, if it is one that may be."""
        sizes = *found.query.sizes, *found.key.sizes, *found.value.sizes
        query, key, value = found.query.heads, unrepeated(found.key.heads), unrepeated(found.value.heads)
        if query is None or key is None or value is None or not all(isinstance(size, int) for size in sizes):
            return
        batch, heads, tokens, size = map(known, found.query.sizes)
        groups = dims(key, 4)[1]
        if not isinstance(groups, int) or dims(value, 4) != (batch, groups, tokens, size) or heads % groups:
            return
        window = _window(found.biases[0], tokens) if len(found.biases) == 1 else None
        if window is None or found.key.sizes != (batch, heads, tokens, size) or size % 8 or found.scale <= 0:
            return
        last = found.product
        rotation = _rotation(query, key, size, tokens)
        if rotation is None and tokens < _TOKENS_WITHOUT_ROTATION:
            return
        if rotation is not None:
            query, key = rotation.query, rotation.key
        given = [
            self._steps.by_token(each, count * size, last)
            for each, count in ((query, heads), (key, groups), (value, groups))
        ]
        together = packed(self._graph, given, last)
        inputs = [*(given if together is None else (together, None, None)), None, None]
        inputs.append(self._constant(np.full(batch, tokens - 1, np.int32), "lengths"))
        inputs.append(self._constant(np.array(tokens, np.int32), "keys"))
        attributes: dict[str, int | float] = {"num_heads": heads, "kv_num_heads": groups, "scale": found.scale}
        if window < tokens:
            attributes["local_window_size"] = window
        if rotation is not None:
            attributes["do_rotary"] = 1
            inputs += [self._constant(table, "rotary_table") for table in rotation.tables]
        made = ir.node("GroupQueryAttention", inputs, attributes, domain="com.microsoft")
        if (output := joined_heads(last.outputs[0], found.biases[0].value)) is not None:
            put(made, [output])
        else:
            put_by_heads(self._steps.place(made, last, "attention"), found, self._steps)
        self.made["GroupQueryAttention with rotation" if rotation is not None else "GroupQueryAttention"] += 1

    def _constant(self, found: np.ndarray, what: str) -> ir.Value:
        """A constant of the graph, which those with the same elements share."""
        key = found.dtype.str, found.shape, found.tobytes()
        if key not in self._constants:
            name = f"causal_attention/{what}_{len(self._constants)}"
            made = ir.Value(name=name, const_value=ir.tensor(found), shape=ir.Shape(found.shape))
            made.type = ir.TensorType(ir.DataType.from_numpy(found.dtype))
            self._graph.register_initializer(made)
            self._constants[key] = made
        return self._constants[key]


def _window(bias: Bias, tokens: int) -> int | None:
    """How many keys up to itself a bias shows each query, among as many as there are; None: it shows others."""
    elements = bias.elements()
    if elements is None or bias.windows or not np.all((elements == 0) | (elements < VISIBLE_FROM)):
        return None
    shown = elements.reshape(-1, *elements.shape[-2:]) == 0
    if shown.shape[1:] != (tokens, tokens) or (shown != shown[0]).any():
        return None
    window = int(shown[0, -1].sum())
    causal, beyond = (np.tri(tokens, k=diagonal, dtype=np.bool_) for diagonal in (0, -window))
    return window if window and np.array_equal(shown[0], causal ^ beyond) else None


def _rotation(query: ir.Value, key: ir.Value, size: int, tokens: int) -> _Rotation | None:
    """The rotation of queries and keys, where it may be a part of the node."""
    one, other = rotary(query), rotary(key)
    if one is None or other is None or one.size != other.size or size % 16 or one.size % 16:
        return None
    if not is_same_shape(one.x, query) or not is_same_shape(other.x, key):
        return None
    found = (_table(each, one.size, tokens) for each in (one.cos, one.sin, other.cos, other.sin))
    tables = [each for each in found if each is not None]
    if len(tables) < 4 or not np.array_equal(tables[:2], tables[2:]):
        return None
    return _Rotation(one.x, other.x, (tables[0], tables[1]))


def _table(value: ir.Value, size: int, tokens: int) -> np.ndarray | None:
    """The factors of a rotation of all tokens, [tokens, size / 2], where they are constants for all texts and heads."""
    tensor = ir.convenience.get_const_tensor(value)
    if tensor is None or tensor.dtype != ir.DataType.FLOAT:
        return None
    rows = tensor.numpy()
    if rows.shape[-2:] != (tokens, size) or rows.size != tokens * size:
        return None
    first, second = np.split(rows.reshape(tokens, size), 2, axis=1)
    return np.ascontiguousarray(first) if np.array_equal(first, second) else None
