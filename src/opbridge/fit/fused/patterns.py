"""What matchers share: producers by operator, constants, shapes, and nodes that stand for several others."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

__all__ = ["axes_of", "dims", "is_same_shape", "number", "numbers", "only_reader", "producer", "put", "shape_of"]

_LARGEST_CONSTANT = 64


def producer(value: ir.Value | None, *op_types: str) -> ir.Node | None:
    """The node of ONNX's own domain that gives a value, if it is one of some operators."""
    node = None if value is None else value.producer()
    return node if node is not None and node.domain == "" and node.op_type in op_types else None


def numbers(value: ir.Value | None) -> np.ndarray | None:
    """The elements of a small constant."""
    tensor = None if value is None else ir.convenience.get_const_tensor(value)
    return None if tensor is None or tensor.size > _LARGEST_CONSTANT else tensor.numpy()


def number(value: ir.Value | None) -> float | None:
    """The element of a constant that has one."""
    found = numbers(value)
    return None if found is None or found.size != 1 else float(found.reshape(()))


def axes_of(node: ir.Node, position: int) -> list[int] | None:
    """The axes of a node: an input, or an attribute of older opsets."""
    if "axes" in node.attributes:
        return list(node.attributes.get_ints("axes", ()))
    found = numbers(node.inputs[position]) if len(node.inputs) > position else None
    return None if found is None else [int(each) for each in found.reshape(-1)]


def shape_of(value: ir.Value | None) -> tuple[int | str | None, ...] | None:
    """The sizes of a value: numbers, names, or None where a size has no name."""
    if value is None or value.shape is None:
        return None
    return tuple(each if isinstance(each, int) else each.value for each in value.shape)


def dims(value: ir.Value | None, rank: int) -> tuple[int | str | None, ...]:
    """The sizes of a value of a rank; of any other value, none of them is known."""
    found = shape_of(value)
    return found if found is not None and len(found) == rank else (None,) * rank


def is_same_shape(one: ir.Value | None, other: ir.Value | None) -> bool:
    """Whether two values are known to have the same sizes."""
    first = shape_of(one)
    return first is not None and None not in first and first == shape_of(other)


def only_reader(value: ir.Value) -> ir.Node | None:
    """The node that reads a value, where it is one, and the value is no output of the graph."""
    readers = list(value.consumers())
    return readers[0] if len(readers) == 1 and not value.is_graph_output() else None


def put(node: ir.Node, replaced: Sequence[ir.Value | None]) -> None:
    """Puts a node in the place of the nodes that give some values.

    It stands before the node of the last of them. Its outputs get their names, types, shapes, and what is known of
    where they come from.

    Args:
        node: The node, in no graph yet.
        replaced: For each output of the node, the value that it replaces; None: none.
    """
    given = [each for each in replaced if each is not None]
    last = given[0].producer()
    assert last is not None and last.graph is not None
    graph = last.graph
    node.metadata_props.update(last.metadata_props)
    node.name = f"{last.name}/{node.op_type}"
    graph.insert_before(last, node)
    for made, old in zip(node.outputs, replaced, strict=False):
        if old is None:
            continue
        made.name, made.type, made.shape = old.name, old.type, old.shape
        made.metadata_props.update(old.metadata_props)
        old.replace_all_uses_with(made, replace_graph_outputs=True)
        old.name = f"{old.name}/unfused"
