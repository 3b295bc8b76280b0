"""Views that are given by the places of their elements in memory: `as_strided`, and writes to such views.

What they give depends on how the tensor lies in memory, which no operator of ONNX knows: a value of ONNX has its
elements in the order of its dimensions. So each is made to read from the tensor that the memory belongs to, with its
dimensions in the order that they have in memory.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node

from opbridge.base.torch_private import torch_sizes, torch_tracing
from opbridge.capture.tracer.writes import memory_of, written_by
from opbridge.errors import CaptureError
from opbridge.graph.captured_graph import CapturedGraph
from opbridge.graph.node_sources import sources_of

__all__ = ["read_in_memory_order"]

_aten = torch.ops.aten
_WRITING = _aten.as_strided_scatter.default
_STRIDED = frozenset({_aten.as_strided.default, _aten.as_strided_copy.default, _WRITING})
_OF_LINE = ("stack_trace", "nn_module_stack", "sources", "module_path")


def read_in_memory_order(graph: CapturedGraph, *, written: bool = True) -> bool:
    """Makes the views of a graph that are given by places in memory read values with their elements in that order.

    Args:
        graph: The graph, which is changed.
        written: Whether those are meant as well that a later operator writes to, or whose memory it writes to.

    Returns:
        Whether anything has been changed.

    Raises:
        CaptureError: A view has elements of memory that no value of the graph holds as a whole.
    """
    changed = False
    for body in graph.module.modules():
        if not isinstance(body, GraphModule) or not any(node.target in _STRIDED for node in body.graph.nodes):
            continue
        later: set[int] = set()
        found = []
        for node in reversed(body.graph.nodes):
            for each in written_by(node) if node.op == "call_function" else ():
                later |= memory_of(each)
            if node.target in _STRIDED and (written or not memory_of(node) & later):
                found.append(node)
        rewritten = [_rewrite(body.graph, node) for node in reversed(found)]
        if any(rewritten):
            body.recompile()
            changed = True
    return changed


def _rewrite(graph: Graph, node: Node) -> bool:
    operator: Any = node.target
    names = [argument.name for argument in operator._schema.arguments]
    given = dict(zip(names, node.args, strict=False)) | dict(node.kwargs)
    source = given["self"]
    value = source.meta.get("val") if isinstance(source, Node) else None
    if not isinstance(value, torch.Tensor) or value.layout != torch.strided:
        return False
    start = given.get("storage_offset")
    start = value.storage_offset() if start is None else start
    owner = source if node.target is _WRITING else _owner(node, source, (given["size"], given["stride"], start))
    held = owner.meta["val"]
    order = torch_sizes.memory_order(held)
    if order is None:
        raise _refusal(node, "are not contiguous in memory")
    begin = held.storage_offset()
    if type(begin) is not int or (begin and type(start) is not int) or isinstance(start, torch.SymInt):
        raise _refusal(node, "start at an offset that depends on sizes")
    start = start - begin if begin else start
    if owner is source and torch_sizes.is_in_order(held) and start in (0, given.get("storage_offset")):
        return False
    with graph.inserting_before(node):
        ordered = _permuted(graph, owner, order, node)
    node.args = tuple((given | {"self": ordered, "storage_offset": start})[name] for name in names)
    node.kwargs = {}
    if node.target is _WRITING and ordered is not owner:
        node.meta["val"] = ordered.meta["val"]
        with graph.inserting_after(node):
            back = _permuted(graph, node, [order.index(dim) for dim in range(len(order))], node)
        node.replace_all_uses_with(back, delete_user_cb=lambda user: user is not back)
    return True


def _owner(node: Node, source: Node, place: tuple[Any, Any, Any]) -> Node:
    """The value that holds the memory which a view has its elements in.

    That is what the source of the view is a view of itself, or the source, where that holds all of them.
    """
    owner, value = source, source.meta["val"]
    while (before := _viewed(owner)) is not None:
        owner = before
    whole = owner.meta["val"]
    is_ordered = torch_sizes.memory_order(value) is not None
    if is_ordered and torch_sizes.is_equal(value.numel(), whole.numel()):
        return source
    if torch_sizes.memory_order(whole) is None and is_ordered and _reaches(place, value):
        return source
    return owner


def _viewed(node: Node) -> Node | None:
    """What a node is a view of, with elements of the same size; None where it has memory of its own."""
    value = node.meta.get("val")
    before = node.args[0] if node.op == "call_function" and node.args else None
    seen = before.meta.get("val") if isinstance(before, Node) else None
    if not isinstance(before, Node) or not isinstance(value, torch.Tensor) or not isinstance(seen, torch.Tensor):
        return None
    if seen.layout != torch.strided or seen.dtype != value.dtype:
        return None
    return before if torch_tracing.storage_key(seen) == torch_tracing.storage_key(value) else None


def _reaches(place: tuple[Any, Any, Any], value: torch.Tensor) -> bool:
    """Whether all elements at a place in memory, which numbers tell, are those of a value."""
    sizes, strides, start = place
    first = value.storage_offset()
    if any(type(each) is not int for each in (*sizes, *strides, start, first, value.numel())):
        return False
    last = start + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))
    return 0 in sizes or bool(first <= start and last < first + value.numel())


def _permuted(graph: Graph, node: Node, order: list[int], line: Node) -> Node:
    """A value with its dimensions in another order, on a line of the model; itself where it has them in that order."""
    if order == sorted(order):
        return node
    permuted = graph.call_function(_aten.permute.default, (node, order))
    permuted.meta = {name: line.meta[name] for name in _OF_LINE if name in line.meta}
    permuted.meta["val"] = node.meta["val"].permute(order)
    return permuted


def _refusal(node: Node, why: str) -> CaptureError:
    return CaptureError(
        f"The model reads memory with {node.target} at {next(iter(sources_of(node)), node.name)}, from a tensor "
        f"whose elements {why}. Use a contiguous copy, x.contiguous().as_strided(...), or unfold, view and slices."
    )
