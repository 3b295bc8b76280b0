"""Rules on forms that people reported of targets, for the targets whose facts name them."""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from opbridge.rules.looking import Looked, bodies, carried, computed_from, differ, name_of
from opbridge.rules.rule import FactRule, Hit, NodeRule
from opbridge.targets import facts

__all__ = ["FACT_RULES", "RULES"]


class FaultyChain(FactRule):
    """Reads `facts.Chain`."""

    identifier = "faulty-chain"
    title = "A sequence of operators that a version of the target computes incorrectly"
    why = "Users reported wrong results of that version for these operators in this order."
    remedy = "Compare the results on the target, use another version, or change the order in the model's code."
    kind = facts.Chain

    def hits(self, node: ir.Node, fact: facts.Chain, looked: Looked) -> Iterator[Hit]:
        if _follows(node, fact.after, looked):
            order = " -> ".join([*reversed(fact.after), node.op_type])
            yield Hit(f"This version is reported to compute {order} incorrectly.", node)


def _follows(node: ir.Node, after: tuple[str, ...], looked: Looked) -> bool:
    """Whether a node reads what a chain of operators gives, the nearest first; "input": an input of the model."""
    if not after:
        return True
    for value in node.inputs:
        if value is None:
            continue
        if after[0] == "input":
            if value.is_graph_input() and value in looked.model.graph.inputs:
                return True
        elif (producer := value.producer()) is not None and name_of(producer) == after[0]:
            if _follows(producer, after[1:], looked):
                return True
    return False


class BranchShapes(NodeRule):
    """The branches of an If give tensors of one rank and other sizes."""

    identifier = "branch-shapes"
    title = "Branches of an If that return tensors of different shapes"
    why = "The target requires one shape for the output of an If, and rejects the model if the branches differ."
    remedy = "Return the same shape from both branches, or evaluate the condition before the export."
    operators = frozenset({"If"})

    def hits(self, node: ir.Node, looked: Looked) -> Iterator[Hit]:
        graphs = list(bodies(node))
        if len(graphs) != 2:
            return
        for one, other in zip(graphs[0].outputs, graphs[1].outputs, strict=False):
            left, right = looked.shape(one), looked.shape(other)
            if left is None or right is None or len(left) != len(right):
                continue
            if differ(left, right):
                yield Hit(
                    f"The branches of the If return '{one.name}' of shape {left} and '{other.name}' of shape {right}.",
                    node,
                )


class LoopShapes(NodeRule):
    """A Loop that gives a tensor of as many rows as it runs, or changes the shape of what it carries."""

    identifier = "loop-shapes"
    title = "A Loop whose output shapes the target cannot infer"
    why = "The target allocates the memory of a Loop before it runs."
    remedy = "Use a constant number of iterations in the model's code, and write into a tensor of a fixed shape."
    operators = frozenset({"Loop"})

    def hits(self, node: ir.Node, looked: Looked) -> Iterator[Hit]:
        body = next(bodies(node), None)
        if body is None:
            return
        turns = node.inputs[0]
        if len(body.outputs) > len(node.inputs) - 1 and (turns is None or not looked.is_known(turns)):
            yield Hit(
                "The Loop returns one row per iteration, but the number of iterations is computed at run time.", node
            )
        for before, after in carried(node, body):
            one, other = looked.shape(before), looked.shape(after)
            if one is None or other is None:
                continue
            if len(one) != len(other) or differ(one, other):
                yield Hit(
                    f"The loop-carried value changes its shape: '{before.name}' is {one}, '{after.name}' is {other}.",
                    node,
                )


