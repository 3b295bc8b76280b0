"""The parameters, buffers and constants of a model, as placeholders of its graph."""

from __future__ import annotations

import functools
import re

import torch
from torch.fx import Node

from opbridge.base.torch_private import torch_subclasses
from opbridge.capture.tracer.fakes import Fakes
from opbridge.capture.tracer.recorder import Recorder
from opbridge.capture.tracer.sparse_operators import dense_form
from opbridge.capture.tracer.weights import constant_names, parts_of, state_of
from opbridge.graph.captured_graph import Weight

__all__ = ["WeightNodes"]

_PREFIXES = {"parameter": "p", "buffer": "b", "constant": "c"}


class WeightNodes:
    """The placeholders of a model's parameters, buffers and constants.

    Args:
        module: The model.
        fakes: The tensors without values of the trace.

    Attributes:
        found: The parameters, buffers and constants, by placeholder.
    """

    def __init__(self, module: torch.nn.Module, fakes: Fakes) -> None:
        self._module, self._fakes = module, fakes
        self._first: Node | None = None
        self.found: dict[Node, Weight] = {}

    def track_state(self, recorder: Recorder, first: Node, *, requires_grad: bool) -> None:
        """Makes tensors without values stand for the parameters and buffers.

        Args:
            recorder: What records the graph of the model.
            first: The node that the placeholders stand before.
            requires_grad: Whether they require gradients where they do in the model.
        """
        self._first = first
        state = list(state_of(self._module))
        self._fakes.expect(part for _, _, tensor in state for part in parts_of(tensor))
        for kind, name, tensor in state:
            self._track(recorder, kind, name, tensor, requires_grad=requires_grad)

    def _track(
        self, recorder: Recorder, kind: str, name: str, tensor: torch.Tensor, *, requires_grad: bool
    ) -> torch.Tensor:
        """Makes a tensor without values stand for a parameter or a buffer; a wrapper is rebuilt around such tensors."""
        if torch_subclasses.is_wrapper(tensor):
            inner = {
                each: self._track(recorder, kind, f"{name}.{each}", part, requires_grad=requires_grad)
                for each, part in torch_subclasses.wrapped_tensors(tensor).items()
            }
            with self._fakes.mode:
                fake = torch_subclasses.rebuilt(tensor, inner)
            self._fakes.stands_for(fake, tensor)
            return fake
        fake = self._fakes.of(tensor, requires_grad=requires_grad)
        recorder.track(fake, self._placeholder(recorder, kind, name, tensor), tensor)
        recorder.values.constants.add_weight(recorder.tracked(fake).node, tensor)
        return fake

    def constant(self, recorder: Recorder, tensor: torch.Tensor) -> Node:
        """The node of a tensor with values that is no parameter or buffer.

        Args:
            recorder: What records the graph that the tensor is used in: the model's, or the body of an operator.
            tensor: The tensor.
        """
        fake = self._fakes.of(tensor)
        if recorder.outside is not None:  # the body of an operator has no weights of its own
            name = recorder.tracer.get_fresh_qualname("_tensor_constant")
            setattr(recorder.tracer.root, name, tensor)
            node = recorder.tracer.create_node("get_attr", name, (), {})
        else:
            name = self._constant_names.get(id(tensor)) or f"lifted_tensor_{len(self.found)}"
            node = self._placeholder(recorder, "constant", name, tensor)
        recorder.track(fake, node, tensor)
        return node

    @functools.cached_property
    def _constant_names(self) -> dict[int, str]:
        """The names of the tensors in plain attributes, by identity, when the first constant is found."""
        return constant_names(self._module)

    def _placeholder(self, recorder: Recorder, kind: str, name: str, tensor: torch.Tensor) -> Node:
        graph = recorder.graph
        with graph.inserting_before(self._first):
            node = graph.placeholder(f"{_PREFIXES[kind]}_{re.sub(r'[^a-zA-Z0-9]', '_', name).lower()}")
        self.found[node] = Weight(name, dense_form(tensor), kind, str(tensor.layout).removeprefix("torch."))
        return node
