"""Records the calls of torch.autograd.Functions that become operators, in a run of the model itself."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

from opbridge.base.torch_private import torch_overrides, torchscript_export
from opbridge.capture.replaced_forwards import ReplacedForwards
from opbridge.graph.function_calls import OutputRecord

__all__ = ["FunctionRecord", "FunctionRecording"]


@dataclass(frozen=True, eq=False)
class FunctionRecord:
    """One call in the model's own run.

    Attributes:
        cls: The class.
        outputs: What it returned.
        single: Whether that was one value, and not a list or tuple.
        traced: TorchScript's node of the call, for a handler that reads it, with the graph that owns it.
        writes: Whether it wrote to its arguments.
    """

    cls: type
    outputs: tuple[OutputRecord, ...]
    single: bool
    traced: tuple[Any, Any] | None
    writes: bool


class FunctionRecording:
    """Records the calls of the model's own run.

    Args:
        forwards: The classes.

    Attributes:
        records: The calls, in order.
        is_running: Whether the model's own run is in progress.
        read_inputs: The inputs, by their number among all, whose values become Python numbers inside of such a class:
            what they may hold is known from the example only.
    """

    def __init__(self, forwards: ReplacedForwards) -> None:
        self._forwards = forwards
        self.records: list[FunctionRecord] = []
        self.is_running = False
        self.read_inputs: set[int] = set()
        self._memory: dict[int, int] = {}

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Within this context, which is around the model's own run, calls are recorded. Call `note_inputs` in it."""
        self.is_running = True
        self.records = []
        try:
            yield
        finally:
            self.is_running = False

    def restart(self) -> None:
        """Forgets the calls that have been recorded, as the model runs once more."""
        self.records = []

    def note_inputs(self, leaves: Sequence[Any]) -> None:
        """Registers the leaves of the inputs of the run, to detect reads of their values."""
        self._memory = {
            leaf.data_ptr(): index
            for index, leaf in enumerate(leaves)
            if isinstance(leaf, torch.Tensor) and leaf.numel()
        }

    def _note_read(self, tensor: torch.Tensor) -> None:
        if type(tensor) is torch.Tensor and tensor.numel() and tensor.data_ptr() in self._memory:
            self.read_inputs.add(self._memory[tensor.data_ptr()])

    def call(self, cls: type, ctx: Any, given: Sequence[Any]) -> Any:
        """Calls a class's own `forward`, and records the call."""
        by_handler = not callable(getattr(cls, "symbolic", None))
        traced = self._traced(cls, given) if by_handler else None
        before = [(leaf, leaf._version) for leaf in pytree.tree_leaves(list(given)) if isinstance(leaf, torch.Tensor)]
        with torch_overrides.observing_value_reads(self._note_read):
            returned = self._forwards.call(cls, ctx, given)
        writes = any(leaf._version != version for leaf, version in before)
        values = list(returned) if isinstance(returned, (list, tuple)) else [returned]
        outputs = tuple(
            OutputRecord(tuple(value.shape), value.dtype)
            if isinstance(value, torch.Tensor)
            else OutputRecord(None, None, value)
            for value in values
        )
        self.records.append(FunctionRecord(cls, outputs, not isinstance(returned, (list, tuple)), traced, writes))
        return returned

    def _traced(self, cls: Any, given: Sequence[Any]) -> tuple[Any, Any]:
        """TorchScript's node of a call, for a handler that reads it, with the graph that owns it."""
        leaves, spec = pytree.tree_flatten(list(given))
        at = [index for index, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]

        def call(*tensors: torch.Tensor) -> Any:
            filled = list(leaves)
            for index, tensor in zip(at, tensors, strict=True):
                filled[index] = tensor
            return cls.apply(*pytree.tree_unflatten(filled, spec))

        example = tuple(leaves[index].detach().clone() for index in at)
        with self._forwards.suspended():
            graph = torchscript_export.traced_call_graph(call, example)
        return graph.findNode("prim::PythonOp"), graph
