"""Operators that hold graphs: cond, while_loop, scan and the regions that torch.export wraps.

cond                               If, one body a branch
while_loop                         Loop, its condition built once before and once inside; what turns only add rows to
                                   is a scan output
scan, map_impl, associative_scan   Scan
wrap_with_set_grad_enabled,        built in place: they change nothing in an ONNX model
invoke_subgraph, ...
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import onnx_ir as ir
import torch
from torch.fx import GraphModule, Node

from opbridge.errors import TranslationError
from opbridge.graph.control_flow import CONDITION, inner_name

if TYPE_CHECKING:
    from opbridge.onnx.builder import Builder
    from opbridge.onnx.tensor import Tensor

__all__ = ["TRANSLATIONS", "Walk", "translate"]

_END = (1 << 63) - 1
"""As the end of a Slice: all that there is."""


class Walk(Protocol):
    """Builds the nodes of a graph."""

    def __call__(
        self, graph: GraphModule, given: Sequence[Any], /, naming: Callable[[str], str] | None = None
    ) -> Sequence[Any]:
        """Builds the nodes of a graph and returns its outputs.

        Args:
            graph: The graph.
            given: The values of its placeholders.
            naming: What the ONNX nodes say which node of the graph they are of, by the node's name; None: they do not
                say it, since they stand among the nodes of another graph.
        """
        ...


def translate(
    operator: str, builder: Builder, walk: Walk, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Sequence[Any]:
    """Builds a higher-order operator; the arguments are those of torch's operator, tensors as values of the graph."""
    return TRANSLATIONS[operator](builder, walk, *args, **kwargs)


def _cond(
    builder: Builder, walk: Walk, predicate: Any, on_true: Any, on_false: Any, operands: Any = ()
) -> Sequence[Any]:
    returned = _returned(on_true)

    def tensors(branch: Any) -> list[Any]:
        """What a branch returns, without what both branches return as None."""
        return [value for value, leaf in zip(walk(branch, operands, str), returned, strict=True) if leaf is not None]

    then = builder.body("then", [], lambda: tensors(on_true))
    otherwise = builder.body("else", [], lambda: tensors(on_false))
    attributes = {"then_branch": then, "else_branch": otherwise}
    results = iter(_call(builder, "If", [predicate], attributes, then.outputs))
    return [None if leaf is None else next(results) for leaf in returned]


def _while_loop(
    builder: Builder, walk: Walk, condition: Any, body: Any, carried: Sequence[Any], additional: Sequence[Any] = ()
) -> Sequence[Any]:
    (start,) = walk(condition, [*carried, *additional])
    names = [builder.unique(f"loop_{index}") for index in range(len(carried))]
    iteration = builder.value(builder.unique("iteration"), ir.DataType.INT64, [])
    go_on = builder.value(builder.unique("go_on"), ir.DataType.BOOL, [])
    shapes = _kept_shapes(body, len(carried))
    inside = [_like(builder, *each) for each in zip(names, carried, shapes, strict=True)]

    def make() -> list[Any]:
        following = list(walk(body, [*inside, *additional], str))
        (again,) = walk(condition, [*following, *additional], lambda name: inner_name(CONDITION, name))
        return [again, *following]

    graph = builder.body("body", [iteration, go_on, *inside], make)
    found = {index: _rows(graph, index, inside[index]) for index in _grown(condition, body, carried)}
    grown = {index: rows for index, rows in found.items() if rows is not None}
    if not grown:
        return _call(builder, "Loop", [None, start, *carried], {"body": graph}, graph.outputs[1:])
    kept = [index for index in range(len(carried)) if index not in grown]
    for index, (concat, _) in grown.items():
        graph.remove(concat, safe=False)
        graph.inputs.remove(inside[index])
    rows = [rows for _, rows in grown.values()]
    graph.outputs[:] = [graph.outputs[0], *(graph.outputs[1 + index] for index in kept), *rows]
    given = [carried[index] for index in kept]
    made = iter(_call(builder, "Loop", [None, start, *given], {"body": graph}, graph.outputs[1:]))
    results = {index: next(made) for index in kept}
    for index in grown:
        turns = next(made)
        sizes = builder.emit("Slice", (builder.emit("Shape", (carried[index],)), [1], [_END]))
        count = builder.emit("Slice", (builder.emit("Shape", (turns,)), [0], [2]))
        count = builder.emit("ReduceProd", (count,), {"keepdims": 1})
        shape = builder.emit("Concat", (count, sizes), {"axis": 0})
        results[index] = builder.emit("Reshape", (turns, shape), {"allowzero": 1})
    return [results[index] for index in range(len(carried))]


