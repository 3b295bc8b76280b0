"""Attention of a decoder with its cache as one node, GroupQueryAttention of com.microsoft.

    present = concat(past, new);  y = softmax(scale * q @ present_k.T, masked) @ present_v

Rules, attention by attention:

    1. Keys and values are concatenated to inputs of the graph, and what that gives is an output of it and is read by
       this attention alone, repeated for groups of heads or not.
    2. GroupQueryAttention sees, of a contiguous cache, the keys up to the query, or a window of them. So the mask is
       proved to hide the others (`masks`). Where it hides padding too, the caller has to state that all tokens of a
       text stand together at its front: GroupQueryAttention then gets their number from the mask.
    3. A rotation of queries and keys becomes a part of the node where the caller states that positions count the
       tokens of the cache and how many there are at most, and their angles depend on nothing else (`rotary`).
    4. The kernels continue several texts by one token each only, so the caller has to state that, or there is one text.
    5. Queries, keys and values that are products of one input become one product (`packing`).
    6. Heads are of a size that the kernels take: a multiple of 8, with rotation of 16.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from opbridge.fit.fused.elements import Elements, Unknown, size
from opbridge.fit.fused.masks import Visible, visible
from opbridge.fit.fused.packing import packed
from opbridge.fit.fused.patterns import dims, only_reader, producer, put, shape_of
from opbridge.fit.fused.rotary import Rotary, Tables, rotary
from opbridge.fit.fused.scores import factored, joined_heads, masked, through_casts, unrepeated, unscaled
from opbridge.fit.fused.steps import Steps

__all__ = ["Contiguous", "fuse_attention"]

_OLDEST_OPSET = 15


@dataclass(frozen=True)
class Contiguous:
    """What a caller states of the texts that a model runs on.

    In each, the tokens stand together at the front, the mask is 1 for them and 0 for padding behind them, and positions
    count them from 0. Several texts start together, or are continued by one token each.

    Attributes:
        longest: The most tokens of a text.
    """

    longest: int


@dataclass(frozen=True)
class _Attention:
    """One attention.

    Attributes:
        output: Its result, [batch, tokens, heads * size].
        query: The queries, [batch, heads, tokens, size].
        key: The new keys, [batch, groups, tokens, size].
        value: The new values, likewise.
        past: The keys and values of the cache, which are inputs.
        present: What these become, outputs.
        mask: Which keys a query sees.
        scale: What scores are multiplied by.
        softcap: The bound of scores; 0: there is none.
    """

    output: ir.Value
    query: ir.Value
    key: ir.Value
    value: ir.Value
    past: tuple[ir.Value, ir.Value]
    present: tuple[ir.Value, ir.Value]
    mask: ir.Value
    scale: float
    softcap: float


def fuse_attention(
    model: ir.Model, opset: int, contiguous: Contiguous | None, types: Collection[ir.DataType]
) -> Counter[str]:
    """Fuses the attention of a decoder, in place.

    Args:
        model: The model. The nodes that are fused stay, unread.
        opset: Its opset; before 15, Shape gives all sizes, and nothing is fused.
        contiguous: What is stated of its texts; None: nothing.
        types: The types that the target has kernels for.

    Returns:
        How many nodes of each form were put, "GroupQueryAttention" and "GroupQueryAttention with rotation".
    """
    if opset < _OLDEST_OPSET:
        return Counter()
    fusing = _Fusing(model.graph, opset, contiguous, types)
    for node in list(model.graph):
        if node.op_type == "Softmax" and node.domain == "":
            fusing.fuse(node)
    return fusing.made


class _Fusing:
    """The rules for one graph."""

    def __init__(
        self, graph: ir.Graph, opset: int, contiguous: Contiguous | None, types: Collection[ir.DataType]
    ) -> None:
        self.made: Counter[str] = Counter()
        self._graph, self._contiguous, self._types = graph, contiguous, types
        self._steps = Steps(graph, "cached_attention")
        self._elements = Elements()
        self._tables = Tables(graph, self._elements, opset, contiguous.longest) if contiguous is not None else None
        self._lengths: dict[str | None, tuple[ir.Value, ir.Value]] = {}

    def fuse(self, softmax: ir.Node) -> None:
        """Fuses the attention of a softmax, if it is one that may be."""
        found = _matched(softmax)
        if found is None or found.query.dtype not in self._types:
            return
        heads, head_size = dims(found.query, 4)[1], dims(found.query, 4)[3]
        groups = dims(found.key, 4)[1]
        if not isinstance(heads, int) or not isinstance(groups, int) or not isinstance(head_size, int):
            return
        if head_size % 8 or heads % groups or dims(found.value, 4)[3] != head_size or not found.scale:
            return  # a scale of 0 would stand for the default
        try:
            past = size(dims(found.past[0], 4)[2])
        except Unknown:
            return
        seen = visible(self._elements, found.mask, past)
        if seen is None or (self._contiguous is None and (seen.padding is not None or dims(found.query, 4)[0] != 1)):
            return
        if any(_is_computed_from(given, found.present) for given in (found.query, found.key, found.value)):
            return  # from the sizes of what the node is to give
        if seen.padding is None and self._input_of_size(dims(found.query, 4)[2]) is None:
            return
        self._put(found, seen, heads, groups, head_size)

    def _put(self, found: _Attention, seen: Visible, heads: int, groups: int, head_size: int) -> None:
        last = found.output.producer()
        assert last is not None
        query, key = found.query, found.key
        tables = self._rotation(query, key, head_size)
        if tables is not None:
            query, key = tables[0].x, tables[1].x
        given = [
            self._steps.by_token(each, count * head_size, last)
            for each, count in ((query, heads), (key, groups), (found.value, groups))
        ]
        lengths = self._lengths_of(seen.padding, found)
        attributes: dict[str, int | float] = {"num_heads": heads, "kv_num_heads": groups, "scale": found.scale}
        if seen.window is not None:
            attributes["local_window_size"] = seen.window
        if found.softcap:
            attributes["softcap"] = found.softcap
        together = packed(self._graph, given, last)
        inputs = [*(given if together is None else (together, None, None)), *found.past, *lengths]
        if tables is not None:
            attributes["do_rotary"] = 1
            inputs += tables[2:]
        made = ir.node("GroupQueryAttention", inputs, attributes, domain="com.microsoft", num_outputs=3)
        put(made, [found.output, *found.present])
        self.made["GroupQueryAttention with rotation" if tables is not None else "GroupQueryAttention"] += 1

    def _rotation(
        self, query: ir.Value, key: ir.Value, head_size: int
    ) -> tuple[Rotary, Rotary, ir.Value, ir.Value] | None:
        """The rotations of queries and keys, and the tables of both, where they may be a part of the node."""
        one, other = rotary(query), rotary(key)
        if self._tables is None or one is None or other is None or head_size % 16 or one.size % 16:
            return None
        if one.size != other.size:
            return None
        tables = [self._tables.of(each, one.size) for each in (one.cos, one.sin, other.cos, other.sin)]
        if None in tables or tables[:2] != tables[2:]:
            return None
        cos, sin = tables[:2]
        assert cos is not None
        assert sin is not None
        return one, other, cos, sin

    def _lengths_of(self, padding: str | None, found: _Attention) -> tuple[ir.Value, ir.Value]:
        """For each text the number of its tokens without the last one, and the number of keys, as int32."""
        if padding not in self._lengths:
            first = next(iter(self._graph))
            if padding is None:
                self._lengths[padding] = self._from_sizes(found, first)
            else:
                self._lengths[padding] = self._from_mask(padding, first)
        return self._lengths[padding]

    def _from_mask(self, name: str, first: ir.Node) -> tuple[ir.Value, ir.Value]:
        mask = next(each for each in self._graph.inputs if each.name == name)
        whole: ir.Value = mask
        if mask.dtype != ir.DataType.INT64:
            whole = self._steps.step("Cast", [mask], first, "mask", to=ir.DataType.INT64.value)
        one = self._steps.constant(np.array([1], np.int64), first, "one")
        count = self._steps.step("ReduceSum", [whole, one], first, "count", keepdims=0)
        total = self._steps.step("Shape", [mask], first, "total", start=1, end=2)
        return self._as_lengths(self._steps.step("Sub", [count, one], first, "last"), total, first)

    def _from_sizes(self, found: _Attention, first: ir.Node) -> tuple[ir.Value, ir.Value]:
        """From the sizes of the cache and of an input that has as many tokens as the queries."""
        tokens = self._input_of_size(dims(found.query, 4)[2])
        assert tokens is not None
        one = self._steps.constant(np.array([1], np.int64), first, "one")
        past = self._steps.step("Shape", [found.past[0]], first, "past", start=2, end=3)
        new = self._steps.step("Shape", [tokens[0]], first, "new", start=tokens[1], end=tokens[1] + 1)
        total = self._steps.step("Add", [past, new], first, "total")
        batch = self._steps.step("Shape", [found.past[0]], first, "batch", start=0, end=1)
        last = self._steps.step("Sub", [total, one], first, "last")
        return self._as_lengths(self._steps.step("Expand", [last, batch], first, "lasts"), total, first)

    def _input_of_size(self, size: int | str | None) -> tuple[ir.Value, int] | None:
        """An input of the graph with a dimension of a size, and which one it is."""
        sizes = ((each, at, name) for each in self._graph.inputs for at, name in enumerate(shape_of(each) or ()))
        return next(((each, at) for each, at, name in sizes if name == size and name is not None), None)

    def _as_lengths(self, lasts: ir.Value, total: ir.Value, first: ir.Node) -> tuple[ir.Value, ir.Value]:
        to = ir.DataType.INT32.value
        lengths = self._steps.step("Cast", [lasts], first, "lengths", to=to)
        axis = self._steps.constant(np.array([0], np.int64), first, "axis")
        scalar = self._steps.step("Squeeze", [total, axis], first, "keys")
        return lengths, self._steps.step("Cast", [scalar], first, "keys_int32", to=to)


def _matched(softmax: ir.Node) -> _Attention | None:
    """The attention of a softmax over keys, of which nothing is left out."""
    scores = softmax.inputs[0]
    if scores is None or softmax.attributes.get_int("axis", -1) not in (-1, 3):
        return None
    found = masked(scores)
    if found is None:
        return None
    mask, plain = found
    product, scale, softcap = unscaled(plain)
    shares = through_casts(softmax.outputs[0])
    reader = None if shares is None else only_reader(shares)
    if product is None or reader is None or reader.op_type != "MatMul" or reader.inputs[0] is not shares:
        return None
    query, turned = factored(product.inputs[0]), producer(product.inputs[1], "Transpose")
    if turned is None or list(turned.attributes.get_ints("perm", ())) != [0, 1, 3, 2]:
        return None
    keys, values = _cached(turned.inputs[0]), _cached(reader.inputs[1])
    output = joined_heads(reader.outputs[0], mask)
    if keys is None or values is None or output is None or query is None:
        return None
    return _Attention(
        output,
        query[0],
        keys[1],
        values[1],
        (keys[0], values[0]),
        (keys[2], values[2]),
        mask,
        scale * query[1],
        softcap,
    )


def _cached(value: ir.Value | None) -> tuple[ir.Value, ir.Value, ir.Value] | None:
    """Of the keys or values that are read, repeated for groups of heads or not: the past ones, the new ones, and both
    together."""
    value = unrepeated(value)
    joined = producer(value, "Concat")
    if (
        value is None
        or joined is None
        or len(joined.inputs) != 2
        or joined.attributes.get_int("axis", 0) not in (2, -2)
    ):
        return None
    past, new = joined.inputs
    if past is None or new is None or not past.is_graph_input() or not value.is_graph_output():
        return None
    if sum(not _is_size(reader) for reader in value.consumers()) != 1:
        return None
    return (past, new, value) if all(_is_size(reader) or reader is joined for reader in past.consumers()) else None


def _is_computed_from(value: ir.Value, others: Collection[ir.Value]) -> bool:
    """Whether a value is computed from one of others, of which nodes read the sizes."""
    if not any(map(_is_size, (reader for each in others for reader in each.consumers()))):
        return False
    waiting, seen = [value], {value}
    while waiting:
        each = waiting.pop()
        if each in others:
            return True
        node = each.producer()
        added = [] if node is None else [given for given in node.inputs if given is not None and given not in seen]
        waiting += added
        seen.update(added)
    return False


def _is_size(node: ir.Node) -> bool:
    return node.op_type == "Shape" and node.domain == ""
