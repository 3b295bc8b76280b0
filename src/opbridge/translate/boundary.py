"""The inputs and outputs of the ONNX graph: which there are, in which order, and their names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx_ir as ir
from torch.fx import Node

from opbridge.errors import UsageError
from opbridge.graph.captured_graph import AskedDimension, CapturedGraph
from opbridge.graph.values import as_tensor
from opbridge.onnx.builder import Builder
from opbridge.onnx.tensor import Tensor
from opbridge.translate.values import Values

__all__ = ["GraphInputs", "make_inputs", "make_outputs", "output_names"]


class GraphInputs:
    """The placeholders of the captured graph.

    Attributes:
        values: What each placeholder stands for: a value of the ONNX graph, a tensor of the model, or a constant.
        tensors: The inputs of the ONNX graph, in order.
        leaves: The same by their number among the leaves of `(args, kwargs)`.
    """

    def __init__(self) -> None:
        self.values: dict[Node, Any] = {}
        self.tensors: list[Tensor] = []
        self.leaves: dict[int, Tensor] = {}


def make_inputs(
    graph: CapturedGraph,
    values: Values,
    names: Sequence[str] | None,
    asked: Sequence[AskedDimension] = (),
) -> GraphInputs:
    """The graph's inputs: the model's tensor inputs, one for one, used or not.

    Args:
        graph: The captured graph.
        values: Makes the values, and is given the names of the weights.
        names: Names for the inputs, in order; fewer than there are leave the rest as they are.
        asked: The dimensions that the user made dynamic. Each keeps its name, also where the model needs two of them to
            be equal.

    Raises:
        UsageError: more names than inputs, or a name given twice.
    """
    made = GraphInputs()
    for node, weight in graph.weights.items():
        values.weight_names.setdefault(id(weight.tensor), weight.name)
        values.weight_views.add_weight(weight.tensor)
        if weight.kind == "constant":
            values.literals.add(id(weight.tensor))
        made.values[node] = weight.tensor
    given = [(number, leaf.node) for number, leaf in enumerate(graph.inputs) if leaf.node is not None]
    builder = values.builder
    # A name with a dot is that of a cache's tensor, and none that a node can have.
    defaults = [graph.inputs[number].name if "." in graph.inputs[number].name else node.name for number, node in given]
    chosen = _names(names, defaults, "input", builder)
    named = {(each.leaf, each.axis): each.name for each in asked if each.name is not None}
    for (number, node), name in zip(given, chosen, strict=True):
        dtype, shape = values.described(node.meta["val"])
        for axis, size in enumerate(shape or ()):
            if shape is not None and isinstance(size, str):
                shape[axis] = named.get((number, axis), size)
        value = builder.value(name, dtype, shape)
        made.values[node] = made.leaves[number] = value
        made.tensors.append(value)
    return made


def output_names(
    graph: CapturedGraph, given: Sequence[str] | None, inputs: Sequence[str], builder: Builder
) -> list[str]:
    """The names of the outputs, which no other value gets: those given, then the places in what the model returns.

    Args:
        graph: The captured graph.
        given: Names for the outputs, in order; fewer than there are leave the rest as they are.
        inputs: The names of the inputs. A place that is one of them gets a number.
        builder: What the graph is built with.

    Raises:
        UsageError: more names than outputs, a name given twice, or one that is an input's; an output that is no tensor
            and no number, or none at all.
    """
    kept = []
    for leaf in graph.outputs:
        if leaf.is_returned:
            kept.append(leaf.name)
        elif leaf.value is not None:
            kind = type(leaf.value).__name__
            raise UsageError(
                f"The model returns {'an' if kind[0] in 'aeiou' else 'a'} {kind} as '{leaf.name}' "
                f"({leaf.value!r}), but an output of an ONNX model must be a tensor or a number. Leave it out of "
                "what forward() returns."
            )
    if not kept:
        returned = ", ".join(repr(leaf.value) for leaf in graph.outputs) or "an empty container"
        raise UsageError(
            f"The model returns no tensor and no number ({returned}), so the ONNX model would have no outputs. "
            "Return the result from forward()."
        )
    both = [] if isinstance(given, str) else [name for name in given or () if name in inputs]
    if both:
        raise UsageError(
            f"output_names holds {', '.join(map(repr, both))}, which is also the name of an input, but the names "
            "in an ONNX model must be unique. Rename the output, or the input with input_names."
        )
    return _names(given, kept, "output", builder)


def make_outputs(graph: CapturedGraph, values: Values, results: Any, names: Sequence[str]) -> list[Tensor]:
    """The graph's outputs: the tensors and numbers that the model returns, in order, each a value of its own.

    1. A number is a tensor without dimensions: bool, int64, double, or a pair of doubles for a complex one.
    2. None is no output.

    Args:
        graph: The captured graph.
        values: Makes the values.
        results: What the outputs of the captured graph stand for.
        names: Their names, from `output_names`.
    """
    builder = values.builder
    outputs: list[Tensor] = []
    kept = [value for value, leaf in zip(results, graph.outputs, strict=True) if leaf.is_returned]
    for value, name in zip(kept, names, strict=True):
        output = values.as_tensor(value if isinstance(value, ir.Value) else as_tensor(value))
        if output.producer() is None or any(output is other for other in outputs):
            output = builder.node("Identity", [output], {}, [output.dtype], shapes=[output.shape])[0]
        _rename(output, name)
        outputs.append(output)
    return outputs


def _names(given: Sequence[str] | None, defaults: Sequence[str], what: str, builder: Builder) -> list[str]:
    """The names of the inputs or outputs: as given, and by default unlike any other in the graph."""
    if isinstance(given, str):
        raise UsageError(f"{what}_names={given!r} is a string; expected a list of names: [{given!r}].")
    given = list(given or ())
    if len(given) > len(defaults):
        raise UsageError(
            f"{what}_names holds {len(given)} names, but the model has {len(defaults)} {what}s "
            f"({', '.join(defaults) or 'none'}). Leave the last {len(given) - len(defaults)} out."
        )
    if len(set(given)) != len(given):
        raise UsageError(f"{what}_names contains a duplicate name: {', '.join(given)}. Give each a unique name.")
    for name in given:
        builder.reserve(name)
    return [*given, *map(builder.unique, defaults[len(given) :])]


def _rename(value: Tensor, name: str) -> None:
    """Renames a value, in the metadata of the node that makes it too."""
    producer = value.producer()
    if producer is not None and "opbridge.output" in producer.metadata_props:
        names = producer.metadata_props["opbridge.output"].split(" ")
        renamed = (name if each == value.name else each for each in names)
        producer.metadata_props["opbridge.output"] = " ".join(renamed)
    value.name = name
