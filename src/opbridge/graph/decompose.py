"""Decomposes one operator into a graph of operators that have translations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.fx import GraphModule, Node

from opbridge.base.torch_private import torch_operators, torch_proxies, torch_sizes, torch_tracing
from opbridge.graph.backward_operators import DECOMPOSITIONS

__all__ = ["decompose"]


def decompose(node: Node, is_translated: Callable[[str], bool]) -> GraphModule | None:
    """The decomposition of an operator as a graph, torch's or ours, or None where there is none.

    The graph's placeholders are the node's tensor and symbolic arguments, in the order of `node.all_input_nodes`; the
    other arguments are constants in it.

    Args:
        node: A call of a `torch._ops.OpOverload`, whose arguments carry their fake values in `meta["val"]`.
        is_translated: Whether an operator, by name, has a translation and needs no decomposition.
    """
    if not isinstance(node.target, torch._ops.OpOverload):
        return None
    inputs = node.all_input_nodes
    values = [argument.meta.get("val") for argument in inputs]
    if any(value is None for value in values):
        return None
    table = {
        target: function
        for target, function in (torch_operators.decomposition_table() | DECOMPOSITIONS).items()
        if target is node.target or not is_translated(target.name())
    }

    def call(*given: Any) -> Any:
        by_node = dict(zip(inputs, given, strict=True))
        args = torch.fx.node.map_arg(node.args, by_node.__getitem__)
        kwargs = torch.fx.node.map_arg(node.kwargs, by_node.__getitem__)
        return node.target(*args, **kwargs)

    try:
        # With torch's Python dispatcher, whose implementations keep symbolic sizes where kernels in C++ would fix them.
        # What the capture did not ask about the numbers among the arguments, nothing may ask here: the answer would be
        # that of the example.
        with torch_sizes.refusing_questions(_scalars(node)), torch_proxies.enable_python_dispatcher():
            graph = torch_tracing.trace_under(_fake_mode(values), call, values, table)
    except Exception:
        # A decomposition that fails counts as none; the plan reports that the operator is missing.
        return None
    calls = [inner for inner in graph.graph.nodes if inner.op == "call_function"]
    if any(inner.target is node.target for inner in calls):
        return None
    return graph


def _scalars(node: Node) -> list[Any]:
    """The values of the arguments of the type Scalar that are nodes of the graph."""
    arguments = node.target._schema.arguments
    scalars = {argument.name for argument in arguments if str(argument.type) in ("number", "Optional[number]")}
    given = {argument.name: value for argument, value in zip(arguments, node.args, strict=False)} | node.kwargs
    return [value.meta.get("val") for name, value in given.items() if name in scalars and isinstance(value, Node)]


def _fake_mode(values: list[Any]) -> Any:
    modes = (getattr(value, "fake_mode", None) for value in values)
    return next((mode for mode in modes if mode is not None), None)