def _grown(condition: GraphModule, body: GraphModule, carried: Sequence[Any]) -> list[int]:
    """The tensors that begin with no row, and that each turn adds as many rows of the same sizes to, and nothing reads.

    Args:
        condition: The graph of the condition.
        body: The graph of a turn.
        carried: What the loop begins with.
    """
    begin, asked = ([node for node in each.graph.nodes if node.op == "placeholder"] for each in (body, condition))
    found = []
    for index, result in enumerate(_returned(body)[: len(carried)]):
        while isinstance(result, Node) and result.target is torch.ops.aten.clone.default and len(result.users) == 1:
            result = result.args[0]
        if not isinstance(result, Node) or result.target is not torch.ops.aten.cat.default or len(result.users) != 1:
            continue
        parts: Any = result.args[0]
        is_first = len(parts) == 2 and parts[0] is begin[index] and result.args[1:] in ((), (0,))
        if not is_first or len(begin[index].users) != 1 or asked[index].users:
            continue
        rows, new = (each.meta["val"].shape for each in parts)
        first = carried[index].shape
        if type(new[0]) is int and new[0] > 0 and first is not None and first[0] == 0 and _is_same(rows[1:], new[1:]):
            found.append(index)
    return found


def _is_same(left: Any, right: Any) -> bool:
    """Whether sizes are the same in every turn: equal numbers, or expressions of what is known before the loop."""
    return len(left) == len(right) and all(str(one) == str(other) for one, other in zip(left, right, strict=True))


def _rows(graph: ir.Graph, index: int, carried: ir.Value) -> tuple[ir.Node, Any] | None:
    """The node of a body that adds rows to a carried value, and the rows; None where it is built in another way."""
    node = graph.outputs[1 + index].producer()
    if node is None or node.op_type != "Concat" or len(node.inputs) != 2 or node.inputs[0] is not carried:
        return None
    rows = node.inputs[1]
    maker = rows.producer() if rows is not None else None
    is_own = maker is not None and maker.graph is graph
    if not is_own or node.attributes["axis"].as_int() != 0 or len(carried.uses()) != 1:
        return None
    return None if graph.outputs[1 + index].uses() else (node, rows)


def _scan(
    builder: Builder, walk: Walk, combine: Any, carried: Sequence[Any], sequences: Sequence[Any], additional: Any = ()
) -> Sequence[Any]:
    shapes = _kept_shapes(combine, len(carried))
    inside = [
        _like(builder, builder.unique(f"carried_{index}"), value, shape)
        for index, (value, shape) in enumerate(zip(carried, shapes, strict=True))
    ]
    slices = _slices(builder, sequences)
    given = [*inside, *slices, *(additional or ())]
    graph = builder.body("body", [*inside, *slices], lambda: walk(combine, given, str))
    attributes = {"body": graph, "num_scan_inputs": len(slices)}
    return _call(builder, "Scan", [*carried, *sequences], attributes, graph.outputs)


def _map(
    builder: Builder, walk: Walk, function: Any, sequences: Sequence[Any], additional: Sequence[Any] = ()
) -> Sequence[Any]:
    return _scan(builder, walk, function, [], sequences, additional)


