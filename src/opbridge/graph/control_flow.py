"""The subgraphs of higher-order operators, and the higher-order operators that have a translation."""

from __future__ import annotations

from collections.abc import Iterator

from torch.fx import GraphModule, Node

__all__ = ["CONDITION", "KNOWN", "bodies", "inner_name"]

KNOWN = frozenset(
    {
        "higher_order::cond",
        "higher_order::while_loop",
        "higher_order::scan",
        "higher_order::map_impl",
        "higher_order::associative_scan",
        "higher_order::wrap_with_set_grad_enabled",
        "higher_order::invoke_subgraph",
        "higher_order::tag_activation_checkpoint",
        "higher_order::wrap_activation_checkpoint",
    }
)
"""The higher-order operators that `opbridge.translate.control_flow` builds."""

CONDITION = "condition"
"""What the nodes of a loop's condition are named after, where they stand beside those of its body: see `inner_name`."""


def bodies(node: Node, module: GraphModule) -> Iterator[GraphModule]:
    """The subgraphs of a higher-order operator."""
    for argument in node.all_input_nodes:
        if argument.op == "get_attr":
            body = module.get_submodule(str(argument.target)) if _is_module(module, argument) else None
            if isinstance(body, GraphModule):
                yield body


def _is_module(module: GraphModule, node: Node) -> bool:
    return isinstance(getattr(module, str(node.target), None), GraphModule)


def inner_name(holder: str, name: str) -> str:
    """What a node of a subgraph is called in the graph around it, or where subgraphs stand beside each other.

    Args:
        holder: The name of the node that holds the subgraph, or what the subgraph is of it.
        name: The name of the node in the subgraph, or its key: "split:1".
    """
    return f"{holder}_of_{name}"