class EinsumForm(NodeRule):
    """An Einsum with an ellipsis, a diagonal, or inputs that broadcast."""

    identifier = "einsum-form"
    title = "An Einsum with an ellipsis, a repeated label, or broadcast sizes"
    why = "The target does not support these in Einsum."
    remedy = "Use matmul, transpose and reshape, or one label for each dimension."
    operators = frozenset({"Einsum"})

    def hits(self, node: ir.Node, looked: Looked) -> Iterator[Hit]:
        equation = looked.attribute(node, "equation")
        if not isinstance(equation, str):
            return
        terms = [each.replace(" ", "") for each in equation.partition("->")[0].split(",")]
        if "..." in equation:
            yield Hit(f"Einsum has an ellipsis in '{equation}'.", node)
        elif any(len(set(each)) < len(each) for each in terms):
            yield Hit(f"Einsum has a repeated label in '{equation}'.", node)
        else:
            yield from self._broadcast(node, looked, equation, terms)

    def _broadcast(self, node: ir.Node, looked: Looked, equation: str, terms: list[str]) -> Iterator[Hit]:
        known: dict[str, int] = {}
        for term, value in zip(terms, node.inputs, strict=False):
            for label, size in zip(term, looked.shape(value) or (), strict=False):
                if isinstance(size, int) and known.setdefault(label, size) != size:
                    yield Hit(f"The label '{label}' in '{equation}' has the sizes {known[label]} and {size}.", node)
                    return


_SIZE_INPUTS = {
    "ConstantOfShape": (0,),
    "Expand": (1,),
    "Pad": (1,),
    "Reshape": (1,),
    "Resize": (2, 3),
    "Slice": (1, 2),
    "Tile": (1,),
}


class ShapeOfRank(NodeRule):
    """A size that is computed from shapes by way of a tensor of two dimensions or more."""

    identifier = "shape-of-rank"
    title = "A size that is computed through a tensor of two or more dimensions"
    why = "The target computes sizes only in tensors of at most one dimension."
    remedy = "Compute the size with scalars and one-dimensional tensors; give pads in the order of ONNX."
    operators = frozenset(_SIZE_INPUTS)

    def hits(self, node: ir.Node, looked: Looked) -> Iterator[Hit]:
        for at in _SIZE_INPUTS[node.op_type]:
            value = node.inputs[at] if at < len(node.inputs) else None
            found = None if value is None or looked.is_known(value) else _of_rank(value, looked)
            if found is not None:
                shape = looked.shape(found) or []
                yield Hit(
                    f"The size input of {node.op_type} is computed through '{found.name}' of shape {shape}.", node
                )
                return


def _of_rank(value: ir.Value, looked: Looked) -> ir.Value | None:
    """A value of more than one dimension on the way from shapes to a size."""
    for current, _ in computed_from(value, until=looked.is_known):
        shape = looked.shape(current)
        if shape is not None and len(shape) > 1:
            return current
    return None


class BroadcastScale(NodeRule):
    """A LayerNormalization whose scale or bias has other sizes than what is normalised."""

    identifier = "broadcast-scale"
    title = "A LayerNormalization whose scale broadcasts"
    why = "The target infers a different output shape than ONNX."
    remedy = "Expand the scale and the bias to the normalized shape."
    operators = frozenset({"LayerNormalization"})

    def hits(self, node: ir.Node, looked: Looked) -> Iterator[Hit]:
        data, axis = looked.shape(node.inputs[0]), looked.attribute(node, "axis")
        if not data or not isinstance(axis, int) or not -len(data) <= axis < len(data):
            return
        wanted = data[axis:]
        for value in node.inputs[1:3]:
            shape = looked.shape(value)
            if value is None or shape is None or not all(isinstance(each, int) for each in (*shape, *wanted)):
                continue
            if shape != wanted:
                yield Hit(f"LayerNormalization has '{value.name}' of {shape} for {wanted}.", node)
                return


class AsymmetricPads(NodeRule):
    """A ConvTranspose of three dimensions with other padding after than before."""

    identifier = "asymmetric-pads"
    title = "A three-dimensional ConvTranspose with asymmetric padding"
    why = "Some devices of the target support only symmetric padding."
    remedy = "Use output_padding=0 and slice the result."
    operators = frozenset({"ConvTranspose"})

    def hits(self, node: ir.Node, looked: Looked) -> Iterator[Hit]:
        shape = looked.shape(node.inputs[0])
        if shape is None or len(shape) != 5:
            return
        pads, further = looked.attribute(node, "pads"), looked.attribute(node, "output_padding")
        if (pads and list(pads[:3]) != list(pads[3:])) or (further and any(further)):
            said = f"pads={list(pads)}" if pads else f"output_padding={list(further)}"
            yield Hit(f"ConvTranspose of three dimensions has {said}.", node)


