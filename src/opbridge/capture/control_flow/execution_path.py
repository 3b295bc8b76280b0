"""One capture of a model that decides by data: its operators between the decisions."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Node

from opbridge.base.torch_private import torch_sizes
from opbridge.base.torch_private.torch_branch_operators import DECISION
from opbridge.capture.control_flow.branch_oracle import BranchEvent
from opbridge.graph.captured_graph import CapturedGraph

__all__ = ["ExecutionPath", "is_number", "shape_of"]

_NUMBERS = (torch.SymInt, torch.SymFloat, torch.SymBool, int, float, bool)


@dataclass(frozen=True, eq=False, repr=False)
class ExecutionPath:
    """One capture.

    Attributes:
        graph: What it recorded, without in-place operators.
        events: The decisions that it came to.
        decisions: Their nodes.
        segments: The operators before the first decision, between two, and after the last one, without the arithmetic
            of sizes, and without those that nothing reads: what is written to in place has such views left, of which
            there are others in another iteration of a loop.
    """

    graph: CapturedGraph
    events: tuple[BranchEvent, ...]
    decisions: tuple[Node, ...]
    segments: tuple[tuple[Node, ...], ...]

    @classmethod
    def of(cls, graph: CapturedGraph, events: Sequence[BranchEvent], *, of_sizes: bool = False) -> ExecutionPath:
        """The path of a capture.

        Args:
            graph: The capture.
            events: Its decisions.
            of_sizes: Whether sizes decide.
        """
        decisions: list[Node] = []
        segments: list[list[Node]] = [[]]
        if of_sizes:
            _forget_strides(graph)
        else:
            _drop_copies(graph)
        _share_views(graph)
        unread = _unread(graph)
        for node in graph.graph.nodes:
            if node in unread:
                continue
            if node.op == "call_function" and node.target is DECISION:
                decisions.append(node)
                segments.append([])
            elif node.op == "call_function" and not is_number(node):
                segments[-1].append(node)
        return cls(graph, tuple(events), tuple(decisions), tuple(map(tuple, segments)))

    def input_name(self, node: Node) -> str:
        """The name of the input that a placeholder is, which the placeholder itself may not have."""
        return next(leaf.name for leaf in self.graph.inputs if leaf.node is node)

    def input(self, name: str) -> Node | None:
        """The placeholder of an input; None where there is none of this name."""
        return next((leaf.node for leaf in self.graph.inputs if leaf.name == name), None)


def _drop_copies(graph: CapturedGraph) -> None:
    """Has copies be what they are copies of: nothing is written to any more.

    `y.clone() if y is x else y` makes one in some paths only.
    """
    for node in graph.graph.find_nodes(op="call_function", target=torch.ops.aten.clone.default):
        source, copy = node.args[0].meta.get("val"), node.meta.get("val")
        if isinstance(source, torch.Tensor) and torch_sizes.has_same_strides(source, copy):
            node.replace_all_uses_with(node.args[0])
            graph.graph.erase_node(node)


def _forget_strides(graph: CapturedGraph) -> None:
    """Has no operator depend on strides: `reshape` makes a view for some sizes, and a copy for others.

    Nothing is written to any more, so that a copy is what it is copied from.
    """
    nodes = list(graph.graph.nodes)
    if any("as_strided" in str(node.target) for node in nodes):
        return
    for node in nodes:
        if node.op == "call_function" and node.target is torch.ops.aten.clone.default:
            node.replace_all_uses_with(node.args[0])
            graph.graph.erase_node(node)
        elif node.op == "call_function" and node.target in _RESHAPING:
            node.target = torch.ops.aten.reshape.default


_RESHAPING = (
    torch.ops.aten.view.default,
    torch.ops.aten._unsafe_view.default,
    torch.ops.aten._reshape_alias.default,
)


def _share_views(graph: CapturedGraph) -> None:
    """Has views that are the same, between two decisions, be one: the first of them.

    torch's functionalisation makes a view of what has been written to again, where it is first read. Where a path has
    not written to it, the view is read where the model makes it.
    """
    known: dict[Hashable, Node] = {}
    for node in graph.graph.nodes:
        if node.op != "call_function":
            continue
        if node.target is DECISION:
            known.clear()
        elif _is_view(node.target):
            first = known.setdefault((node.target, repr(node.args), repr(node.kwargs)), node)
            if first is not node:
                node.replace_all_uses_with(first)


def _unread(graph: CapturedGraph) -> set[Node]:
    """The views that nothing reads."""
    found: set[Node] = set()
    for node in reversed(graph.graph.nodes):
        if node.op == "call_function" and _is_view(node.target) and found.issuperset(node.users):
            found.add(node)
    return found


def _is_view(operator: Any) -> bool:
    if not isinstance(operator, torch._ops.OpOverload):
        return False
    returned = [each.alias_info for each in operator._schema.returns]
    return any(each is not None and not each.is_write for each in returned)


def shape_of(node: Node) -> Sequence[Any]:
    """The sizes of the tensor that a node is; none where it is something else."""
    value = node.meta.get("val")
    return value.shape if isinstance(value, torch.Tensor) else ()


def is_number(node: Node) -> bool:
    """Whether a node is a number."""
    return isinstance(node.meta.get("val"), _NUMBERS)
