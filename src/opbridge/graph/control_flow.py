"""The graphs that higher-order operators hold, and which of these operators can be built."""

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
        "higher_order::wrap_with_set_grad_enabled",
        "higher_order::invoke_subgraph",
        "higher_order::tag_activation_checkpoint",
        "higher_order::wrap_activation_checkpoint",
    }
)
"""The higher-order operators that `opbridge.translate.control_flow` builds."""


def bodies(node: Node, module: GraphModule) -> Iterator[GraphModule]:
    """The graphs that a higher-order operator holds."""
    for argument in node.all_input_nodes:
        if argument.op == "get_attr":
            body = module.get_submodule(str(argument.target)) if _is_module(module, argument) else None
            if isinstance(body, GraphModule):
                yield body


def _is_module(module: GraphModule, node: Node) -> bool:
    return isinstance(getattr(module, str(node.target), None), GraphModule)
