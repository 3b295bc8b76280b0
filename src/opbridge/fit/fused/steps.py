"""The nodes that a fused node needs before it: one place names them, and says where they come from."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from opbridge.fit.fused.patterns import dims, producer
from opbridge.fit.fused.scores import HEADS_BY_TOKENS

__all__ = ["Steps", "joined_tokens"]

_SOURCES = ("opbridge.operator", "opbridge.module", "opbridge.source")


class Steps:
    """Puts nodes of ONNX's own domain into a graph.

    Args:
        graph: The graph.
        name: What the names of the nodes begin with. No two of a graph have the same.
    """

    def __init__(self, graph: ir.Graph, name: str) -> None:
        self._graph, self._name = graph, name
        self._count = 0

    def step(
        self, op_type: str, inputs: list[ir.Value], before: ir.Node, what: str, **attributes: int | list[int]
    ) -> ir.Value:
        """The output of a new node.

        Args:
            op_type: Its operator.
            inputs: Its inputs.
            before: The node that it is put before, and whose place in the model it gets.
            what: What its name ends in.
            attributes: Its attributes.
        """
        return self.place(ir.node(op_type, inputs, attributes or None), before, what)

    def constant(self, found: np.ndarray, before: ir.Node, what: str) -> ir.Value:
        """A new constant."""
        value = self.place(ir.node("Constant", [], {"value": ir.tensor(found)}), before, what)
        value.type, value.shape = ir.TensorType(ir.DataType.from_numpy(found.dtype)), ir.Shape(found.shape)
        return value

    def by_token(self, value: ir.Value, width: int, before: ir.Node) -> ir.Value:
        """A value of shape [batch, heads, tokens, size] as [batch, tokens, heads * size], which is `width`."""
        transposed = producer(value, "Transpose")
        tokens: ir.Value | None = None
        if transposed is not None and list(transposed.attributes.get_ints("perm", ())) == HEADS_BY_TOKENS:
            tokens = transposed.inputs[0]
        if tokens is None:
            tokens = self.step("Transpose", [value], before, "by_token", perm=HEADS_BY_TOKENS)
            tokens.type, shape = value.type, value.shape
            if shape is not None:
                tokens.shape = ir.Shape([shape[0], shape[2], shape[1], shape[3]])
        if (whole := joined_tokens(tokens, width)) is not None:
            return whole
        wanted = self.constant(np.array([0, 0, width], np.int64), before, "shape")
        found = self.step("Reshape", [tokens, wanted], before, "joined")
        found.type = value.type
        if tokens.shape is not None:
            found.shape = ir.Shape([*tokens.shape[:2], width])
        return found

    def place(self, made: ir.Node, before: ir.Node, what: str) -> ir.Value:
        """The output of a node, which is put before another one."""
        self._count += 1
        made.name = f"{self._name}_{self._count}/{what}"
        made.outputs[0].name = made.name
        made.metadata_props.update({key: text for key, text in before.metadata_props.items() if key in _SOURCES})
        self._graph.insert_before(before, made)
        return made.outputs[0]


def joined_tokens(tokens: ir.Value | None, width: int) -> ir.Value | None:
    """The value of shape [batch, tokens, width] that one of shape [batch, tokens, heads, size] is a view of."""
    reshaped = producer(tokens, "Reshape")
    if reshaped is None or tokens is None or reshaped.inputs[0] is None:
        return None
    whole = dims(reshaped.inputs[0], 3)
    return reshaped.inputs[0] if whole == (*dims(tokens, 4)[:2], width) and None not in whole else None
