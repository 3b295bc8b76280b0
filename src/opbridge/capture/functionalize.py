"""Functionalisation: in-place operators and views become values, and constants are told from the rest.

torch.export leaves writes in the graph. Most are harmless: `relu_(x)` gives a new value, and every later reader of `x`
means that value. Which nodes these are is all that translation has to know (`FunctionalGraph.rebinds`). Only where a
write goes through a view whose base, or another view of it, is read later, the graph is rewritten, by torch's own
functionalisation: how depends on the capture, which passes the function that does it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node

from opbridge.base.torch_private import torch_operators
from opbridge.capture import fake_implementations
from opbridge.capture.memory_views import read_in_memory_order
from opbridge.capture.opaque_operators import shapes_as_in
from opbridge.capture.refused_writes import write_to_view
from opbridge.capture.tracer.writes import PARTS_BY_DATA, memory_of, written_by
from opbridge.errors import CaptureError
from opbridge.graph.captured_graph import CapturedGraph, Weight
from opbridge.graph.node_sources import sources_of
from opbridge.graph.values import tensors_in
from opbridge.graph.written_results import results_of

__all__ = ["FunctionalGraph", "functionalize"]

_BY_METADATA = frozenset(
    {"new_zeros", "new_ones", "new_full", "zeros_like", "ones_like", "full_like", "new_empty", "empty_like"}
)

_BYTES = (torch.int8, torch.uint8)

_LARGEST_GROWTH = 1 << 20
"""Bytes that a value computed from weights may have beyond the weights themselves and still be stored in the file."""


@dataclass
class FunctionalGraph:
    """A captured graph whose nodes are values: what is planned, translated and searched for a difference.

    Attributes:
        graph: The graph. In-place operators are left in it where `rebinds` says all that they do.
        constant: The nodes whose value depends on no input of the model, and is computed at export.
        rebinds: For a node that writes in place: the earlier nodes that stand for what it writes to and are read after
            it. From that node on, each means one of the node's results: see `opbridge.graph.written_results.Results`.
        written: The graph with its in-place operators, where `graph` has been made of it.
    """

    graph: CapturedGraph
    constant: set[Node] = field(default_factory=set)
    rebinds: dict[Node, dict[Node, tuple[int, ...]]] = field(default_factory=dict)
    written: CapturedGraph | None = None

    def state_notes(self, returned: Container[str] = ()) -> Iterator[str]:
        """What an ONNX file does not hold as the model does: sparse weights, and state, which it does not keep.

        Args:
            returned: The names of inputs that the model writes to and returns.
        """
        sparse = [weight.name for weight in self.graph.weights.values() if weight.layout != "strided"]
        if sparse:
            yield f"tensors that are sparse in the model are dense in the file: {', '.join(sparse)}"
        captured = self.written or self.graph
        mutated = list(captured.updated)
        for node in _written_placeholders(captured.graph):
            if node in captured.weights:
                mutated.append(captured.weights[node].name)
            elif node.name not in returned:
                yield f"the model writes to its input '{node.name}'; the ONNX model does not modify its inputs"
        if mutated:
            names = ", ".join(dict.fromkeys(mutated))
            yield f"the model updates {names}; an ONNX model keeps no state between runs, so the updates are left out"


def functionalize(graph: CapturedGraph, whole: frozenset[str], rewrite: Callable[[], CapturedGraph]) -> FunctionalGraph:
    """Makes a captured graph functional.

    The graph is the one given, unless a write through a view or inside a region, or autocast, has to be rewritten.

    Args:
        graph: What the capture gave.
        whole: The operators that the capture kept whole.
        rewrite: Gives the same graph without in-place operators, views of what is written to, and autocast.

    Raises:
        CaptureError: a write that torch's own functionalisation does not remove, or only with an operator that is to
            stay whole.
    """
    read_in_memory_order(graph, written=False)
    functional = _analyse(graph)
    if functional is not None and read_in_memory_order(graph):
        functional = _analyse(graph)
    if functional is None:
        _refuse_shared_weights(graph)
        with fake_implementations.replacing_fake_implementations(rewriting=True), shapes_as_in(graph.module, whole):
            rewritten = rewrite()
        rewritten.ranges.update(graph.ranges)  # which may be narrower
        lost = (_called(graph, is_read=True) - _called(rewritten)) & whole
        if lost:
            raise CaptureError(
                f"PyTorch's functionalization decomposes {', '.join(sorted(lost))} into operators that read "
                "memory. Replace the in-place operators on views, or inside torch.cond and similar operators, by "
                "out-of-place ones."
            )
        read_in_memory_order(rewritten)
        functional = _analyse(rewritten)
        if functional is None:
            raise CaptureError(
                "The model contains an in-place operation that PyTorch's functionalization cannot remove. Replace "
                "the in-place operators on views, or inside torch.cond and similar operators, by out-of-place ones."
            )
        functional.written = graph
        _refuse_writes_to_views(rewritten)
    return functional


def _refuse_writes_to_views(graph: CapturedGraph) -> None:
    """Refuses a write to a view that is left in a rewritten graph, as torch leaves those of other packages' operators.

    Raises:
        CaptureError: There is such a write, and what the view is of is read after it.
    """
    order = {node: position for position, node in enumerate(graph.graph.nodes)}
    for node in order:
        for target in written_by(node) if node.op == "call_function" else ():
            whole = target
            while _is_view_of_first(whole):
                whole = whole.all_input_nodes[0]
            if whole is not target and any(order[user] > order[node] for user in whole.users):
                raise write_to_view(torch_operators.operator_name(node.target) or "", node)


def _is_view_of_first(node: Node) -> bool:
    """Whether a node is a view of its first argument."""
    schema = getattr(node.target, "_schema", None)
    if node.op != "call_function" or schema is None or schema.is_mutable or not node.all_input_nodes:
        return False
    return bool(schema.returns) and schema.returns[0].alias_info is not None


def _refuse_shared_weights(graph: CapturedGraph) -> None:
    """Refuses a write to memory that two weights share, of which torch's functionalisation sees one only.

    Raises:
        CaptureError: There is such a write.
    """
    written = {key for node in _written_placeholders(graph.graph) for key in memory_of(node)}
    shared: dict[int, list[str]] = defaultdict(list)
    for node, weight in graph.weights.items():
        for key in memory_of(node) & written:
            shared[key].append(weight.name)
    for names in shared.values():
        if len(names) > 1:
            raise CaptureError(
                f"The model writes in place to memory that {', '.join(names)} share. Register one of them as a "
                "buffer, and compute the others from it in forward()."
            )


def _called(graph: CapturedGraph, *, is_read: bool = False) -> set[str]:
    """The operators of a graph, or those whose results it reads, by their names."""
    bodies = (body for body in graph.module.modules() if isinstance(body, GraphModule))
    nodes = (node for body in bodies for node in body.graph.nodes if node.users or not is_read)
    return {torch_operators.operator_name(node.target) or "" for node in nodes}


def _written_placeholders(graph: Graph) -> list[Node]:
    """The inputs, parameters and buffers that a graph writes to, directly or through a view."""
    targets = (target for node in graph.nodes if node.op == "call_function" for target in written_by(node))
    written = {key for target in targets for key in memory_of(target)}
    return [node for node in graph.nodes if node.op == "placeholder" and memory_of(node) & written] if written else []


def _is_same(left: Any, right: Any) -> bool:
    """Whether two tensors that share memory are the same tensor, and neither a part or rearrangement of the other."""
    return (
        isinstance(left, torch.Tensor)
        and isinstance(right, torch.Tensor)
        and left.dtype == right.dtype
        and _are_equal(left.shape, right.shape)
        and _are_equal(left.stride(), right.stride())
        and _are_equal([left.storage_offset()], [right.storage_offset()])
    )


def _are_equal(left: Sequence[Any], right: Sequence[Any]) -> bool:
    """Whether sizes are equal whatever they are: as expressions, as some are known only at run time."""
    return list(map(str, left)) == list(map(str, right))


def _analyse(graph: CapturedGraph) -> FunctionalGraph | None:
    """The graph with what is known of its values, or None where it has to be rewritten first."""
    module = graph.module
    nodes = list(module.graph.nodes)
    if any("autocast" in str(node.target) for node in nodes if node.op == "call_function"):
        return None
    inner = (body for body in module.modules() if body is not module and isinstance(body, GraphModule))
    if any(written_by(node) for body in inner for node in body.graph.nodes if node.op == "call_function"):
        return None
    keys = {node: memory_of(node) for node in nodes}
    sharing: dict[int, list[Node]] = defaultdict(list)
    for node in nodes:
        for key in keys[node]:
            sharing[key].append(node)
    writes = {node: found for node in nodes if node.op == "call_function" and (found := written_by(node))}
    if _writes_parts(nodes, keys, writes):
        return None
    constant = _constants(nodes, keys, sharing, writes, graph.weights)
    functional = FunctionalGraph(graph, constant)
    order = {node: position for position, node in enumerate(nodes)}
    for node, written in writes.items():
        if node in constant:
            continue
        if len(set(written)) < len(written):
            raise CaptureError(
                f"The operator {torch_operators.operator_name(node.target)} is given one tensor for several arguments "
                f"that it writes to, at {next(iter(sources_of(node)), node.name)}, which is not supported in ONNX. "
                "Give it a tensor of its own for each."
            )
        rebound: dict[Node, tuple[int, ...]] = {}
        paths = results_of(node).paths
        for target in written:
            value = target.meta.get("val")
            others = [other for key in keys[target] for other in sharing[key] if order[other] < order[node]]
            for other in others:
                if not any(order[user] > order[node] for user in other.users):
                    continue
                if not _is_same(other.meta.get("val"), value):
                    return None
                rebound[other] = paths[target]
        functional.rebinds[node] = rebound
    return functional


def _writes_parts(nodes: list[Node], keys: Mapping[Node, set[int]], writes: Mapping[Node, list[Node]]) -> bool:
    """Whether a part of a tensor, where data say which part it is, or the tensor, is written to after it was taken.

    Raises:
        CaptureError: It is, and tensor_split gave the part.
    """
    parts: list[Node] = []
    for node in nodes:
        for target in writes.get(node, ()):
            part = next((each for each in parts if keys[target] & (keys[each] | keys[each.all_input_nodes[0]])), None)
            if part is None:
                continue
            if part.target is torch.ops.aten.narrow.Tensor:
                return True
            raise CaptureError(
                f"The model writes, at {next(iter(sources_of(node)), node.name)}, in place to a tensor that "
                "tensor_split has split at data-dependent indices, or to one of its parts. Copy the part first: "
                "tensor_split(...)[0].clone()."
            )
        if node.target in PARTS_BY_DATA:
            parts.append(node)
    return False


def _constants(
    nodes: list[Node],
    keys: dict[Node, set[int]],
    sharing: dict[int, list[Node]],
    writes: dict[Node, list[Node]],
    weights: Mapping[Node, Weight],
) -> set[Node]:
    """The nodes that depend on no input of the model.

    Memory is what decides: a tensor that any write makes depend on an input is no constant anywhere, before the write
    included. Parameters are never written to at export, so a write to one makes it depend on an input too.
    """
    varying: set[int] = set()
    for node in nodes:
        if node.op == "placeholder" and node not in weights:
            varying |= keys[node]
    for node, written in writes.items():
        for target in written:
            sharers = (other for key in keys[target] for other in sharing[key])
            if any(other in weights for other in sharers) or not _is_repeatable(node):
                varying |= keys[target]
    while True:
        constant: set[Node] = set()
        for node in nodes:
            if node.op == "placeholder" and node in weights and not keys[node] & varying:
                constant.add(node)
            elif node.op == "call_function" and _is_constant(node, constant, keys, varying):
                constant.add(node)
        before = len(varying)
        for node, written in writes.items():
            if node not in constant:
                for target in written:
                    varying |= keys[target]
        if len(varying) == before:
            return constant


def _is_constant(node: Node, constant: set[Node], keys: dict[Node, set[int]], varying: set[int]) -> bool:
    if keys[node] & varying or not _is_repeatable(node):
        return False
    if any(argument not in constant for argument in node.all_input_nodes) and not _reads_only_metadata(node):
        return False
    value = node.meta.get("val")
    if any(not isinstance(dim, int) for tensor in tensors_in(value) for dim in tensor.shape):
        return False
    if not list(tensors_in(value)) and not keys[node]:
        return isinstance(value, (int, float, bool))
    # Views cost nothing; anything else must not make the file larger than the weights that it is made from.
    own = 0 if _is_view(node, keys) else sum(tensor.nbytes for tensor in tensors_in(value))
    arguments = (argument for argument in node.all_input_nodes if argument in constant)
    given = sum(tensor.nbytes for argument in arguments for tensor in tensors_in(argument.meta.get("val")))
    return own <= given + _LARGEST_GROWTH and not _expands(value)


def _is_view(node: Node, keys: dict[Node, set[int]]) -> bool:
    return any(keys[argument] & keys[node] for argument in node.all_input_nodes)


def _expands(value: Any) -> bool:
    """Whether a tensor repeats its memory (expand), so that storing it would store the repeats."""
    return any(
        stride == 0 and size > 1 and tensor.numel() > 4096
        for tensor in tensors_in(value)
        for size, stride in zip(tensor.shape, tensor.stride(), strict=True)
    )


def _is_repeatable(node: Node) -> bool:
    """Whether an operator gives the same result each time, and does nothing else."""
    if not isinstance(node.target, torch._ops.OpOverload):
        return False
    if torch.Tag.nondeterministic_seeded in node.target.tags:
        return _is_inactive_dropout(node)
    # What a function's `symbolic` builds is wanted in the file even where its inputs are known (quantised weights).
    return node.target.namespace != "opbridge" and not _dequantizes(node)


def _dequantizes(node: Node) -> bool:
    """Whether an operator makes floating numbers of quantised ones, which are what the file is to hold."""
    name = str(node.target)
    if "dequantize" in name or "fake_quant" in name:
        return True
    results = tensors_in(node.meta.get("val"))
    return any(result.is_floating_point() for result in results) and any(
        tensor.dtype in _BYTES and tensor.dim() > 1
        for argument in node.all_input_nodes
        for tensor in tensors_in(argument.meta.get("val"))
    )


def _reads_only_metadata(node: Node) -> bool:
    """Whether an operator uses nothing but the size and dtype of its only tensor, both known here."""
    name = str(node.target).partition(".")[2].partition(".")[0]
    return name in _BY_METADATA and len(node.all_input_nodes) == 1


def _is_inactive_dropout(node: Node) -> bool:
    return "dropout" in str(node.target) and any(argument is False for argument in (*node.args, *node.kwargs.values()))
