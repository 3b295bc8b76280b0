"""Rotary position embeddings of queries and keys, and the table of their cosines and sines.

    y = x * cos + rotated(x) * sin,    rotated(x) = concat(-x[..., r/2:], x[..., :r/2])

The first r elements of a head may be rotated alone. A table stands for the nodes that compute cos and sin only where
each row is proved to depend on the position of its token alone, by `elements`; the rows are what those nodes give.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from opbridge.fit.fused.elements import Elements, Linear, Unknown, atoms, axis
from opbridge.fit.fused.patterns import dims, numbers, producer
from opbridge.onnx import serialize
from opbridge.runtimes.onnxruntime import open_session

__all__ = ["Rotary", "Tables", "rotary"]


@dataclass(frozen=True)
class Rotary:
    """A rotated value.

    Attributes:
        x: What is rotated, [batch, heads, tokens, size].
        cos: The cosines, which are multiplied with it.
        sin: The sines.
        size: The number of elements of a head that are rotated, the first ones.
    """

    x: ir.Value
    cos: ir.Value
    sin: ir.Value
    size: int


def rotary(value: ir.Value | None) -> Rotary | None:
    """The rotation that gives a value of shape [batch, heads, tokens, size]; None: it is not given by one."""
    joined = producer(value, "Concat")
    if joined is None:
        return _whole(value)
    if len(joined.inputs) != 2 or joined.attributes.get_int("axis", 0) not in (3, -1):
        return None
    if dims(joined.inputs[1], 4)[3] == 0:
        return _whole(joined.inputs[0])
    turned, rest = _whole(joined.inputs[0]), _part(joined.inputs[1])
    part = None if turned is None else _part(turned.x)
    if turned is None or rest is None or part is None or part[0] is not rest[0]:
        return None
    whole = dims(rest[0], 4)[3]
    if part[1:] != (0, turned.size) or rest[1] != turned.size or not isinstance(whole, int) or rest[2] < whole:
        return None
    return Rotary(part[0], turned.cos, turned.sin, turned.size)


def _whole(value: ir.Value | None) -> Rotary | None:
    """The same where all elements of a head are rotated."""
    total = producer(value, "Add")
    size = dims(value, 4)[3]
    if total is None or not isinstance(size, int):
        return None
    for plain, turned in (total.inputs, reversed(total.inputs)):
        first, second = producer(plain, "Mul"), producer(turned, "Mul")
        if first is None or second is None:
            continue
        for x, cos in (first.inputs, reversed(first.inputs)):
            for rotated, sin in (second.inputs, reversed(second.inputs)):
                if x is not None and cos is not None and sin is not None and _is_rotated(rotated, x, size):
                    return Rotary(x, cos, sin, size)
    return None


def _is_rotated(value: ir.Value | None, x: ir.Value, size: int) -> bool:
    """Whether a value is concat(-x[..., size/2:], x[..., :size/2])."""
    joined = producer(value, "Concat")
    if joined is None or len(joined.inputs) != 2 or joined.attributes.get_int("axis", 0) not in (3, -1):
        return False
    negated, half = producer(joined.inputs[0], "Neg"), size // 2
    second, first = (None if negated is None else _part(negated.inputs[0])), _part(joined.inputs[1])
    if first is None or second is None or first[0] is not x or second[0] is not x:
        return False
    return first[1:] == (0, half) and second[1] == half and second[2] >= size


def _part(value: ir.Value | None) -> tuple[ir.Value, int, int] | None:
    """What a Slice or a Split of the last of four dimensions takes: from what, from where, and to where."""
    node = producer(value, "Slice", "Split")
    if value is None or node is None or node.inputs[0] is None:
        return None
    if node.op_type == "Split":
        sizes = [dims(each, 4)[3] for each in node.outputs[: node.outputs.index(value) + 1]]
        known = [each for each in sizes if isinstance(each, int)]
        if node.attributes.get_int("axis", 0) not in (3, -1) or len(known) < len(sizes):
            return None
        return node.inputs[0], sum(known[:-1]), sum(known)
    if len(node.inputs) < 4:
        return None
    given = [numbers(each) for each in node.inputs[1:]]
    if any(each is None or each.size != 1 for each in given):
        return None
    start, end, at, *step = (int(each.reshape(())) for each in given if each is not None)
    return (node.inputs[0], start, end) if at in (3, -1) and step in ([], [1]) else None


class Tables:
    """The tables of cosines and sines of a model.

    Args:
        graph: Its graph, to which the tables are added.
        elements: The elements of its values.
        opset: Its opset.
        longest: The number of positions.
    """

    def __init__(self, graph: ir.Graph, elements: Elements, opset: int, longest: int) -> None:
        self._graph, self._elements, self._opset, self._longest = graph, elements, opset, longest
        self._made: dict[tuple[ir.Value, int], ir.Value | None] = {}
        self._by_content: dict[bytes, ir.Value] = {}

    def of(self, value: ir.Value, size: int) -> ir.Value | None:
        """The table of the factors of a rotation, [positions, size / 2]; None: they depend on more than a position.

        Args:
            value: The factors, which `Rotary` has.
            size: The number of elements that are rotated.
        """
        key = value, size
        if key not in self._made:
            self._made[key] = self._table(value, size)
        return self._made[key]

    def _table(self, value: ir.Value, size: int) -> ir.Value | None:
        name = self._positions(value)
        if name is None:
            return None
        rows = self._rows(value, name)
        half = size // 2
        if rows.shape != (self._longest, size) or not np.array_equal(rows[:, :half], rows[:, half:]):
            return None
        content = np.ascontiguousarray(rows[:, :half])
        mark = content.tobytes()
        if mark not in self._by_content:
            text = f"rotary_table_{len(self._by_content)}"
            made = ir.Value(name=text, shape=ir.Shape(content.shape), type=value.type, const_value=ir.tensor(content))
            self._graph.register_initializer(made)
            self._by_content[mark] = made
        return self._by_content[mark]

    def _positions(self, value: ir.Value) -> str | None:
        """The input of positions, [batch, tokens], whose element for a token is all that its row depends on."""
        try:
            found = self._elements.broadcast(value, (axis(0), axis(1), axis(2), axis(3)))
        except Unknown:
            return None
        names = set()
        for atom in atoms(found):
            if atom[0] == "input" and atom[2:] in ((axis(0), axis(2)), (Linear(), axis(2))):
                names.add(str(atom[1]))
            elif atom[0] == "input" or atom[0] == "size":
                return None
            elif atom[0] == "constant" and not all(each in (axis(3), Linear()) for each in atom[2:]):
                return None
            elif atom[0] == "axis" and atom[1] != 3:
                return None
        return names.pop() if len(names) == 1 else None

    def _rows(self, value: ir.Value, name: str) -> np.ndarray:
        """What the nodes of a value give for each position."""
        nodes: dict[ir.Node, None] = {}
        weights: dict[str, ir.Value] = {}
        waiting = [value]
        while waiting:
            each = waiting.pop()
            node = each.producer()
            if node is not None and node not in nodes:
                nodes[node] = None
                waiting += [given for given in node.inputs if given is not None]
            elif each.is_initializer():
                weights[str(each.name)] = each
        order = {node: at for at, node in enumerate(self._graph)}
        given = next(each for each in self._graph.inputs if each.name == name)
        inputs = [ir.Value(name=name, type=given.type, shape=ir.Shape([1, self._longest]))]
        values: dict[ir.Value, ir.Value] = {given: inputs[0]}
        values |= {
            each: ir.Value(name=text, type=each.type, shape=each.shape, const_value=each.const_value)
            for text, each in weights.items()
        }
        made = []
        for node in sorted(nodes, key=order.__getitem__):
            read = [None if each is None else values[each] for each in node.inputs]
            twin = ir.node(node.op_type, read, dict(node.attributes), num_outputs=len(node.outputs))
            for old, new in zip(node.outputs, twin.outputs, strict=True):
                new.name, new.type, values[old] = old.name, old.type, new
            made.append(twin)
        found = [values[value]]
        graph = ir.Graph(inputs, found, nodes=made, opset_imports={"": self._opset}, name="rotary")
        for each in weights.values():
            graph.register_initializer(values[each])
        session = open_session(serialize.to_bytes(ir.Model(graph, ir_version=10)), False)
        dtype = np.int64 if given.dtype == ir.DataType.INT64 else np.int32
        (rows,) = session.run(None, {name: np.arange(self._longest, dtype=dtype)[None]})
        return np.asarray(rows).reshape(-1, rows.shape[-1])
