"""The intermediate values of an ONNX model, for the nodes of the captured graph."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import onnx_ir as ir
import torch

from opbridge.base.size_expressions import evaluate
from opbridge.base.wording import counted
from opbridge.errors import SaveError
from opbridge.graph.captured_graph import CapturedGraph
from opbridge.graph.operators import operator_of
from opbridge.graph.values import as_tensor
from opbridge.nodes.aten_node import called_operators
from opbridge.onnx import serialize
from opbridge.runtimes.onnxruntime import Limits, open_session
from opbridge.save import writer
from opbridge.verification import dynamic_sizes, exchange
from opbridge.verification.shelter import LIMITS, Risk

if TYPE_CHECKING:
    from opbridge.capture import Capture

__all__ = ["RuntimeValues", "Unusable", "counterparts", "feeds_of", "keyed", "order_of"]

_LARGEST_FETCH = 1 << 30
"""Bytes of intermediate values that one run of the model returns."""

_UNKNOWN_SIZE = 64


class Unusable(Exception):
    """The intermediate values cannot be compared; the message is the reason."""


def counterparts(graph: ir.Graph, captured: CapturedGraph) -> dict[str, ir.Value]:
    """The ONNX values of the nodes of the captured graph that the file has, by the keys of `keyed`.

    Raises:
        Unusable: The file has none, or was made from another capture.
    """
    operators = {node.name: operator_of(node) for node in captured.graph.nodes}
    found: dict[str, ir.Value] = {}
    for node in graph:
        keys = node.metadata_props.get("opbridge.node", "").split()
        names = node.metadata_props.get("opbridge.output", "").split()
        by_name = {value.name: value for value in node.outputs}
        for key, name in zip(keys, names, strict=False):
            value = by_name.get(name)
            if value is None and len(keys) == len(node.outputs) == 1:
                value = node.outputs[0]  # it was renamed later
            operator = node.metadata_props.get("opbridge.operator")
            if operator is not None and operators.get(key.partition(":")[0]) != operator:
                # The names are the same, but the values are those of another graph.
                raise Unusable(
                    f"the file was exported from a different capture of the model, in which '{key}' is {operator}; "
                    "pass the dynamic_shapes that it was exported with"
                )
            if value is not None and not isinstance(value.type, (ir.SequenceType, ir.OptionalType)):
                found[key] = value
    if not found:
        raise Unusable("the file does not record which of its values belong to which operator of the model")
    return found


def feeds_of(model: ir.Model, captured: CapturedGraph, leaves: Sequence[Any]) -> dict[str, torch.Tensor]:
    """The tensors of the graph's inputs, by name, from the leaves of `(args, kwargs)`.

    Raises:
        Unusable: The file has another number of inputs than the captured graph.
    """
    pairs = zip(captured.inputs, leaves, strict=True)
    given = [as_tensor(value) for leaf, value in pairs if not leaf.is_frozen]
    if len(given) != len(model.graph.inputs):
        raise Unusable(
            f"the file has {counted(len(model.graph.inputs), 'input')}, but the capture of the model has {len(given)}"
        )
    return {str(value.name): tensor for value, tensor in zip(model.graph.inputs, given, strict=True)}


def order_of(
    captured: CapturedGraph, values: Mapping[str, ir.Value], capture: Capture, leaves: Sequence[Any]
) -> list[tuple[str, int]]:
    """The names of the ONNX values in the order of the captured graph, with their sizes in bytes."""
    sizes = dynamic_sizes.from_capture(capture, leaves).example
    order: dict[str, int] = {}
    for node in captured.graph.nodes:
        for key, value in keyed(node.name, node.meta.get("val")):
            if key in values:
                order.setdefault(str(values[key].name), _bytes(value, sizes))
    return list(order.items())


def keyed(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """A node's value with its key in the file: "relu", or for each of several outputs "split:0", "split:1"."""
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
            count *= size if isinstance(size, int) else evaluate(str(size), sizes)
        except ValueError:
            count *= _UNKNOWN_SIZE
    return count


class RuntimeValues:
    """The runtime's values, by name.

    They are computed in one run of the model, or in several if they are large. Only those of the latest run are kept.

    Args:
        model: The ONNX model. It is not changed.
        feeds: The tensors for its inputs, by name.
        order: The names of the values, in the order in which `value` will be called, with their sizes in bytes.
        isolated: Whether the model runs in a process of its own, or with which limits it does.
    """

    def __init__(
        self,
        model: ir.Model,
        feeds: dict[str, torch.Tensor],
        order: list[tuple[str, int]],
        isolated: bool | Limits = False,
    ) -> None:
        self._model, self._feeds = model, feeds
        self.isolated = isolated
        self._is_risky = Risk(lambda: model)
        self._batches: list[list[str]] = []
        remaining = 0
        for name, size in order:
            if not self._batches or size > remaining:
                self._batches.append([])
                remaining = _LARGEST_FETCH
            self._batches[-1].append(name)
            remaining -= size
        self._values: dict[str, torch.Tensor] = {}

    def value(self, name: str) -> torch.Tensor:
        """One value, on the CPU.

        Raises:
            Unusable: The runtime raises.
        """
        while name not in self._values and self._batches:
            batch = self._batches.pop(0)
            self._values = dict(zip(batch, self.compute(batch), strict=True))
        return self._values[name]

    def compute(self, names: Sequence[str], *, optimised: bool = False) -> list[torch.Tensor]:
        """Runs a copy of the model that has these values as outputs.

        Args:
            names: The names of the values.
            optimised: Whether the runtime's graph optimisations are on; they remove values that are no outputs.

        Raises:
            Unusable: The runtime raises.
        """
        copy = self._model.clone()
        missing = set(names) - {value.name for value in copy.graph.outputs}
        for node in copy.graph:
            copy.graph.outputs.extend(value for value in node.outputs if value.name in missing)
        try:
            return self._run(copy, names, optimised)
        except Exception as error:  # the runtime's errors have no other common base class
            how = "with additional outputs" if optimised else "without graph optimizations"
            raise Unusable(f"ONNX Runtime failed to run the model {how}: {error}") from error

    def _run(self, model: ir.Model, names: Sequence[str], optimised: bool) -> list[torch.Tensor]:
        # The user allowed the model's operators when it was loaded for the comparison.
        arguments = {"optimised": optimised, "loaded": True, "aten": called_operators(model)}
        try:
            content = serialize.to_bytes(model)
        except SaveError:  # it is larger than 2 GB
            with tempfile.TemporaryDirectory(prefix="opbridge") as folder:
                path = Path(folder) / "model.onnx"
                writer.save(model, path, external_data=True)
                return self._run_file(path, names, arguments)
        return self._run_file(content, names, arguments)

    def _run_file(self, file: Path | bytes, names: Sequence[str], arguments: Mapping[str, Any]) -> list[torch.Tensor]:
        isolated, quiet = self.isolated, False
        if isolated is False and self._is_risky({name: each.shape for name, each in self._feeds.items()}):
            isolated, quiet = LIMITS, True
        return exchange.run(open_session(file, isolated, quiet=quiet, **arguments), self._feeds, names)
