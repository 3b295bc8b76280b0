"""Values that the body of a higher-order operator takes from around it become operands of the operator."""

from __future__ import annotations

from typing import Any

from torch.fx import GraphModule, Node

from opbridge.base.torch_private import torch_higher_order
from opbridge.capture.tracer.recording import Recording
from opbridge.errors import CaptureError

__all__ = ["pass_free_values"]


def pass_free_values(recorder: Recording) -> None:
    """Gives each higher-order operator of a graph the values that its bodies use from outside, as further operands.

    Raises:
        CaptureError: An operator whose operands are not known has such values, or a value is unknown here too.
    """
    for node in list(recorder.graph.nodes):
        if node.op == "call_function" and torch_higher_order.is_higher_order(node.target):
            bodies = [
                body
                for argument in node.all_input_nodes
                if argument.op == "get_attr"
                and isinstance(body := recorder.tracer.attribute(str(argument.target)), GraphModule)
            ]
            free = {id(each.meta["free"]): each.meta["free"] for body in bodies for each in _free_nodes(body)}
            if free:
                _pass(recorder, node, bodies, list(free.values()))


def _free_nodes(body: GraphModule) -> list[Node]:
    return [node for node in body.graph.nodes if "free" in node.meta]


def _pass(recorder: Recording, node: Node, bodies: list[GraphModule], values: list[Any]) -> None:
    known = torch_higher_order.OPERANDS.get(node.target.name())
    if known is None:
        raise CaptureError(
            f"The function passed to {node.target} uses tensors from its enclosing scope. Pass them as operands."
        )
    for body in bodies:
        for value in values:
            _add_placeholder(body, value)
        body.recompile()
    _, position = known
    with recorder.graph.inserting_before(recorder.graph.output_node()):
        added = [_argument(recorder, value, node) for value in values]
    for each in added:
        if isinstance(each, Node):
            _move_before(each, node)
    args = list(node.args)
    args += [()] * (position + 1 - len(args))
    operands: Any = args[position]
    args[position] = (*operands, *added)
    node.args = tuple(args)


def _argument(recorder: Recording, value: Any, node: Node) -> Any:
    """A value as an operand of an operator.

    A size may be known as that of the operator's own result alone. Then it is computed from other sizes, or comes from
    around this graph too.
    """
    found = recorder.argument(value)
    if not (isinstance(found, Node) and _reads(found, node)):
        return found
    computed = recorder.tracer.arithmetic(value)
    if recorder.outside is None or not _reads(computed, node):
        return computed
    with recorder.graph.inserting_before(node):
        return recorder.free(value)


def _reads(value: Node, node: Node) -> bool:
    """Whether a value is computed from the result of a node."""
    waiting, seen = [value], {value}
    while waiting:
        for each in waiting.pop().all_input_nodes:
            if each is node:
                return True
            if each not in seen:
                seen.add(each)
                waiting.append(each)
    return False


def _move_before(value: Node, node: Node) -> None:
    """Moves a number that was first read after an operator, and what it is computed from, before that operator."""
    if value.graph is node.graph and node < value:
        for each in value.all_input_nodes:
            _move_before(each, node)
        node.prepend(value)


def _add_placeholder(body: GraphModule, value: Any) -> None:
    """A further argument of a body, which stands for a value wherever the body uses it."""
    graph = body.graph
    last = [each for each in graph.nodes if each.op == "placeholder"][-1:]
    with graph.inserting_after(last[0]) if last else graph.inserting_before(next(iter(graph.nodes))):
        placeholder = graph.placeholder("outer")
        placeholder.target = placeholder.name
    placeholder.meta["val"] = value
    for node in _free_nodes(body):
        if node.meta["free"] is value:
            node.replace_all_uses_with(placeholder)
            graph.erase_node(node)