def _associative_scan(
    builder: Builder, walk: Walk, combine: Any, sequences: Sequence[Any], additional: Sequence[Any] = ()
) -> Sequence[Any]:
    """Each result is `combine` of the result before it and the slice; the first is the slice itself.

    What the first turn combines its slice with are zeros, and the result of that is not used.
    """
    started = builder.constant(False)
    carried = [_zeros_of_slice(builder, value) for value in sequences]
    shapes = _kept_shapes(combine, len(sequences))
    inside = [_like(builder, builder.unique("combined"), *each) for each in zip(sequences, shapes, strict=True)]
    has_started = builder.value(builder.unique("started"), ir.DataType.BOOL, [])
    slices = _slices(builder, sequences)

    def make() -> list[Any]:
        combined = walk(combine, [*inside, *slices, *(additional or ())], str)
        results = [builder.emit("Where", (has_started, *each)) for each in zip(combined, slices, strict=True)]
        return [builder.constant(True), *results, *results]

    graph = builder.body("body", [has_started, *inside, *slices], make)
    attributes = {"body": graph, "num_scan_inputs": len(slices)}
    return _call(builder, "Scan", [started, *carried, *sequences], attributes, graph.outputs)[1 + len(slices) :]


def _zeros_of_slice(builder: Builder, sequence: Tensor) -> Tensor:
    shape = builder.emit("Slice", (builder.emit("Shape", (sequence,)), [1], [_END]))
    return builder.emit("Expand", (builder.constant(0, sequence.dtype), shape))


def _slices(builder: Builder, sequences: Sequence[Any]) -> list[Tensor]:
    """What the body of a Scan gets of each sequence."""
    return [
        builder.value(
            builder.unique(f"slice_{index}"), value.dtype, None if value.shape is None else list(value.shape)[1:]
        )
        for index, value in enumerate(sequences)
    ]


def _kept_shapes(body: GraphModule, count: int) -> list[list[int | None] | None]:
    """The shapes of the first arguments of a body, which it returns anew; None for a size that it may change."""
    placeholders = [node for node in body.graph.nodes if node.op == "placeholder"][:count]
    results = _returned(body)
    return [
        _common(_shape_of(before), _shape_of(after)) for before, after in zip(placeholders, results, strict=False)
    ] + [None] * (count - min(len(placeholders), len(results)))


def _returned(body: GraphModule) -> list[Any]:
    """What a body returns: nodes, and None."""
    returned = body.graph.output_node().args[0]
    return list(returned) if isinstance(returned, (list, tuple)) else [returned]


def _shape_of(value: Any) -> list[Any] | None:
    """The sizes that the file has for a node: complex numbers are pairs, in a dimension after the last."""
    found = value.meta.get("val") if isinstance(value, Node) else None
    if not isinstance(found, torch.Tensor):
        return None
    return [*found.shape, 2] if found.is_complex() else list(found.shape)


def _common(left: Any, right: Any) -> list[int | None] | None:
    if left is None or right is None or len(left) != len(right):
        return None
    return [a if type(a) is int and type(b) is int and a == b else None for a, b in zip(left, right, strict=True)]


def _grad_region(builder: Builder, walk: Walk, enabled: Any, graph: Any, *args: Any) -> Sequence[Any]:
    return walk(graph, args)


def _subgraph(builder: Builder, walk: Walk, graph: Any, identifier: Any, *args: Any) -> Sequence[Any]:
    return walk(graph, args)


def _checkpoint(builder: Builder, walk: Walk, graph: Any, *args: Any, **settings: Any) -> Sequence[Any]:
    return walk(graph, args)


def _call(
    builder: Builder, op_type: str, inputs: Sequence[Any], attributes: Mapping[str, Any], outputs: Sequence[ir.Value]
) -> list[Tensor]:
    if any(output.dtype is None for output in outputs):
        raise TranslationError(f"The type of an output of {op_type}'s body is not known.")
    return list(builder.node(op_type, inputs, attributes, [output.dtype for output in outputs]))


def _like(builder: Builder, name: str, value: Tensor, shape: Sequence[int | None] | None) -> Tensor:
    return builder.value(name, value.dtype, shape)


TRANSLATIONS: dict[str, Callable[..., Sequence[Any]]] = {
    "higher_order::cond": _cond,
    "higher_order::while_loop": _while_loop,
    "higher_order::scan": _scan,
    "higher_order::map_impl": _map,
    "higher_order::associative_scan": _associative_scan,
    "higher_order::wrap_with_set_grad_enabled": _grad_region,
    "higher_order::invoke_subgraph": _subgraph,
    "higher_order::tag_activation_checkpoint": _checkpoint,
    "higher_order::wrap_activation_checkpoint": _checkpoint,
}
