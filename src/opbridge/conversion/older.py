"""A node written in operators that are older than its own, or that ONNX defines it by, at the opset that it is of."""

from __future__ import annotations

from collections.abc import Callable, Collection

import onnx_ir as ir

from opbridge.conversion import schemas
from opbridge.conversion.functions import expanded
from opbridge.conversion.placing import detach, replace
from opbridge.conversion.step import LOWER, Refused, Step
from opbridge.conversion.steps import Converter
from opbridge.conversion.types import Types

__all__ = ["in_older_operators", "may_be_older"]

_OLDEST = 7
"""The oldest opset that nodes are converted to."""


def may_be_older(operator: str) -> bool:
    """Whether an operator has a definition, or calls of it that are rewritten at an older opset."""
    if any(name == operator for name, _ in LOWER):
        return True
    forms = (schemas.form(operator, each) for each in schemas.changes(operator))
    return any(each is not None and (each.has_function or each.has_context_dependent_function) for each in forms)


def in_older_operators(
    node: ir.Node,
    opset: int,
    types: Types,
    name: Callable[[str], str],
    refused: Callable[[ir.Node], bool] | None = None,
    unwanted: Collection[str] = (),
) -> list[str]:
    """Puts others in the place of a node: those that it is lowered to at the opset before its operator came.

    Args:
        node: The node.
        opset: The opset that it is of, and that the nodes in its place are of.
        types: What is known of the model's values.
        name: Gives a value or a node a new name.
        refused: Whether a call of the operator itself is not wanted; None: none is. Else what the node is lowered to at
            the opset before a newer form of it came will do.
        unwanted: Other operators that must not be among them.

    Returns:
        The operators in its place.

    Raises:
        Refused: There are none. The model is as it was.
    """
    forms = schemas.changes(node.op_type)
    if node.domain not in ("", "ai.onnx") or not forms or schemas.form(node.op_type, opset) is None:
        raise Refused("(no operator of ONNX)")
    stops = [each for each in forms[1:] if _OLDEST < each <= opset] if refused is not None else []
    reason: Refused | None = None
    for stop in (*reversed(stops), forms[0]):
        scratch = _Scratch(node, opset, types)
        try:
            if stop > _OLDEST:
                scratch.lower(stop - 1, name)
            else:
                scratch.define(name)
            return scratch.put_in_place(name, refused, unwanted)
        except Refused as found:
            scratch.discard()
            reason = reason or found
    assert reason is not None
    raise reason


class _Scratch:
    """A copy of a node in a graph of its own, which may be changed and given up."""

    def __init__(self, node: ir.Node, opset: int, types: Types) -> None:
        self._node, self._opset, self._types = node, opset, types
        self._given: dict[ir.Value, ir.Value] = {}
        inputs = [None if each is None else self._stand_in(each) for each in node.inputs]
        attributes = [ir.Attr(each.name, each.type, each.value) for each in node.attributes.values()]
        if any(each.type in (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS) for each in attributes):
            raise Refused("with bodies")
        self._copy = ir.Node(
            "",
            node.op_type,
            inputs,
            attributes,
            num_outputs=len(node.outputs),
            name=node.name,
            metadata_props=dict(node.metadata_props),
        )
        self._used = [bool(each.uses()) or each.is_graph_output() for each in node.outputs]
        outputs = []
        for used, old, new in zip(self._used, node.outputs, self._copy.outputs, strict=True):
            new.name, new.type, new.shape = old.name if used else "", old.type, old.shape
            if used:
                outputs.append(new)
        self._graph = ir.Graph([], outputs, nodes=[self._copy], opset_imports={"": opset})
        self._model = ir.Model(self._graph, ir_version=10)
        self._own = Types(self._model, None)

    def _stand_in(self, value: ir.Value) -> ir.Value:
        if value not in self._given:
            made = ir.Value(name=value.name, type=value.type, shape=value.shape, const_value=value.const_value)
            known = self._types.constant(value)
            if made.const_value is None and known is not None:
                made.const_value = ir.tensor(known, dtype=self._types.dtype(value))
            self._given[value] = made
        return self._given[value]

    def lower(self, opset: int, name: Callable[[str], str]) -> None:
        """Puts the copy at an older opset, and what it has become back at its own."""
        Converter(self._model, self._own, opset, name).settle(self._copy, self._opset)
        back = Converter(self._model, self._own, self._opset, name)
        for node in list(self._graph):
            back.settle(node, opset)

    def define(self, name: Callable[[str], str]) -> None:
        """Puts the copy's definition in its place."""
        schema = schemas.form(self._copy.op_type, self._opset)
        assert schema is not None
        step = Step(self._copy, self._own, self._opset, self._opset, name)
        results = expanded(step, schema, self._opset)
        if not step.new:
            raise Refused("(ONNX has no definition of it)")
        replace(step, results)
        converter = Converter(self._model, self._own, self._opset, name)
        for node, opset in step.new:
            if node.graph is not None:
                converter.settle(node, opset)

    def discard(self) -> None:
        """Gives up the copy."""
        for node in list(self._graph):
            detach(node)

    def _give_types(self, nodes: list[ir.Node]) -> None:
        """Notes the types of values where those who look at the nodes see them."""
        for value in (value for node in nodes for value in node.outputs):
            dtype, shape = self._own.dtype(value), self._own.shape(value)
            if value.type is None and dtype is not None:
                value.type = ir.TensorType(dtype)
                value.shape = None if shape is None else ir.Shape(shape)

    def put_in_place(
        self, name: Callable[[str], str], refused: Callable[[ir.Node], bool] | None, unwanted: Collection[str]
    ) -> list[str]:
        """Moves what the copy has become to the model.

        Raises:
            Refused: The operator itself is among it, in a call that is not wanted.
        """
        nodes = list(self._graph)
        self._give_types(nodes)
        if any(each.op_type == self._node.op_type and (refused is None or refused(each)) for each in nodes):
            raise Refused("(no other operators are older)")
        if lacked := [each.op_type for each in nodes if each.op_type in unwanted]:
            raise Refused(f"(it would be written with {lacked[0]})")
        outputs = iter(list(self._graph.outputs))
        results: list[ir.Value | None] = [next(outputs) if used else None for used in self._used]
        for given, stand_in in self._given.items():
            ir.convenience.replace_all_uses_with(stand_in, given)
            results = [given if each is stand_in else each for each in results]
        self._graph.outputs.clear()
        step = Step(self._node, self._types, self._opset, self._opset, name)
        for node in nodes:
            self._graph.remove(node, safe=False)
            for value in node.outputs:
                type_ = self._own.of(value)
                if type_ is not None:
                    self._types.set(value, type_)
            step.new.append((node, self._opset))
        replace(step, results)
        return list(dict.fromkeys(each.op_type for each in nodes if each.op_type not in ("Constant", "Identity")))
