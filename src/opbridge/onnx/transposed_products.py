"""A correction for ONNX Runtime, which ends the process on a Cast between a Transpose and a MatMul.

Its MatmulTransposeFusion (1.24 to 1.32) merges a Transpose that moves the first dimension among or behind the others
into the MatMul that reads it, and does so through a Cast; then, where the operands differ in rank, it reads a value
that is not there. On the CPU it puts a Cast of its own before a MatMul of float16:

    1. A Cast between the two goes before the Transpose.
    2. A Transpose of float16 that keeps the last dimension goes behind the MatMul with a matrix.
    3. Any other one of float16 is kept apart by a Max of one input, which is its input.

2 and 3 are for files that ONNX Runtime runs on the CPU. `opbridge.session` leaves the fusion out where it has to.
"""

from __future__ import annotations

from collections.abc import Collection

import onnx_ir as ir

__all__ = ["functions_computing_in", "keep_apart", "keep_operands_apart", "operands_read_through_a_cast"]


def keep_apart(model: ir.Model, cast: Collection[ir.DataType]) -> None:
    """Rewrites each MatMul of a transposed operand that ONNX Runtime would read through a Cast, in place.

    Also in functions, where values have no types: what the function may compute in the types counts as such.

    Args:
        model: The model. The types of its values are known.
        cast: The types that ONNX Runtime casts of its own accord, where it runs the file in the end.
    """
    computing = functions_computing_in(model, cast)
    for function in (None, *model.functions.values()):
        outermost = model.graph if function is None else function.graph
        types = {*cast, None} if function in computing else set(cast)
        for node in list(outermost.all_nodes()):
            if node.op_type == "MatMul" and node.domain == "":
                keep_operands_apart(node, types)


def functions_computing_in(model: ir.Model, types: Collection[ir.DataType]) -> list[ir.Function]:
    """The functions of a model that may compute in some types.

    They read values of these types where they are called, cast to them, or are called by one that does.
    """
    found: list[ir.Function] = []

    def look(outermost: ir.Graph, *, is_inside: bool) -> None:
        for node in outermost.all_nodes():
            called = model.functions.get(node.op_identifier())
            if called is None or called in found:
                continue
            if is_inside or any(value is not None and value.dtype in types for value in node.inputs):
                found.append(called)
                look(called.graph, is_inside=True)

    look(model.graph, is_inside=False)
    for function in model.functions.values():
        if function not in found and any(_casts_to(node, types) for node in function.all_nodes()):
            found.append(function)
            look(function.graph, is_inside=True)
    return found


def _casts_to(node: ir.Node, types: Collection[ir.DataType]) -> bool:
    to = node.attributes.get("to")
    return node.op_type == "Cast" and to is not None and (to.is_ref() or to.value in types)


def operands_read_through_a_cast(product: ir.Node, cast: Collection[ir.DataType | None]) -> list[int]:
    """The places of the operands of a MatMul that ONNX Runtime would read through a Cast and merge with a Transpose.

    Args:
        product: The MatMul.
        cast: The types that ONNX Runtime casts of its own accord; None: values without a type count as well.
    """
    if _have_same_rank(product):
        return []
    return [
        position
        for position, value in enumerate(product.inputs)
        if value is not None and _is_merged(_permutation_before(value, value.dtype in cast))
    ]


def keep_operands_apart(product: ir.Node, cast: Collection[ir.DataType | None]) -> None:
    """Rewrites one MatMul; see `operands_read_through_a_cast`."""
    for position in operands_read_through_a_cast(product, cast):
        value = product.inputs[position]
        producer = None if value is None else value.producer()
        assert product.graph is not None and value is not None and producer is not None
        permutation = _permutation_before(value, value.dtype in cast)
        own = _own_permutation(producer)
        if producer.op_type == "Cast":
            _cast_first(product.graph, producer, permutation)
        elif position == 0 and own[-1] == len(own) - 1 and _is_matrix(product.inputs[1]):
            _transpose_after(product.graph, product, producer, own)
        else:
            kept = ir.node("Max", [value])
            _describe(kept, product, f"{product.outputs[0].name}/operand{position}", value.dtype, value.shape)
            product.graph.insert_before(product, kept)
            product.replace_input_with(position, kept.outputs[0])