class QuantizedBias(NodeRule):
    """A DequantizeLinear of int32."""

    identifier = "quantized-bias"
    title = "An int32 bias that is dequantized in the model"
    why = "Quantizers write biases this way, but the target supports DequantizeLinear only for int8 and narrower types."
    remedy = "Keep the bias in float32 (QuantizeBias=False in ONNX Runtime's quantizer)."
    operators = frozenset({"DequantizeLinear"})

    def hits(self, node: ir.Node, looked: Looked) -> Iterator[Hit]:
        value = node.inputs[0]
        if value is not None and value.dtype == ir.DataType.INT32:
            yield Hit(f"DequantizeLinear has the int32 input '{value.name}'.", node)


class QuantizedAxis(NodeRule):
    """Weights of a ConvTranspose that are quantised for each output channel."""

    identifier = "quantized-axis"
    title = "Weights of a ConvTranspose that are quantized along their second dimension"
    why = (
        "The target supports scales of such weights only along the first dimension: it rejects others or computes "
        "wrong results."
    )
    remedy = "Quantize the weights of ConvTranspose along axis 0, or per tensor."
    operators = frozenset({"ConvTranspose"})

    def hits(self, node: ir.Node, looked: Looked) -> Iterator[Hit]:
        weight = node.inputs[1] if len(node.inputs) > 1 else None
        producer = None if weight is None else weight.producer()
        if producer is None or producer in looked.malformed or producer.op_type != "DequantizeLinear":
            return
        scale, axis = looked.shape(producer.inputs[1]), looked.attribute(producer, "axis")
        if scale and scale != [1] and axis == 1:
            yield Hit("The weights of ConvTranspose are dequantized along axis 1.", node)


class Unfolded(NodeRule):
    """A Reshape, Squeeze or Flatten of constants."""

    identifier = "unfolded"
    title = "A Reshape, Squeeze or Flatten of constants, left to the runtime to fold"
    why = "This version folds it incorrectly: the results are unstable or NaN."
    remedy = "Fold the constants of the model before it is loaded on the target."
    operators = frozenset({"Flatten", "Reshape", "Squeeze"})

    def hits(self, node: ir.Node, looked: Looked) -> Iterator[Hit]:
        if node.outputs and looked.is_known(node.outputs[0]):
            yield Hit(f"All inputs of {node.op_type} are constant.", node)


class TextAttribute(NodeRule):
    """An attribute that is a tensor of strings."""

    identifier = "text-attribute"
    title = "An attribute that is a tensor of strings"
    why = "This version fails during common subexpression elimination."
    remedy = "Use a list of strings (keys_strings), or disable that optimization."

    def hits(self, node: ir.Node, looked: Looked) -> Iterator[Hit]:
        for each in node.attributes.values():
            if each.type == ir.AttributeType.TENSOR and each.value.dtype == ir.DataType.STRING:
                if node.op_type != "Constant":  # an initializer by then
                    yield Hit(f"{name_of(node)} has a string tensor as its attribute {each.name}.", node)


class FirstConvolution(NodeRule):
    """A Conv of an input of the model with more than three channels."""

    identifier = "first-convolution"
    title = "A Conv on a model input with more than three channels"
    why = "Users reported wrong results of this version for it."
    remedy = "Compare the results on the target, or use another version."
    operators = frozenset({"Conv"})

    def hits(self, node: ir.Node, looked: Looked) -> Iterator[Hit]:
        value = node.inputs[0] if node.inputs else None
        shape = looked.shape(value)
        if value is None or value not in looked.model.graph.inputs or shape is None or len(shape) < 3:
            return
        if isinstance(shape[1], int) and shape[1] > 3:
            yield Hit(f"Conv reads the input '{value.name}' of {shape[1]} channels.", node)


FACT_RULES: tuple[type[FactRule], ...] = (FaultyChain,)

RULES: tuple[type[NodeRule], ...] = (
    BranchShapes,
    LoopShapes,
    EinsumForm,
    ShapeOfRank,
    BroadcastScale,
    AsymmetricPads,
    QuantizedBias,
    QuantizedAxis,
    Unfolded,
    TextAttribute,
    FirstConvolution,
)
