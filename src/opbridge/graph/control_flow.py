"""The subgraphs of higher-order operators, and the higher-order operators that have a translation."""

from __future__ import annotations

from collections.abc import Iterator

from torch.fx import GraphModule, Node

__all__ = ["KNOWN", "bodies"]

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


def bodies(node: Node, module: GraphModule) -> Iterator[GraphModule]:
    """The subgraphs of a higher-order operator."""
    for argument in node.all_input_nodes:
        if argument.op == "get_attr":
            body = module.get_submodule(str(argument.target)) if _is_module(module, argument) else None
            if isinstance(body, GraphModule):
                yield body


def _is_module(module: GraphModule, node: Node) -> bool:
    return isinstance(getattr(module, str(node.target), None), GraphModule)
