"""Rules on what a runtime's optimiser makes of a model, for the targets whose facts name them."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import onnx_ir as ir

from opbridge.onnx.transposed_products import functions_computing_in, operands_read_through_a_cast
from opbridge.rules.looking import Looked
from opbridge.rules.rule import Hit, NodeRule

__all__ = ["RULES", "kept_factor", "removed_factor", "types_cast_at"]

_D = ir.DataType
_FUSED = frozenset({_D.FLOAT, _D.DOUBLE, _D.INT32, _D.INT64})
"""The types in which (1 / x) * y is computed as y / x."""


class ReciprocalFactor(NodeRule):
    """A product with 1 / x whose other factor comes from a node that the optimiser removes."""

    identifier = "reciprocal-factor"
    title = "A product with 1 / x whose other factor is copied by a node without effect"
    why = (
        "The optimizer computes (1 / x) * y as y / x and removes the node that gives y, which the new division still "
        "reads: the model does not load."
    )
    remedy = "Remove the Identity, the Cast to the same type or the Dropout before the product, or divide by x."
    operators = frozenset({"Mul"})

    def hits(self, node: ir.Node, looked: Looked) -> Iterator[Hit]:
        at = removed_factor(node, looked)
        if at is not None:
            value = node.inputs[at]
            maker = value.producer() if value is not None else None
            assert maker is not None
            yield Hit(f"Mul multiplies 1 / x by the result of {maker.op_type}, which has no effect.", node)


def removed_factor(node: ir.Node, looked: Looked) -> int | None:
    """The place of a factor of 1 / x that comes from a node without effect; None: there is none.

    1. The other factor is the quotient of a 1 that is stored, in one element, and nothing else reads it.
    2. Nothing but nodes reads the factor, and the node that gives it stands before the division.
    """
    if len(node.inputs) != 2 or node.graph is not looked.model.graph or node.outputs[0].dtype not in _FUSED:
        return None
    for at in (0, 1):
        factor, quotient = node.inputs[at], node.inputs[1 - at]
        maker, division = (None if each is None else each.producer() for each in (factor, quotient))
        if factor is None or maker is None or division is None or quotient is None:
            continue
        if factor.is_graph_output() or not _is_reciprocal(division, looked) or len(quotient.uses()) != 1:
            continue
        if quotient.is_graph_output() or kept_factor(factor) is factor:
            continue
        if looked.places[maker] < looked.places[division]:
            return at
    return None


def kept_factor(value: ir.Value) -> ir.Value:
    """What a value is a copy of, by way of nodes without effect: the value itself where it is none."""
    node = value.producer()
    while node is not None and node.domain in ("", "ai.onnx") and _has_no_effect(node, value):
        given = node.inputs[0]
        assert given is not None
        value, node = given, given.producer()
    return value


def _has_no_effect(node: ir.Node, value: ir.Value) -> bool:
    if not node.inputs or node.inputs[0] is None or value is not node.outputs[0]:
        return False
    if node.op_type == "Cast":
        return node.inputs[0].dtype is not None and node.inputs[0].dtype == value.dtype
    if node.op_type == "Dropout":
        return len(node.inputs) == 1 and not any(each.uses() or each.is_graph_output() for each in node.outputs[1:])
    return node.op_type == "Identity"


def _is_reciprocal(node: ir.Node, looked: Looked) -> bool:
    if node.op_type != "Div" or node.domain not in ("", "ai.onnx") or len(node.inputs) != 2:
        return False
    known = looked.constant(node.inputs[0])
    return known is not None and known.size == 1 and bool(known.reshape(()) == 1)


def types_cast_at(product: ir.Node, looked: Looked) -> Collection[ir.DataType | None]:
    """The types that ONNX Runtime casts before a MatMul; None: values without a type, in a function of float16."""
    number = looked.function_of(product)
    if not number or not operands_read_through_a_cast(product, (_D.FLOAT16, None)):
        return (_D.FLOAT16,)
    function = list(looked.model.functions.values())[number - 1]
    return (_D.FLOAT16, None) if function in functions_computing_in(looked.model, (_D.FLOAT16,)) else (_D.FLOAT16,)


class TransposedCast(NodeRule):
    """A Cast between a Transpose that moves the first dimension and a MatMul of operands of other ranks."""

    identifier = "transposed-cast"
    title = "A Cast between a Transpose of the first dimension and a MatMul"
    why = (
        "The optimizer (MatmulTransposeFusion) merges the Transpose with the MatMul through the Cast, reads a value "
        "that is not there, and ends the process that loads the model. Before a MatMul of float16, which has no kernel "
        "on the CPU, ONNX Runtime inserts such a Cast itself."
    )
    remedy = (
        "Cast before the Transpose, or load the model with opbridge.session or with "
        'disabled_optimizers=["MatmulTransposeFusion"].'
    )
    operators = frozenset({"MatMul"})

    def hits(self, node: ir.Node, looked: Looked) -> Iterator[Hit]:
        types = types_cast_at(node, looked)
        for at in operands_read_through_a_cast(node, types):
            value = node.inputs[at]
            assert value is not None
            maker = value.producer()
            told = "a Cast" if maker is not None and maker.op_type == "Cast" else "a Cast of ONNX Runtime's own"
            yield Hit(f"MatMul reads a transposed operand through {told}.", node)


RULES: tuple[type[NodeRule], ...] = (ReciprocalFactor, TransposedCast)
