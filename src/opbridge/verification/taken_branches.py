"""A file and its captured graph without decisions: in the place of each, the branch that some inputs take.

The nodes of a branch stand in a graph of their own, so that no value of it can be read, and none be replaced by the
runtime's. Where the branch stands in the place of its decision, both are done as with any other node.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import onnx_ir as ir
import torch
from torch.fx import Node

from opbridge.capture.functionalize import FunctionalGraph
from opbridge.graph.captured_graph import Leaf
from opbridge.graph.control_flow import inner_name
from opbridge.graph.operators import operator_of
from opbridge.verification.graph_copy import GraphCopy
from opbridge.verification.graph_run import GraphRun

__all__ = ["along_taken_branches"]

_MOST_LEVELS = 8
_COND = "higher_order::cond"


def along_taken_branches(
    model: ir.Model,
    functional: FunctionalGraph,
    leaves: Sequence[Any],
    matters: Callable[[Node], bool],
    note: Callable[[str, str], None] | None = None,
) -> tuple[ir.Model, FunctionalGraph]:
    """The model and the graph with the branches that inputs take, where these hold a node that matters.

    Args:
        model: The ONNX model. It is not changed.
        functional: The captured graph that it was made from. It is not changed.
        leaves: The leaves of `(args, kwargs)`.
        matters: Whether a node matters.
        note: Is told of each decision the name of its condition, in the model and in the graph.

    Raises:
        Unusable: PyTorch cannot compute a node.
    """
    for _ in range(_MOST_LEVELS):
        wanted = [node for node in functional.graph.graph.nodes if _is_decision(node) and _holds(node, matters)]
        answers = _answers(functional, leaves, wanted) if wanted else {}
        named = {name: node for node in model.graph if node.op_type == "If" and (name := _name_of(node)) is not None}
        answers = {node: answer for node, answer in answers.items() if node.name in named}
        if not answers:
            break
        model = model.clone()
        for each in list(model.graph):
            name = _name_of(each) if each.op_type == "If" else None
            decision = next((node for node in answers if node.name == name), None)
            if name is not None and decision is not None:
                conditions = each.inputs[0], decision.args[0]
                if note is not None and conditions[0] is not None and isinstance(conditions[1], Node):
                    note(str(conditions[0].name), conditions[1].name)
                _put_branch(model.graph, each, name, answers[decision])
        functional = _with_branches(functional, answers)
    return model, functional


def _is_decision(node: Node) -> bool:
    return node.op == "call_function" and operator_of(node) == _COND


def _holds(node: Node, matters: Callable[[Node], bool]) -> bool:
    """Whether a branch of a decision has a node that matters."""
    root = node.graph.owning_module
    branches = [getattr(root, str(each.target)) for each in node.args[1:3] if isinstance(each, Node)]
    return any(
        matters(inner) or (_is_decision(inner) and _holds(inner, matters))
        for branch in branches
        for inner in branch.graph.nodes
        if inner.op == "call_function"
    )


def _answers(functional: FunctionalGraph, leaves: Sequence[Any], wanted: Sequence[Node]) -> dict[Node, bool]:
    """What some decisions come to."""
    found: dict[Node, bool] = {}
    run = GraphRun(functional, leaves)
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        for node in functional.graph.graph.nodes:
            if node.op == "get_attr":
                run.read(node)
            elif node.op == "call_function":
                if node in wanted:
                    condition = node.args[0]
                    found[node] = bool(run.values[condition] if isinstance(condition, Node) else condition)
                run.assign(node, run.compute(node))
    return found


def _name_of(node: ir.Node) -> str | None:
    """The name of the captured node that an `If` was made from."""
    keys = node.metadata_props.get("opbridge.node", "").split()
    return keys[0].partition(":")[0] if keys else None


def _put_branch(graph: ir.Graph, decision: ir.Node, name: str, answer: bool) -> None:
    """Puts the nodes of a branch into the graph, in the place of the decision."""
    branch = decision.attributes["then_branch" if answer else "else_branch"].as_graph()
    returned, nodes = list(branch.outputs), list(branch)
    constants = list(branch.initializers.values())
    branch.outputs.clear()
    branch.initializers.clear()
    branch.remove(nodes)
    for constant in constants:
        graph.initializers[str(constant.name)] = constant
    for node in nodes:
        keys = node.metadata_props.get("opbridge.node", "").split()
        if keys:
            node.metadata_props["opbridge.node"] = " ".join(inner_name(name, key) for key in keys)
    graph.insert_before(decision, nodes)
    for old, new in zip(decision.outputs, returned, strict=True):
        if any(output is old for output in graph.outputs):
            same = ir.node("Identity", [new], outputs=[ir.Value(name=old.name, type=old.type, shape=old.shape)])
            graph.insert_before(decision, same)
            new = same.outputs[0]
            for position, output in enumerate(graph.outputs):
                if output is old:
                    graph.outputs[position] = new
        ir.convenience.replace_all_uses_with(old, new)
    graph.remove(decision, safe=True)


def _with_branches(functional: FunctionalGraph, answers: dict[Node, bool]) -> FunctionalGraph:
    """The captured graph with the branches of some decisions in their place."""
    old = functional.graph
    copy = GraphCopy()
    stands_for = copy.stands_for

    def put(decision: Node) -> Any:
        taken: Any = decision.args[1 if answers[decision] else 2]
        branch: Any = getattr(decision.graph.owning_module, str(taken.target))
        operands: Any = decision.args[3] if len(decision.args) > 3 else ()
        given = [stands_for[each] if isinstance(each, Node) else each for each in operands]
        return copy.put(branch, given, lambda name: inner_name(decision.name, name))

    for node in old.graph.nodes:
        if node in answers:
            stands_for[node] = put(node)
        elif node.op == "call_function" and operator_of(node) == "_operator::getitem" and node.args[0] in answers:
            stands_for[node] = stands_for[node.args[0]][node.args[1]]
        else:
            copy.add(node, node.name)

    def leaf(each: Leaf) -> Leaf:
        if each.node is None:
            return each
        new = stands_for[each.node]
        return dataclasses.replace(each, node=new) if isinstance(new, Node) else Leaf(each.name, None, new)

    captured = dataclasses.replace(
        old,
        module=copy.module(),
        inputs=tuple(map(leaf, old.inputs)),
        outputs=tuple(map(leaf, old.outputs)),
        weights={stands_for[node]: weight for node, weight in old.weights.items()},
    )
    constant = {new for node in functional.constant if isinstance(new := stands_for[node], Node)}
    rebinds = {
        stands_for[node]: {stands_for[each]: path for each, path in of.items()}
        for node, of in functional.rebinds.items()
    }
    return FunctionalGraph(captured, constant, rebinds)