def _permutation_before(value: ir.Value, is_cast: bool) -> list[int]:
    """The permutation of the Transposes before a Cast that gives a value, or before the value where it is cast."""
    producer = value.producer()
    if producer is not None and producer.op_type == "Cast" and producer.domain == "":
        return [] if producer.inputs[0] is None else _permutation(producer.inputs[0])
    return _permutation(value) if is_cast else []


def _is_matrix(value: ir.Value | None) -> bool:
    return value is not None and value.shape is not None and len(value.shape) == 2


def _have_same_rank(product: ir.Node) -> bool:
    ranks = {None if value is None or value.shape is None else len(value.shape) for value in product.inputs}
    return len(ranks) == 1 and None not in ranks


def _own_permutation(node: ir.Node) -> list[int]:
    """The permutation of a Transpose; [] where it is none, or its rank is not known."""
    if node.op_type != "Transpose" or node.domain != "":
        return []
    given = node.attributes.get_ints("perm", None)
    shape = node.inputs[0].shape if node.inputs[0] is not None else None
    return list(given) if given is not None else [] if shape is None else list(range(len(shape)))[::-1]


def _permutation(value: ir.Value) -> list[int]:
    """The permutation of the Transposes that give a value, all together, as ONNX Runtime merges them; [] without."""
    found: list[int] = []
    node = value.producer()
    while node is not None and (own := _own_permutation(node)):
        found = [own[each] for each in found] if found else own
        node = node.inputs[0].producer() if node.inputs[0] is not None else None
    return found


def _is_merged(permutation: list[int]) -> bool:
    """Whether ONNX Runtime merges a Transpose, with others before it or not, that moves the first dimension."""
    return len(permutation) > 2 and permutation != list(range(len(permutation))) and permutation[0] != 0


def _cast_first(graph: ir.Graph, cast: ir.Node, permutation: list[int]) -> None:
    """Puts a Cast behind Transposes before one Transpose in their place."""
    value, wide = cast.inputs[0], cast.outputs[0]
    assert value is not None
    while (producer := value.producer()) is not None and _own_permutation(producer):
        value = producer.inputs[0]
        assert value is not None
    name = wide.name
    wide.name = f"{name}/untransposed"
    transpose = ir.node("Transpose", [wide], {"perm": permutation})
    made = transpose.outputs[0]
    _describe(transpose, cast, str(name), wide.dtype, wide.shape)
    graph.insert_after(cast, transpose)
    ir.convenience.replace_all_uses_with(wide, made, replace_graph_outputs=True)
    transpose.replace_input_with(0, wide)
    last = cast.inputs[0].producer() if cast.inputs[0] is not None else None
    cast.replace_input_with(0, value)
    wide.shape = value.shape
    _remove_unread(last)


def _transpose_after(graph: ir.Graph, product: ir.Node, transpose: ir.Node, permutation: list[int]) -> None:
    """Multiplies what a Transpose reads, and transposes the result."""
    given, result = transpose.inputs[0], product.outputs[0]
    assert given is not None
    product.replace_input_with(0, given)
    after = ir.node("Transpose", [result], {"perm": permutation})
    made = after.outputs[0]
    _describe(after, product, f"{result.name}/transposed", result.dtype, result.shape)
    graph.insert_after(product, after)
    ir.convenience.replace_all_uses_with(result, made, replace_graph_outputs=True)
    after.replace_input_with(0, result)
    made.name, result.name = result.name, f"{result.name}/product"
    shape = None if given.shape is None or made.shape is None else [*given.shape[:-1], made.shape[-1]]
    result.shape = None if shape is None else ir.Shape(shape)
    _remove_unread(transpose)


def _remove_unread(node: ir.Node | None) -> None:
    """Removes a Cast or Transpose that nothing reads any more, and those before it."""
    while node is not None and node.op_type in ("Cast", "Transpose") and node.graph is not None:
        if node.outputs[0].uses() or node.outputs[0].is_graph_output():
            return
        before = node.inputs[0].producer() if node.inputs[0] is not None else None
        node.graph.remove(node, safe=True)
        node = before


def _describe(made: ir.Node, node: ir.Node, name: str, dtype: ir.DataType | None, shape: ir.Shape | None) -> None:
    """Gives a new node of one output its name, and the metadata of the node that it belongs to."""
    made.outputs[0].name = name
    made.name = f"{name}/{made.op_type}"  # a Cast is named after its result
    made.metadata_props.update({key: text for key, text in node.metadata_props.items() if key != "opbridge.node"})
    made.outputs[0].shape = shape
    if dtype is not None:
        made.outputs[0].type = ir.TensorType(dtype)
