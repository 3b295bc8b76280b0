"""The inputs and outputs of the ONNX graph: which there are, in which order, and their names."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import onnx_ir as ir
import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import ConstantArgument, InputKind, OutputKind, SymIntArgument
from torch.fx import Node

from opbridge.base.torch_private import torch_tracing
from opbridge.errors import UsageError
from opbridge.graph.interface import lifted_tensors
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


def make_inputs(program: ExportedProgram, values: Values, names: Sequence[str] | None) -> GraphInputs:
    """The graph's inputs: the model's tensor inputs, one for one, used or not.

    Args:
        program: The captured graph.
        values: Makes the values, and is given the names of the weights.
        names: Names for the inputs, in order; fewer than there are leave the rest as they are.

    Raises:
        UsageError: more names than inputs, or a name given twice.
    """
    made = GraphInputs()
    lifted = lifted_tensors(program)
    placeholders = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
    given: list[tuple[int, Node]] = []
    leaves = itertools.count()
    for spec in program.graph_signature.input_specs:
        leaf = next(leaves) if spec.kind == InputKind.USER_INPUT else -1
        node = placeholders[spec.arg.name]
        if node.name in lifted:
            name, tensor = lifted[node.name]
            values.weight_names.setdefault(id(tensor), name)
            if spec.kind == InputKind.CONSTANT_TENSOR:
                values.literals.add(id(tensor))
            made.values[node] = tensor
        elif isinstance(spec.arg, ConstantArgument):
            made.values[node] = spec.arg.value
        elif spec.kind == InputKind.USER_INPUT:
            given.append((leaf, node))
    chosen = _names(names, [node.name for _, node in given], "input")
    builder = values.builder
    for (leaf, node), name in zip(given, chosen, strict=True):
        value = builder.value(builder.unique(name), *values.described(node.meta["val"]))
        made.values[node] = made.leaves[leaf] = value
        made.tensors.append(value)
    return made


def make_outputs(program: ExportedProgram, values: Values, results: Any, names: Sequence[str] | None) -> list[Tensor]:
    """The graph's outputs: the model's tensor outputs in order, each a value of its own.

    Args:
        program: The captured graph.
        values: Makes the values.
        results: What the outputs of the captured graph stand for.
        names: Names for the outputs, in order.

    Raises:
        UsageError: more names than outputs, or a name given twice.
    """
    kept = list(_tensor_outputs(program, results))
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


def _tensor_outputs(program: ExportedProgram, results: Any) -> Iterator[tuple[Any, str]]:
    """The outputs that are tensors or sizes, with their paths in what the model returns."""
    users = [
        (value, spec)
        for value, spec in zip(results, program.graph_signature.output_specs, strict=True)
        if spec.kind in (OutputKind.USER_OUTPUT, OutputKind.LOSS_OUTPUT)
    ]
    for (value, spec), path in zip(users, torch_tracing.output_paths(program), strict=True):
        if isinstance(value, (ir.Value, torch.Tensor)) or isinstance(spec.arg, SymIntArgument):
            yield value, path


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
