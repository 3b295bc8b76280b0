"""What the operators of a captured graph write to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch.fx import Node

from opbridge.base.torch_private import torch_tracing
from opbridge.graph.values import tensors_in
from opbridge.graph.written_results import writes

__all__ = ["PARTS_BY_DATA", "memory_of", "written_by"]

PARTS_BY_DATA = frozenset({torch.ops.aten.narrow.Tensor, torch.ops.aten.tensor_split.tensor_indices_or_sections})
"""Operators that give parts of a tensor where data say, which share its memory, although a capture does not see it."""


def memory_of(node: Node) -> set[int]:
    """Keys of the memory that the tensors of a node's value lie in; nodes that share memory share one."""
    return {torch_tracing.storage_key(tensor) for tensor in tensors_in(node.meta.get("val"))}


def written_by(node: Node) -> list[Node]:
    """The arguments that a node writes to."""
    return [item for _, value in writes(node) for item in _flat(value) if isinstance(item, Node)]


def _flat(value: Any) -> Iterator[Any]:
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from _flat(item)
    else:
        yield value
