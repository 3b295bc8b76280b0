"""Rotary position embeddings as one node: ONNX's RotaryEmbedding, or that of com.microsoft.

    y = x * cos + concat(-x[..., r/2:], x[..., :r/2]) * sin

Rules, rotation by rotation:

    1. The cosines and sines are the same for all heads, and for both halves of a head: what gives them is a
       concatenation of a value with itself, or a constant. Half of them is cut off, once for all rotations.
    2. RotaryEmbedding of ONNX, from opset 23 on, has them for each text. That of com.microsoft has them for each
       position, so there they have to be the same for all texts.
    3. float32 alone: in half precision the nodes round between each other.

Measured on ONNX Runtime 1.32: bench/latency.py, in the column "fused".
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import onnx_ir as ir

from opbridge.fit.fused.patterns import axes_of, dims, number, producer, put, shape_of
from opbridge.fit.fused.rotary import Rotary, rotary
from opbridge.fit.fused.steps import Steps

__all__ = ["fuse_rotations"]

_ONNX_FROM = 23
_OLDEST_OPSET = 13
_EACH_ELEMENT = ("Cast", "Cos", "Identity", "Neg", "Sin")


def fuse_rotations(graph: ir.Graph, opset: int) -> Counter[str]:
    """Fuses the rotary position embeddings of a graph, in place.

    Args:
        graph: The graph. The types of its values are known. The nodes that are fused stay, unread.
        opset: The opset of the model; before 13, nothing is fused.

    Returns:
        How many nodes "RotaryEmbedding" were put.
    """
    fusing = _Fusing(graph, opset)
    for node in list(graph) if opset >= _OLDEST_OPSET else ():
        found = rotary(node.outputs[0]) if node.op_type == "Add" and node.domain == "" else None
        if found is not None:
            fusing.fuse(node.outputs[0], found)
    return fusing.made


class _Fusing:
    """The rules for one graph."""

    def __init__(self, graph: ir.Graph, opset: int) -> None:
        self.made: Counter[str] = Counter()
        self._is_onnx = opset >= _ONNX_FROM
        self._steps = Steps(graph, "rotation")
        self._halves: dict[tuple[ir.Value, int | str | None], ir.Value] = {}
        self._start: ir.Value | None = None

    def fuse(self, value: ir.Value, found: Rotary) -> None:
        """Fuses a rotation, if it is one that may be."""
        texts, heads, tokens, size = dims(found.x, 4)
        if found.x.dtype != ir.DataType.FLOAT or texts is None or tokens is None or not isinstance(heads, int):
            return
        if dims(value, 4) != (texts, heads, tokens, size) or size != found.size or found.size % 2:
            return
        of_texts = (1, texts) if self._is_onnx else (1,)
        for factor in (found.cos, found.sin):
            sizes = (1,) * (4 - len(shape_of(factor) or ())) + (shape_of(factor) or ())
            if sizes[0] not in of_texts or sizes[1:] != (1, tokens, found.size) or not _is_doubled(factor):
                return
        before = value.producer()
        assert before is not None
        tables = [self._half(factor, found, before) for factor in (found.cos, found.sin)]
        if self._is_onnx:
            made = ir.node("RotaryEmbedding", [found.x, *tables])
        else:
            if self._start is None:
                self._start = self._steps.constant(np.zeros(1, np.int64), before, "start")
            made = ir.node("RotaryEmbedding", [found.x, self._start, *tables], domain="com.microsoft")
        put(made, [value])
        self.made["RotaryEmbedding"] += 1

    def _half(self, factor: ir.Value, found: Rotary, before: ir.Node) -> ir.Value:
        """One half of factors: [texts, tokens, size / 2] for ONNX's node, [tokens, size / 2] for the other one."""
        texts, _, tokens, size = dims(found.x, 4)
        key = factor, texts if self._is_onnx else None
        if key in self._halves:
            return self._halves[key]
        assert isinstance(size, int)
        ends = [self._constant(numbers, before) for numbers in ([0], [size // 2], [-1])]
        made = self._steps.step("Slice", [factor, *ends], before, "half")
        rank, sizes = len(shape_of(factor) or ()), [tokens, size // 2]
        if self._is_onnx:
            sizes.insert(0, (shape_of(factor) or (1,))[0] if rank == 4 else 1)
        if rank > len(sizes):
            axes = [1] if self._is_onnx else list(range(rank - 2))
            made = self._steps.step("Squeeze", [made, self._constant(axes, before)], before, "table")
        elif rank < len(sizes):
            made = self._steps.step("Unsqueeze", [made, self._constant([0], before)], before, "table")
        if self._is_onnx and sizes[0] != texts:
            count = self._steps.step("Shape", [found.x], before, "texts", start=0, end=1)
            shape = self._steps.step("Concat", [count, self._constant([1, 1], before)], before, "shape", axis=0)
            made = self._steps.step("Expand", [made, shape], before, "tables")
            sizes[0] = texts
        made.type, made.shape = factor.type, ir.Shape(sizes)
        self._halves[key] = made
        return made

    def _constant(self, numbers: list[int], before: ir.Node) -> ir.Value:
        return self._steps.constant(np.array(numbers, np.int64), before, "constant")


def _is_doubled(value: ir.Value | None) -> bool:
    """Whether both halves of the last dimension are the same."""
    while value is not None:
        tensor = ir.convenience.get_const_tensor(value)
        if tensor is not None:
            first, second = np.split(tensor.numpy(), 2, axis=-1)
            return np.array_equal(first, second)
        node = producer(value, "Concat", "Mul", "Unsqueeze", *_EACH_ELEMENT)
        rank = len(shape_of(value) or ())
        if node is None or not rank:
            return False
        if node.op_type == "Concat":
            is_last = node.attributes.get_int("axis", 0) in (-1, rank - 1)
            return is_last and len(node.inputs) == 2 and node.inputs[0] is node.inputs[1]
        if node.op_type == "Unsqueeze" and any(each in (-1, rank - 1) for each in axes_of(node, 1) or (-1,)):
            return False
        one, *others = node.inputs
        if node.op_type == "Mul":
            if number(one) is not None:
                one, others = others[0], [one]
            if number(others[0]) is None:
                return False
        value = one
    return False
