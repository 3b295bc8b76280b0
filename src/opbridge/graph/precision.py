"""The coarsest floating dtype among a value and the values that it depends on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch.fx import GraphModule, Node

from opbridge.graph.captured_graph import CapturedGraph
from opbridge.graph.values import tensors_in

__all__ = ["coarsest", "precisions"]


def coarsest(dtypes: Iterable[torch.dtype | None]) -> torch.dtype | None:
    """The floating dtype with the fewest digits; None where there is none."""
    floats = [dtype for dtype in dtypes if dtype is not None and (dtype.is_floating_point or dtype.is_complex)]
    return max(floats, key=lambda dtype: torch.finfo(dtype).eps, default=None)


def precisions(graph: CapturedGraph) -> dict[str, torch.dtype | None]:
    """The coarsest dtype among a node's own value and all values that it depends on, for each node of a capture.

    A model whose weights are float16 and that returns `logits.float()` gives float32 numbers with float16 digits.
    """
    found: dict[str, torch.dtype | None] = {}
    for node in graph.graph.nodes:
        own = [tensor.dtype for tensor in tensors_in(node.meta.get("val"))]
        if node.op == "get_attr":
            own.extend(_inside(getattr(graph.module, str(node.target), None)))
        found[node.name] = coarsest([*own, *(found[argument.name] for argument in node.all_input_nodes)])
    return found


def _inside(module: Any) -> Iterator[torch.dtype]:
    """The dtypes of the values in a branch, a loop's body or a region."""
    if isinstance(module, GraphModule):
        for inner in module.modules():
            if isinstance(inner, GraphModule):
                nodes: Iterable[Node] = inner.graph.nodes
                yield from (tensor.dtype for node in nodes for tensor in tensors_in(node.meta.get("val")))
