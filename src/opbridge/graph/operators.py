"""The operators that a captured graph calls, by name."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch.fx import GraphModule, Node

from opbridge.base.torch_private import torch_operators
from opbridge.graph.function_calls import call_of

__all__ = ["UNINITIALIZED", "calls_in", "functional_name", "functional_operator_of", "operator_of"]

UNINITIALIZED = frozenset({"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided"})
"""Operators of aten whose values are what the memory held before."""


def operator_of(node: Node) -> str:
    """The name of the operator that a node calls: the class's for a function, torch's for any other."""
    call = call_of(node)
    return call.name if call is not None else torch_operators.operator_name(node.target) or str(node.target)


def functional_name(operator: str) -> str | None:
    """An in-place operator's functional form by name, "aten::add_.Tensor" -> "aten::add.Tensor"; None for others."""
    namespace, _, rest = operator.partition("::")
    base, dot, overload = rest.partition(".")
    if base.startswith("__i") and base.endswith("__"):
        return f"{namespace}::__{base[3:]}{dot}{overload}"
    if base.endswith("_") and not base.endswith("__"):
        return f"{namespace}::{base[:-1]}{dot}{overload}"
    return None


def functional_operator_of(node: Node) -> str:
    """The name of the operator that a node calls; of an in-place one that of its functional form."""
    name = operator_of(node)
    return functional_name(name) or name


# Assertions and bookkeeping of torch.export, for which an ONNX model has no nodes.
_NOT_OPERATORS = frozenset(
    {
        "aten::_assert_async.msg",
        "aten::_assert_async",
        "aten::_assert_scalar",
        "aten::_assert_tensor_metadata",
        "aten::sym_constrain_range",
        "aten::sym_constrain_range_for_size",
        "_operator::getitem",
    }
)


def calls_in(module: GraphModule) -> Iterator[tuple[Node, str]]:
    """The operators that a graph calls, with their names, without assertions and what only these read."""
    ignored: set[Node] = set()  # assertions, and nodes that only they read
    for node in reversed(module.graph.nodes):
        if node.op != "call_function":
            continue
        asserts = operator_of(node).partition("::")[2].startswith(("_assert", "sym_constrain"))
        is_number = isinstance(node.meta.get("val"), (torch.SymInt, torch.SymFloat, torch.SymBool, bool, int, float))
        if asserts or (is_number and node.users and ignored.issuperset(node.users)):
            ignored.add(node)
    for node in module.graph.nodes:
        if node.op == "call_function" and node not in ignored:
            operator = operator_of(node)
            if operator not in _NOT_OPERATORS:
                yield node, operator
