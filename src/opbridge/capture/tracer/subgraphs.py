"""Records the bodies of higher-order operators (`torch.cond` and the like) as graphs of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.fx import GraphModule
from torch.utils import _pytree as pytree

from opbridge.capture.tracer.recorder import Recorder

__all__ = ["body_of"]


def body_of(
    inner: Recorder, function: Callable[..., Any], args: tuple[Any, ...], *, differentiated: bool
) -> GraphModule:
    """Runs the body of an operator, and gives what it does as a graph module.

    Args:
        inner: The recorder of its graph, which is empty.
        function: The body.
        args: Its arguments: tensors without values, symbolic sizes, and containers of these.
        differentiated: Whether the operator stands behind a transform of torch.func or behind autograd.
    """
    for number, leaf in enumerate(pytree.tree_leaves(args)):
        node = inner.tracer.create_node("placeholder", f"arg{number}_1", (), {})
        if isinstance(leaf, torch.Tensor):
            inner.track(leaf, node)
        elif isinstance(leaf, (torch.SymInt, torch.SymFloat, torch.SymBool)):
            inner.track_number(leaf, node)
        else:
            node.meta["val"] = leaf
    with inner.recording(differentiated=differentiated):
        returned = function(*args)
        leaves, structure = pytree.tree_flatten(returned)
        outputs = [inner.argument(leaf) for leaf in leaves]
    return inner.finish(pytree.tree_unflatten(outputs, structure))
