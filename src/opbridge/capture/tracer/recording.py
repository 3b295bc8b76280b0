"""What the parts of the tracer need of a recorder."""

from __future__ import annotations

import contextlib
from typing import Any, Protocol

import torch
from torch.fx import Graph, Node

from opbridge.base.torch_private import torch_proxies

__all__ = ["Recording"]


class Recording(Protocol):
    """The graph of one function, while that runs: see `opbridge.capture.tracer.recorder.Recorder`.

    Attributes:
        tracer: The graph, as torch sees it.
        outside: What records the graph around this one, where this is a body.
        casts: How many operators were run by a rule of autocast's.
        fake_mode: The mode that computes the shapes and dtypes of results.
    """

    tracer: torch_proxies.GraphTracer
    outside: Any
    casts: int
    fake_mode: Any

    @property
    def graph(self) -> Graph:
        """The nodes."""

    def recording(self, *, differentiated: bool = False) -> contextlib.AbstractContextManager[None]:
        """Within this context, this is the graph that operators are recorded in."""

    def record(self, function: Any, args: Any, kwargs: Any) -> Any:
        """Records one operator, and gives its result."""

    def rebind(self, result: Any, function: Any, args: Any, kwargs: Any) -> None:
        """Records an operator whose result is there already."""

    def track(self, tensor: torch.Tensor, node: Node, *aliases: torch.Tensor) -> None:
        """Makes a node stand for a tensor without values, and for the tensors with values that it was made from."""

    def tracked(self, tensor: torch.Tensor) -> Any:
        """The node of a tensor, and the tensor itself without values."""

    def argument(self, value: Any) -> Any:
        """A value of the model's as an argument of a node."""

    def free(self, value: Any) -> Node:
        """The node of a value from around a body; see `opbridge.capture.tracer.free_values`."""

    def last_node(self) -> Node:
        """The node that was recorded last."""

    def erase_after(self, last: Node) -> None:
        """Takes back the nodes that were recorded after one."""
