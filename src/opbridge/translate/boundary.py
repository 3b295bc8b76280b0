"""The inputs and outputs of the ONNX graph: which there are, in which order, and their names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import onnx_ir as ir
import torch
from torch.fx import Node

from opbridge.errors import UsageError
from opbridge.graph.captured_graph import CapturedGraph
from opbridge.onnx.tensor import Tensor
from opbridge.translate.values import Values

__all__ = ["GraphInputs", "make_inputs", "make_outputs"]


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


def make_inputs(graph: CapturedGraph, values: Values, names: Sequence[str] | None) -> GraphInputs:
    """The graph's inputs: the model's tensor inputs, one for one, used or not.

    Args:
        graph: The captured graph.
        values: Makes the values, and is given the names of the weights.
        names: Names for the inputs, in order; fewer than there are leave the rest as they are.

    Raises:
        UsageError: more names than inputs, or a name given twice.
    """
    made = GraphInputs()
    for node, weight in graph.weights.items():
        values.weight_names.setdefault(id(weight.tensor), weight.name)
        if weight.kind == "constant":
            values.literals.add(id(weight.tensor))
        made.values[node] = weight.tensor
    given = [(number, leaf.node) for number, leaf in enumerate(graph.inputs) if leaf.node is not None]
    chosen = _names(names, [node.name for _, node in given], "input")
    builder = values.builder
    for (number, node), name in zip(given, chosen, strict=True):
        value = builder.value(builder.unique(name), *values.described(node.meta["val"]))
        made.values[node] = made.leaves[number] = value
        made.tensors.append(value)
    return made


def make_outputs(graph: CapturedGraph, values: Values, results: Any, names: Sequence[str] | None) -> list[Tensor]:
    """The graph's outputs: the model's tensor outputs in order, each a value of its own.

    Args:
        graph: The captured graph.
        values: Makes the values.
        results: What the outputs of the captured graph stand for.
        names: Names for the outputs, in order.

    Raises:
        UsageError: more names than outputs, or a name given twice.
    """
    kept = list(_tensor_outputs(graph, results))
    chosen = _names(names, [path for _, path in kept], "output")
    builder = values.builder
    outputs: list[Tensor] = []
    for (value, _), name in zip(kept, chosen, strict=True):
        output = values.as_tensor(value)
        if output.producer() is None or any(output is other for other in outputs):
            output = builder.node("Identity", [output], {}, [output.dtype], shapes=[output.shape])[0]
        _rename(output, builder.unique(name))
        outputs.append(output)
    return outputs


def _tensor_outputs(graph: CapturedGraph, results: Any) -> Iterator[tuple[Any, str]]:
    """The outputs that are tensors or sizes, with their paths in what the model returns."""
    for value, leaf in zip(results, graph.outputs, strict=True):
        if isinstance(value, (ir.Value, torch.Tensor)) or leaf.is_number:
            yield value, leaf.name


def _names(given: Sequence[str] | None, defaults: Sequence[str], what: str) -> list[str]:
    given = list(given or ())
    if len(given) > len(defaults):
        raise UsageError(
            f"{what}_names holds {len(given)} names, and the model has {len(defaults)} {what}s "
            f"({', '.join(defaults) or 'none'}). Leave the last {len(given) - len(defaults)} out."
        )
    if len(set(given)) != len(given):
        raise UsageError(f"{what}_names holds a name twice: {', '.join(given)}.")
    return [*given, *defaults[len(given) :]]


def _rename(value: Tensor, name: str) -> None:
    """Renames a value, in the metadata of the node that makes it too."""
    producer = value.producer()
    if producer is not None and "opbridge.output" in producer.metadata_props:
        names = producer.metadata_props["opbridge.output"].split(" ")
        renamed = (name if each == value.name else each for each in names)
        producer.metadata_props["opbridge.output"] = " ".join(renamed)
    value.name = name
