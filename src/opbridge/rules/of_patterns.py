"""Rules that look at a node with what is around it, for the targets whose facts name them, or for all."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx_ir as ir

from opbridge.rules.looking import Looked, bodies, computed_from, type_name
from opbridge.rules.rule import Hit, NodeRule
from opbridge.rules.size_inputs import SIZE_INPUTS, size_inputs

__all__ = ["RULES", "origin"]


class BranchRanks(NodeRule):
    """The branches of an If give tensors of different ranks."""

    identifier = "branch-ranks"
    title = "Branches of an If that return tensors of different ranks"
    why = "The target requires one rank for the output of an If: it rejects the model, or uses the rank of one branch."
    remedy = (
        "Return the same rank from both branches, with unsqueeze or reshape, or evaluate the condition before the "
        "export."
    )
    operators = frozenset({"If"})

    def hits(self, node: ir.Node, looked: Looked) -> Iterator[Hit]:
        graphs = list(bodies(node))
        if len(graphs) != 2:
            return
        for one, other in zip(graphs[0].outputs, graphs[1].outputs, strict=False):
            shapes = looked.shape(one), looked.shape(other)
            if shapes[0] is not None and shapes[1] is not None and len(shapes[0]) != len(shapes[1]):
                yield Hit(
                    f"The branches of the If return '{one.name}' of rank {len(shapes[0])} and '{other.name}' of "
                    f"rank {len(shapes[1])}.",
                    node,
                )


class BranchNames(NodeRule):
    """The branches of an If give outputs of the same name."""

    identifier = "branch-names"
    title = "Branches of an If whose outputs have the same name"
    why = "The target requires tensor names that are unique in the whole model."
    remedy = "Rename one of them."
    operators = frozenset({"If"})

    def hits(self, node: ir.Node, looked: Looked) -> Iterator[Hit]:
        graphs = list(bodies(node))
        if len(graphs) == 2:
            names = {each.name for each in graphs[0].outputs} & {each.name for each in graphs[1].outputs}
            for name in sorted(filter(None, names)):
                yield Hit(f"Both branches of the If return a tensor named '{name}'.", node)


class UnmadeBodyOutput(NodeRule):
    """A body gives an output that none of its nodes computes."""

    identifier = "unmade-body-output"
    title = "An output of a body that is an input or an initializer of it"
    why = "The target takes it for an input only, or for no value of the body."
    remedy = "Put an Identity before the output in the body."
    operators = frozenset({"If", "Loop", "Scan"})

    def hits(self, node: ir.Node, looked: Looked) -> Iterator[Hit]:
        for body in bodies(node):
            for value in body.outputs:
                if value.producer() is None:
                    what = "an initializer" if value.is_initializer() else "an input"
                    yield Hit(f"The output '{value.name}' of a body of {node.op_type} is {what} of it.", node)


class ConstantCondition(NodeRule):
    """An If whose condition is known."""

    identifier = "constant-condition"
    title = "An If whose condition is known when the model is loaded"
    why = "One branch never runs, and targets without If reject the model because of it."
    remedy = "Replace the If by the branch that runs."
    severity = "warning"
    always = True
    operators = frozenset({"If"})

    def hits(self, node: ir.Node, looked: Looked) -> Iterator[Hit]:
        if node.inputs and node.inputs[0] is not None and looked.is_known(node.inputs[0]):
            yield Hit("The condition of the If is computed from constants alone.", node)


class MixedPow(NodeRule):
    """A Pow whose exponent has another type than its base, which ONNX allows."""

    identifier = "mixed-pow"
    title = "A Pow whose base and exponent differ in type"
    why = "ONNX allows this; the target does not support it."
    remedy = "Cast the exponent to the type of the base, or both if the base is an integer."
    operators = frozenset({"Pow"})

    def hits(self, node: ir.Node, looked: Looked) -> Iterator[Hit]:
        types = {each.dtype for each in node.inputs if each is not None and each.dtype is not None}
        if len(types) > 1:
            yield Hit(f"Pow has inputs of {' and '.join(sorted(map(type_name, types)))}.", node)


_OF_DATA = frozenset({"NonZero", "Unique", "Compress", "NonMaxSuppression"})


class ShapeOfData(NodeRule):
    """An output whose shape depends on values."""

    identifier = "data-dependent-shape"
    title = "A result whose shape depends on values"
    why = "The target allocates memory by shape, which is not possible here."
    remedy = "Use masks of a fixed shape (torch.where), or select a fixed number of elements with topk."
    operators = _OF_DATA

    def hits(self, node: ir.Node, looked: Looked) -> Iterator[Hit]:
        yield Hit(f"The output shape of {node.op_type} depends on the values of its input.", node)


_SHAPE_INPUTS = {**SIZE_INPUTS, "Resize": (2, 3)}
_SOURCES = frozenset({"ArgMax", "ArgMin", "TopK", "NonZero", "Unique", "NonMaxSuppression", "Compress"})


class SizeOfData(NodeRule):
    """A size that is computed from data."""

    identifier = "size-of-data"
    title = "A size or bound that is computed from tensor values"
    why = (
        "The target computes sizes separately from tensor values, with a few operators; ArgMax, TopK and NonZero "
        "are not among them."
    )
    remedy = "Take the bound from the shape of a tensor (x.shape[1] instead of an argmax over positions)."
    operators = frozenset(_SHAPE_INPUTS)

    def hits(self, node: ir.Node, looked: Looked) -> Iterator[Hit]:
        for value in size_inputs(node, _SHAPE_INPUTS):
            if (found := origin(value)) is not None:
                yield Hit(f"The size input of {node.op_type} is computed by {found.op_type} '{found.name}'.", node)
                return


def origin(value: ir.Value) -> ir.Node | None:
    """The node of `_SOURCES` that a size is computed from, where there is one."""
    return next((producer for _, producer in computed_from(value) if producer.op_type in _SOURCES), None)


class Int64Range(NodeRule):
    """A constant of int64 outside of int32."""

    identifier = "int64-range"
    title = "An int64 constant outside of the int32 range"
    why = "The target computes int64 in int32 and truncates or clamps the number."
    remedy = (
        "Use a number from -2147483648 to 2147483647, for example as the end of a slice or the fill value of a mask."
    )

    def hits(self, node: ir.Node, looked: Looked) -> Iterator[Hit]:
        for value in node.inputs:
            if value is None or value.dtype != ir.DataType.INT64 or not looked.is_stored(value):
                continue
            found = looked.constant(value)
            if found is None or not found.size:
                continue
            limits = np.iinfo(np.int32)
            if (found.min() < limits.min or found.max() > limits.max) and not _is_an_end(node, value):
                yield Hit(f"{node.op_type} has a constant of {found.max()}, which is outside of the int32 range.", node)


def _is_an_end(node: ir.Node, value: ir.Value) -> bool:
    """Whether a number is the end of a slice, which runtimes clamp to the size."""
    return node.op_type == "Slice" and value in node.inputs[1:3]


class SameActivations(NodeRule):
    """A recurrent layer of both directions with other activations one way than the other."""

    identifier = "same-activations"
    title = "A recurrent layer whose two directions have different activations"
    why = "The target computes both directions with one set of activations."
    remedy = "Use the same activations for both directions, or a layer for each."
    operators = frozenset({"GRU", "LSTM", "RNN"})

    def hits(self, node: ir.Node, looked: Looked) -> Iterator[Hit]:
        given = looked.attribute(node, "activations")
        if given is None or looked.attribute(node, "direction") != "bidirectional":
            return
        names = [each.lower() for each in given]
        half = len(names) // 2
        if names[:half] != names[half:]:
            yield Hit(f"{node.op_type} has activations={list(given)} for its two directions.", node)


RULES: tuple[type[NodeRule], ...] = (
    BranchRanks,
    BranchNames,
    UnmadeBodyOutput,
    ConstantCondition,
    MixedPow,
    ShapeOfData,
    SizeOfData,
    Int64Range,
    SameActivations,
)
