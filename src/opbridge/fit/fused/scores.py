"""What matchers of attention share: factors and masks of scores, and what a product of shares and values becomes."""

from __future__ import annotations

import onnx_ir as ir

from opbridge.fit.fused.patterns import dims, is_same_shape, number, only_reader, producer

__all__ = [
    "HEADS_BY_TOKENS",
    "factored",
    "is_zeroing",
    "joined_heads",
    "masked",
    "through_casts",
    "unrepeated",
    "unscaled",
]

HEADS_BY_TOKENS = [0, 2, 1, 3]
"""The permutation of [batch, heads, tokens, size] to [batch, tokens, heads, size], and back."""


def masked(scores: ir.Value) -> tuple[ir.Value, ir.Value] | None:
    """The mask of scores, and the scores without it."""
    added = producer(scores, "Add")
    if added is None:
        return None
    one, other = added.inputs
    if one is None or other is None:
        return None
    for plain, mask in ((one, other), (other, one)):
        if producer(plain, "MatMul", "Mul", "Div") is not None and producer(mask, "MatMul", "Mul", "Div") is None:
            return mask, plain
    return None


def unscaled(value: ir.Value) -> tuple[ir.Node | None, float, float]:
    """The product of queries and keys that scores are computed from, what it is multiplied by, and their bound."""
    softcap, factor = 0.0, 1.0
    found = factored(value)
    bound = None if found is None else producer(found[0], "Tanh")
    if bound is not None and found is not None and bound.inputs[0] is not None:
        inner = factored(bound.inputs[0])
        if inner is None:
            return None, 1.0, 0.0
        # The bound is multiplied after what it was divided by before; what else was multiplied is the scale.
        softcap, factor, value = found[1], inner[1] * found[1], inner[0]
    elif found is not None:
        value, factor = found
    return producer(value, "MatMul"), factor, softcap


def factored(value: ir.Value | None) -> tuple[ir.Value, float] | None:
    """A value without the numbers that it is multiplied by and divided by, and their product."""
    factor = 1.0
    while (node := producer(value, "Mul", "Div")) is not None:
        one, other = node.inputs
        if (found := number(other)) is not None:
            value = one
        elif node.op_type == "Mul" and (found := number(one)) is not None:
            value = other
        else:
            break
        factor = factor * found if node.op_type == "Mul" else factor / found
    return None if value is None else (value, factor)


def through_casts(value: ir.Value) -> ir.Value | None:
    """What a value becomes by Casts alone."""
    while (reader := only_reader(value)) is not None and reader.op_type == "Cast" and reader.domain == "":
        value = reader.outputs[0]
    return value


def unrepeated(value: ir.Value | None) -> ir.Value | None:
    """Keys or values, [batch, groups, tokens, size], that are repeated for the heads of each group; else the value."""
    repeated = producer(value, "Reshape")
    expanded = None if repeated is None else producer(repeated.inputs[0], "Expand")
    unsqueezed = None if expanded is None else producer(expanded.inputs[0], "Unsqueeze")
    given = None if unsqueezed is None else unsqueezed.inputs[0]
    if expanded is None or unsqueezed is None or given is None:
        return value
    batch, groups, tokens, width = dims(given, 4)
    times = dims(expanded.outputs[0], 5)[2]
    if not isinstance(groups, int) or not isinstance(times, int) or None in (batch, tokens, width):
        return value
    shapes = dims(unsqueezed.outputs[0], 5), dims(expanded.outputs[0], 5), dims(value, 4)
    wanted = (
        (batch, groups, 1, tokens, width),
        (batch, groups, times, tokens, width),
        (batch, groups * times, tokens, width),
    )
    return given if shapes == wanted else value


def joined_heads(value: ir.Value, mask: ir.Value | None) -> ir.Value | None:
    """What a product of shares and values becomes as [batch, tokens, heads * size].

    Args:
        value: The product, [batch, heads, tokens, size].
        mask: What is added to the scores; None: nothing is.
    """
    reader = only_reader(value)
    if reader is not None and reader.op_type == "Where":
        # Queries that see no key get 0 there. Where the mask is proved, each sees itself.
        if mask is None or not is_zeroing(reader, value, mask):
            return None
        value = reader.outputs[0]
        reader = only_reader(value)
    if reader is not None and reader.op_type == "Reshape" and is_same_shape(value, reader.outputs[0]):
        value = reader.outputs[0]
        reader = only_reader(value)
    if reader is None or reader.op_type != "Transpose":
        return None
    if list(reader.attributes.get_ints("perm", ())) != HEADS_BY_TOKENS:
        return None
    batch, tokens, heads, width = dims(reader.outputs[0], 4)
    last = only_reader(reader.outputs[0])
    if last is None or last.op_type != "Reshape" or not isinstance(heads, int) or not isinstance(width, int):
        return None
    joined = last.outputs[0]
    return joined if dims(joined, 3) == (batch, tokens, heads * width) and None not in (batch, tokens) else None


def is_zeroing(node: ir.Node, value: ir.Value, mask: ir.Value) -> bool:
    """Whether a node gives 0 in the place of values for queries that see no key."""
    return (
        node.op_type == "Where"
        and node.inputs[1] is value
        and number(node.inputs[2]) == 0
        and _is_any(node.inputs[0], mask)
    )


def _is_any(value: ir.Value | None, mask: ir.Value) -> bool:
    """Whether a value says of each query whether the mask lets it see any key."""
    cast = producer(value, "Cast")
    reduced = producer(cast.inputs[0], "ReduceMax") if cast is not None else None
    counted = producer(reduced.inputs[0], "Cast") if reduced is not None else None
    chosen = producer(mask, "Where")
    shown = mask if chosen is None else chosen.inputs[0]
    return counted is not None and counted.inputs[0] is shown
