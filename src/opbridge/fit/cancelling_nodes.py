"""Nodes that undo each other: Casts to a wider type and back, Transposes one after another, Casts to the same type.

What is left computes the same bit by bit. ONNX Runtime removes some of these pairs when it loads a file, and other
runtimes do not.
"""

from __future__ import annotations

import onnx_ir as ir

from opbridge.fit.fused.patterns import producer

__all__ = ["cancel"]

_DIGITS = {ir.DataType.FLOAT16: 11, ir.DataType.BFLOAT16: 8, ir.DataType.FLOAT: 24, ir.DataType.DOUBLE: 53}
"""How many binary digits floating types have."""
_BITS = {
    getattr(ir.DataType, f"{sign}INT{bits}"): bits for sign in ("", "U") for bits in (8, 16, 32, 64)
}  # fmt: skip


def cancel(model: ir.Model) -> bool:
    """Removes nodes that undo each other, in place, in subgraphs too. Nodes that nothing reads any more stay.

    Args:
        model: The model. The types of its values are known.

    Returns:
        Whether anything was removed.
    """
    found = False
    for graph in (model.graph, *model.graph.subgraphs()):
        for node in graph:
            if node.domain == "" and node.op_type in _RULES:
                found |= _RULES[node.op_type](node)
    return found


def _cast(node: ir.Node) -> bool:
    given, made = node.inputs[0], node.outputs[0]
    if given is None or given.type is None or made.type is None:
        return False
    if given.dtype == made.dtype:
        return _replace(made, given)
    before = producer(given, "Cast")
    original = None if before is None else before.inputs[0]
    if original is None or original.dtype is None or original.dtype != made.dtype:
        return False
    return _holds(given.dtype, original.dtype) and _replace(made, original)


def _transpose(node: ir.Node) -> bool:
    """With a Transpose before it, one node remains, or none."""
    before = producer(node.inputs[0], "Transpose")
    orders = [_order(each) for each in (before, node)]
    if before is None or before.inputs[0] is None or orders[0] is None or orders[1] is None:
        return False
    order = [orders[0][axis] for axis in orders[1]]
    if order == sorted(order):
        return _replace(node.outputs[0], before.inputs[0])
    node.replace_input_with(0, before.inputs[0])
    node.attributes["perm"] = ir.AttrInt64s("perm", order)
    return True


_RULES = {"Cast": _cast, "Transpose": _transpose}


def _order(node: ir.Node | None) -> tuple[int, ...] | None:
    """The order of a Transpose; None: its default depends on a rank that is not known."""
    if node is None:
        return None
    if "perm" in node.attributes:
        return tuple(node.attributes.get_ints("perm", ()))
    shape = node.outputs[0].shape
    return None if shape is None else tuple(reversed(range(len(shape))))


def _replace(value: ir.Value, other: ir.Value) -> bool:
    """Lets all that reads a value read another one. The outputs of a graph stay values of their own."""
    if value.is_graph_output() or not value.uses():
        return False
    if other.shape is None:
        other.shape = value.shape
    value.replace_all_uses_with(other)
    return True


def _holds(wider: ir.DataType | None, kind: ir.DataType) -> bool:
    """Whether a type has all values of another one, so that a Cast to it and back changes nothing."""
    if wider is None:
        return False
    if kind == ir.DataType.BOOL:
        return wider in _DIGITS or wider in _BITS
    if kind in _DIGITS:
        return wider in (ir.DataType.FLOAT, ir.DataType.DOUBLE) and _DIGITS[wider] > _DIGITS[kind]
    if kind not in _BITS:
        return False
    is_signed = kind.is_signed()
    if wider in _DIGITS:
        return _DIGITS[wider] >= _BITS[kind] - is_signed
    return wider in _BITS and _BITS[wider] > _BITS[kind] and (wider.is_signed() or not is_signed)
