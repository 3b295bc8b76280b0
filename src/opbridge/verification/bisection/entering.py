"""A node that holds other nodes, as a model of these: the branch of an If that is taken, or a function's body."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import onnx
import onnx.inliner
import torch

from opbridge.onnx.subgraphs import GraphIndex, bodies, described
from opbridge.verification.bisection.cases import Case
from opbridge.verification.bisection.files import FileSide

__all__ = ["Held", "held", "same_names"]


@dataclass(frozen=True)
class Held:
    """The nodes that a node of each side holds.

    Attributes:
        models: The model of them, of each side.
        inputs: The inputs of each, by name.
        outputs: The name of the output that differs, in each.
        holder: The node that holds them, in words.
    """

    models: tuple[onnx.ModelProto, onnx.ModelProto]
    inputs: tuple[Mapping[str, torch.Tensor], Mapping[str, torch.Tensor]]
    outputs: tuple[str, str]
    holder: str


def held(case: Case) -> Held | None:
    """The nodes within two parts of one node each: the branch of an If that is taken, or a function's body.

    None where a part has several nodes, or its node is none of these.
    """
    first, second = (_inner(*each) for each in zip(case.sides, case.parts, case.inputs, case.outputs, strict=True))
    if first is None or second is None:
        return None
    (model, output, holder), (other, its_output, _) = first, second
    return Held((model, other), (case.inputs[0], case.inputs[1]), (output, its_output), holder)


def _inner(
    side: FileSide, part: onnx.ModelProto, inputs: Mapping[str, torch.Tensor], output: str
) -> tuple[onnx.ModelProto, str, str] | None:
    """The nodes within a part of one node, the name of an output there, and the node in words."""
    if len(part.graph.node) != 1:
        return None
    node = part.graph.node[0]
    if node.op_type == "If" and node.domain in ("", "ai.onnx"):
        return _branch(side, part, node, inputs, list(node.output).index(output))
    key = node.domain, node.op_type
    function = next((each for each in part.functions if (each.domain, each.name) == key), None)
    if function is not None:
        model = onnx.inliner.inline_selected_functions(part, [key], exclude=False)
        _name_nodes(model.graph.node, function.node)
        if model.graph.output[0].name == output and len(model.graph.node):
            return model, output, f"function {described(node)}"
    return None


def _name_nodes(nodes: Sequence[onnx.NodeProto], of_function: Sequence[onnx.NodeProto]) -> None:
    """Names nodes as those of the function whose body they are, which mostly have no name but that of a value."""
    if [each.op_type for each in nodes] != [each.op_type for each in of_function]:
        return  # the inliner has added some
    for node, its in zip(nodes, of_function, strict=True):
        node.name = its.name or next(iter(its.output), "")
        for body, inner in zip(bodies(node), bodies(its), strict=True):
            _name_nodes(body.node, inner.node)


def _branch(
    side: FileSide, part: onnx.ModelProto, node: onnx.NodeProto, inputs: Mapping[str, torch.Tensor], at: int
) -> tuple[onnx.ModelProto, str, str] | None:
    condition = side.given(part, inputs, node.input[0])
    if condition is None:
        return None
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
    return model, str(graph.output[at].name), f"{described(node)}, {taken}"


def same_names(left: GraphIndex, right: GraphIndex) -> Iterator[tuple[str, str]]:
    """The values of two models that have one name."""
    yield from ((name, name) for name in left.makers if name in right.makers)
