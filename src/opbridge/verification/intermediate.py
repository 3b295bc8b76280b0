"""The values inside an ONNX model, node by node of the captured graph."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import onnx_ir as ir
import onnxruntime
import torch
from torch.export import ExportedProgram

from opbridge.errors import SaveError
from opbridge.graph.interface import as_tensor, is_frozen, user_inputs
from opbridge.graph.operators import operator_of
from opbridge.nodes.aten_node import called_operators
from opbridge.onnx import serialize
from opbridge.runtimes.onnxruntime import session
from opbridge.save import writer
from opbridge.verification import dynamic_sizes, exchange

if TYPE_CHECKING:
    from opbridge.capture import Capture

__all__ = ["RuntimeValues", "Unusable", "counterparts", "feeds_of", "keyed", "order_of"]

_LARGEST_FETCH = 1 << 30
"""Bytes of intermediate values that are asked of the runtime at a time."""

_UNKNOWN_SIZE = 64


class Unusable(Exception):
    """The values cannot be compared; the message says why."""


def counterparts(graph: ir.Graph, program: ExportedProgram) -> dict[str, ir.Value]:
    """The ONNX value of each node of the captured graph, "relu" or "split:1", where the file has it.

    Raises:
        Unusable: the file has none, or is of another graph.
    """
    operators = {node.name: operator_of(node) for node in program.graph.nodes}
    found: dict[str, ir.Value] = {}
    for node in graph:
        keys = node.metadata_props.get("opbridge.node", "").split()
        names = node.metadata_props.get("opbridge.output", "").split()
        by_name = {value.name: value for value in node.outputs}
        for key, name in zip(keys, names, strict=False):
            value = by_name.get(name)
            if value is None and len(keys) == len(node.outputs) == 1:
                value = node.outputs[0]  # renamed since
            operator = node.metadata_props.get("opbridge.operator")
            if operator is not None and operators.get(key.partition(":")[0]) != operator:
                # Under these names another graph's values would be compared.
                raise Unusable(
                    f"the file was made from another capture of the model, in which '{key}' is {operator}; give the "
                    "dynamic_shapes that it was exported with"
                )
            if value is not None and not isinstance(value.type, (ir.SequenceType, ir.OptionalType)):
                found[key] = value
    if not found:
        raise Unusable("the file does not say which of its values belong to which operator of the model")
    return found


def feeds_of(model: ir.Model, program: ExportedProgram, leaves: Sequence[Any]) -> dict[str, torch.Tensor]:
    """The tensors of the graph's inputs, by name, from the leaves of `(args, kwargs)`."""
    specs = user_inputs(program)
    given = [as_tensor(leaf) for leaf, spec in zip(leaves, specs, strict=True) if not is_frozen(spec)]
    return {str(value.name): tensor for value, tensor in zip(model.graph.inputs, given, strict=True)}


def order_of(
    program: ExportedProgram, values: Mapping[str, ir.Value], capture: Capture, leaves: Sequence[Any]
) -> list[tuple[str, int]]:
    """The names of the ONNX values in the order in which the walk asks for them, with their sizes in bytes."""
    sizes = dynamic_sizes.from_capture(capture, leaves).example
    order: dict[str, int] = {}
    for node in program.graph.nodes:
        for key, value in keyed(node.name, node.meta.get("val")):
            if key in values:
                order.setdefault(str(values[key].name), _bytes(value, sizes))
    return list(order.items())


def keyed(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """A node's value under the name that the file gives it; each output by its number where there are several."""
    if isinstance(value, (list, tuple)):
        yield from ((f"{name}:{index}", item) for index, item in enumerate(value))
    else:
        yield name, value


def _bytes(value: Any, sizes: Mapping[str, int]) -> int:
    if not isinstance(value, torch.Tensor):
        return 8
    count = value.itemsize
    for size in value.shape:
        try:
            count *= size if isinstance(size, int) else dynamic_sizes.evaluate(str(size), sizes)
        except ValueError:
            count *= _UNKNOWN_SIZE
    return count


class RuntimeValues:
    """The runtime's values by name, computed as they are asked for: all at once, or in stretches where they are large.

    `take` is called in the order of `order`; what was taken is given up.
    """

    def __init__(self, model: ir.Model, feeds: dict[str, torch.Tensor], order: list[tuple[str, int]]) -> None:
        self._model, self._feeds = model, feeds
        self._stretches: list[list[str]] = []
        room = 0
        for name, size in order:
            if not self._stretches or size > room:
                self._stretches.append([])
                room = _LARGEST_FETCH
            self._stretches[-1].append(name)
            room -= size
        self._held: dict[str, torch.Tensor] = {}

    def take(self, name: str) -> torch.Tensor:
        """One value.

        Raises:
            Unusable: the runtime raised.
        """
        while name not in self._held and self._stretches:
            stretch = self._stretches.pop(0)
            self._held = dict(zip(stretch, self.compute(stretch), strict=True))
        return self._held[name]

    def compute(self, names: Sequence[str]) -> list[torch.Tensor]:
        """Runs a copy of the model that has these values among its outputs, with the optimiser off.

        Raises:
            Unusable: the runtime raised.
        """
        copy = self._model.clone()
        missing = set(names) - {value.name for value in copy.graph.outputs}
        for node in copy.graph:
            copy.graph.outputs.extend(value for value in node.outputs if value.name in missing)
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.log_severity_level = 4
        try:
            return self._run(copy, options, names)
        except Exception as error:  # the runtime's errors share no other base
            raise Unusable(f"ONNX Runtime does not run the model without its optimiser: {error}") from error

    def _run(self, model: ir.Model, options: Any, names: Sequence[str]) -> list[torch.Tensor]:
        # The user allowed the model's operators when it was loaded for the comparison.
        arguments = {"options": options, "loaded": True, "aten": called_operators(model)}
        try:
            content = serialize.to_bytes(model)
        except SaveError:  # more than one file can hold
            with tempfile.TemporaryDirectory(prefix="opbridge") as folder:
                path = Path(folder) / "model.onnx"
                writer.save(model, path, external_data=True)
                return exchange.run(session(path, **arguments), self._feeds, names)
        return exchange.run(session(content, **arguments), self._feeds, names)
