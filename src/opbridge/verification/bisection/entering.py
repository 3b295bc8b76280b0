"""A node that holds other nodes, as a model of these: the branch of an If that is taken, or a function's body."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import onnx
import onnx.inliner
import torch

from opbridge.onnx.subgraphs import GraphIndex, described

__all__ = ["Inner", "inner", "same_names"]


@dataclass(frozen=True)
class Inner:
    """The nodes that a node holds.

    Attributes:
        model: The model of them.
        holder: The node that holds them, in words.
        output: The position of the output that was asked for.
    """

    model: onnx.ModelProto
    holder: str
    output: int


def inner(part: onnx.ModelProto, inputs: Mapping[str, torch.Tensor], output: str) -> Inner | None:
    """The nodes within a part of one node; None where it has several, or that node holds none that can be entered.

    Args:
        part: The part.
        inputs: Its inputs.
        output: The name of the output that is asked for.
    """
    if len(part.graph.node) != 1:
        return None
    node = part.graph.node[0]
    at = list(node.output).index(output)
    if node.op_type == "If" and node.domain in ("", "ai.onnx"):
        return _branch(part, node, inputs, at)
    if any((each.domain, each.name) == (node.domain, node.op_type) for each in part.functions):
        model = onnx.inliner.inline_selected_functions(part, [(node.domain, node.op_type)], exclude=False)
        if model.graph.output[0].name == output and len(model.graph.node):
            return Inner(model, f"function {described(node)}", 0)
    return None


def _branch(part: onnx.ModelProto, node: onnx.NodeProto, inputs: Mapping[str, torch.Tensor], at: int) -> Inner | None:
    condition = inputs.get(node.input[0])
    if condition is None:
        stored = next((each for each in part.graph.initializer if each.name == node.input[0]), None)
        if stored is None:
            return None
        condition = torch.from_numpy(onnx.numpy_helper.to_array(stored).copy())
    taken = "then_branch" if bool(condition.reshape(-1)[0]) else "else_branch"
    body = next((each.g for each in node.attribute if each.name == taken), None)
    if body is None:
        return None
    model = onnx.ModelProto()
    model.CopyFrom(part)
    graph = model.graph
    del graph.node[:], graph.output[:]
    graph.node.extend(body.node)
    graph.initializer.extend(body.initializer)
    graph.sparse_initializer.extend(body.sparse_initializer)
    graph.value_info.extend(body.value_info)
    graph.output.extend(body.output)
    return Inner(model, f"{described(node)}, {taken}", at)


def same_names(left: GraphIndex, right: GraphIndex) -> Iterator[tuple[str, str]]:
    """The values of two models that have one name."""
    yield from ((name, name) for name in left.makers if name in right.makers)
