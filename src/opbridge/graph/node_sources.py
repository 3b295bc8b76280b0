"""Where in the model's code a node of a captured graph comes from.

torch.export keeps it in the node's metadata as the text of a stack trace, which is parsed when it is asked for. A
capture of another kind sets `meta["sources"]`, a function without arguments that returns the lines, and
`meta["module_path"]`.
"""

from __future__ import annotations

from torch.fx import Node

from opbridge.base.sources import Source, innermost

__all__ = ["has_module_path", "module_path_of", "sources_of"]


def sources_of(node: Node) -> tuple[Source, ...]:
    """The lines of the model that called a node's operator, the innermost first; none where they are not known."""
    if "sources" in node.meta:
        found: tuple[Source, ...] = node.meta["sources"]()
        return found
    return innermost(node.meta.get("stack_trace"))


def module_path_of(node: Node) -> str:
    """The path of the innermost module that called a node's operator, "layer1.0"; empty for the model itself."""
    if "module_path" in node.meta:
        return str(node.meta["module_path"])
    stack = node.meta.get("nn_module_stack") or {}
    return str(next(reversed(stack.values()))[0]) if stack else ""


def has_module_path(node: Node) -> bool:
    """Whether the module is known: that of a node which stands in a decomposition, or in a subgraph, may not be."""
    return "module_path" in node.meta or "nn_module_stack" in node.meta
