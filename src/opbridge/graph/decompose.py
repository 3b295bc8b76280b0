"""Decomposes one operator into a graph of operators that have translations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.fx import GraphModule, Node

from opbridge.base.torch_private import (
    torch_known_sizes,
    torch_operators,
    torch_proxies,
    torch_sizes,
    torch_tracing,
)
from opbridge.graph import backward_operators, plain_operators

__all__ = ["decompose", "decompositions"]


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
    values = [argument.meta.get("val") for argument in node.all_input_nodes]
    if any(value is None for value in values):
        return None
    if torch.Tag.inplace_view in node.target.tags:  # it would change the shapes that the arguments have in the graph
        values = [torch_proxies.snapshot(value) if isinstance(value, torch.Tensor) else value for value in values]
    table = {
        target: function
        for target, function in decompositions().items()
        if target is node.target or not is_translated(target.name())
    }
    graph = _traced(node, node.target, values, table)
    kernel = torch_operators.composite_kernel(node.target) if graph is None else None
    return graph if kernel is None else _traced(node, kernel, values, table)


def decompositions() -> dict[Any, Callable[..., Any]]:
    """torch's decompositions and ours, by operator; where both have one, ours."""
    ours = backward_operators.DECOMPOSITIONS | plain_operators.DECOMPOSITIONS
    return torch_operators.decomposition_table() | ours


def _traced(
    node: Node, function: Callable[..., Any], values: list[Any], table: dict[Any, Callable[..., Any]]
) -> GraphModule | None:
    """The graph of a function of the node's arguments, or None where it fails or calls the node's operator itself."""
    inputs = node.all_input_nodes

    def call(*given: Any) -> Any:
        by_node = dict(zip(inputs, given, strict=True))
        args = torch.fx.node.map_arg(node.args, by_node.__getitem__)
        kwargs = torch.fx.node.map_arg(node.kwargs, by_node.__getitem__)
        return function(*args, **kwargs)

    fake_mode = _fake_mode(values)
    learned = torch_known_sizes.Learned(getattr(fake_mode, "shape_env", None))
    try:
        # With torch's Python dispatcher, whose implementations keep symbolic sizes where kernels in C++ would fix them.
        # What the capture did not ask about the numbers among the arguments, nothing may ask here: the answer would be
        # that of the example. Nor may a dynamic size that is one in the example count as one.
        with (
            torch_sizes.small_sizes_dynamic(fake_mode is not None),
            torch_sizes.refusing_questions(_scalars(node)),
            torch_proxies.enable_python_dispatcher(),
        ):
            graph = torch_tracing.trace_under(fake_mode, call, values, table)
            if any(map(_writes, graph.graph.nodes)):
                # The value of a node is what it returns: a write to a view would not reach what it is a view of.
                functional = torch.func.functionalize(torch.fx.Interpreter(graph).run)
                graph = torch_tracing.trace_under(fake_mode, functional, values, table)
                _drop_writes_to_arguments(graph)
    except Exception:
        # A decomposition that fails counts as none; the plan reports that the operator is missing.
        learned.forget()
        return None
    if learned.fixes_a_size():  # it holds for the example's size only
        learned.forget()
        return None
    if any(inner.op == "call_function" and inner.target is node.target for inner in graph.graph.nodes):
        return None
    return None if _lost_track(graph) else graph


def _lost_track(graph: GraphModule) -> bool:
    """Whether a tensor without numbers became a constant: its operators were hidden from the trace."""
    names = (str(node.target) for node in graph.graph.nodes if node.op == "get_attr")
    return any(isinstance(getattr(graph, name, None), torch_proxies.FakeTensor) for name in names)


def _scalars(node: Node) -> list[Any]:
    """The values of the arguments of the type Scalar that are nodes of the graph."""
    arguments = node.target._schema.arguments
    scalars = {argument.name for argument in arguments if str(argument.type) in ("number", "Optional[number]")}
    given = {argument.name: value for argument, value in zip(arguments, node.args, strict=False)} | node.kwargs
    return [value.meta.get("val") for name, value in given.items() if name in scalars and isinstance(value, Node)]


def _writes(node: Node) -> bool:
    schema = getattr(node.target, "_schema", None)
    return schema is not None and bool(schema.is_mutable)


def _drop_writes_to_arguments(graph: GraphModule) -> None:
    """Removes the copies of results into arguments, which the node of the operator stands for."""
    for node in reversed(graph.graph.nodes):
        if node.target is torch.ops.aten.copy_.default and not node.users:
            graph.graph.erase_node(node)
    graph.recompile()


def _fake_mode(values: list[Any]) -> Any:
    modes = (getattr(value, "fake_mode", None) for value in values)
    return next((mode for mode in modes if mode is not None), None)
