"""Rules on sizes and masks that look at a node with what is around it, for the targets whose facts name them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx_ir as ir

from opbridge.rules.looking import Looked
from opbridge.rules.rule import Hit, NodeRule

__all__ = ["RULES", "masked_maximum", "smaller_axes"]

_FARTHEST = 64
_OF_MASKS = frozenset(
    {"Add", "Cast", "CastLike", "Concat", "Expand", "Gather", "Identity", "Mul", "Pad", "Reshape", "Slice", "Squeeze",
     "Tile", "Transpose", "Unsqueeze", "Where"}
)  # fmt: skip
_OF_CONDITIONS = _OF_MASKS | {"And", "Or", "Not", "Xor"}


class SmallerIndices(NodeRule):
    """GatherElements whose indices are smaller than the data, along an axis other than the one that it gathers on."""

    identifier = "smaller-indices"
    title = "GatherElements with indices that are smaller than the data"
    why = "Along the other axes, the target requires indices of the same size as the data."
    remedy = "Narrow the data to the indices first (x[:, : index.shape[1]].gather(...))."
    operators = frozenset({"GatherElements"})

    def hits(self, node: ir.Node, looked: Looked) -> Iterator[Hit]:
        if axes := smaller_axes(node, looked):
            data, indices = (looked.shape(each) for each in node.inputs[:2])
            yield Hit(
                f"GatherElements has indices of shape {indices} for data of shape {data}; axis {axes[0]} differs.", node
            )


def smaller_axes(node: ir.Node, looked: Looked) -> list[int]:
    """The axes other than its own along which a GatherElements is known to have fewer indices than data."""
    data, indices = (looked.shape(each) for each in node.inputs[:2])
    if data is None or indices is None or len(data) != len(indices) or not data:
        return []
    own = int(looked.attribute(node, "axis") or 0) % len(data)
    pairs = enumerate(zip(data, indices, strict=True))
    return [at for at, (a, b) in pairs if at != own and isinstance(a, int) and isinstance(b, int) and b < a]


class TooManyParts(NodeRule):
    """A Split into more parts than there are elements, as in a branch that never runs."""

    identifier = "too-many-parts"
    title = "A Split into more parts than the dimension has elements"
    why = "The target checks all branches of an If, including one that never runs for the given sizes."
    remedy = "Evaluate the condition before the export, so that the model contains only the branch that runs."
    operators = frozenset({"Split"})

    def hits(self, node: ir.Node, looked: Looked) -> Iterator[Hit]:
        shape = looked.shape(node.inputs[0]) if node.inputs else None
        if not shape or (len(node.inputs) > 1 and node.inputs[1] is not None):
            return
        size, count = shape[int(looked.attribute(node, "axis") or 0) % len(shape)], len(node.outputs)
        if isinstance(size, int) and size < count:
            yield Hit(f"Split divides a dimension of size {size} into {count} parts.", node)


class MaskedRows(NodeRule):
    """A comparison that finds rows of which a mask of truth values leaves nothing, by their maximum."""

    identifier = "masked-rows"
    title = "Fully masked rows, detected by their maximum"
    why = "The target returns a finite maximum of only infinities, so a fully masked row is not detected."
    remedy = "Detect such rows by the mask: (~mask).all(-1)."
    operators = frozenset({"Equal"})

    def hits(self, node: ir.Node, looked: Looked) -> Iterator[Hit]:
        if masked_maximum(node, looked) is not None:
            yield Hit("A maximum of elements that may all be masked with -inf is compared with -inf.", node)


def masked_maximum(node: ir.Node, looked: Looked) -> ir.Node | None:
    """The ReduceMax whose result an Equal compares with -inf, where an input of truth values may mask all elements."""
    for maximum, other in (node.inputs[:2], node.inputs[1::-1]):
        maker = None if maximum is None else maximum.producer()
        if maker is None or maker.op_type != "ReduceMax" or not maker.inputs or not _is_lowest(other, looked):
            continue
        masks = (each for each in _read(maker.inputs[0], _OF_MASKS) if each.op_type == "Where")
        if any(_is_mask(each, looked) for each in masks):
            return maker
    return None


def _is_mask(node: ir.Node, looked: Looked) -> bool:
    if len(node.inputs) != 3 or not any(_is_lowest(each, looked) for each in node.inputs[1:]):
        return False
    given = [node.inputs[0], *(each for made in _read(node.inputs[0], _OF_CONDITIONS) for each in made.inputs)]
    return any(each is not None and each.is_graph_input() and each.dtype == ir.DataType.BOOL for each in given)


def _read(value: ir.Value | None, through: frozenset[str]) -> Iterator[ir.Node]:
    """The nodes that a value is computed by, the nearest 64 at most, as far as operators of some names go."""
    waiting = [value]
    seen: set[ir.Node] = set()
    while waiting and len(seen) < _FARTHEST:
        current = waiting.pop()
        node = None if current is None else current.producer()
        if node is not None and node not in seen and node.op_type in through:
            seen.add(node)
            yield node
            waiting.extend(node.inputs)


def _is_lowest(value: ir.Value | None, looked: Looked) -> bool:
    """Whether a value is the constant -inf, of any type."""
    for _ in range(4):
        if value is None:
            return False
        found = looked.constant(value)
        if found is not None:
            return found.size == 1 and found.dtype.kind in "fV" and bool(np.isneginf(found.astype(np.float64)).all())
        node = value.producer()
        if node is None or node.op_type not in ("Cast", "CastLike", "Identity") or not node.inputs:
            return False
        value = node.inputs[0]
    return False


RULES: tuple[type[NodeRule], ...] = (SmallerIndices, TooManyParts, MaskedRows)
