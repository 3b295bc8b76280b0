"""What the parts of the tracer need of a recorder."""

from __future__ import annotations

import contextlib
from typing import Any, Protocol

from torch.fx import Graph, Node

from opbridge.base.torch_private import torch_proxies

__all__ = ["Recording"]


class Recording(Protocol):
    """The graph of one function, while that runs: see `opbridge.capture.tracer.recorder.Recorder`.

    Attributes:
        graph: The nodes.
        tracer: The graph, as torch sees it.
        casts: How many operators were run by a rule of autocast's.
    """

    graph: Graph
    tracer: torch_proxies.GraphTracer
    casts: int

    def recording(self, *, differentiated: bool = False) -> contextlib.AbstractContextManager[None]:
        """Within this context, this is the graph that operators are recorded in."""

    def record(self, function: Any, args: Any, kwargs: Any) -> Any:
        """Records one operator, and gives its result."""

    def rebind(self, result: Any, function: Any, args: Any, kwargs: Any) -> None:
        """Records an operator whose result is there already."""

    def argument(self, value: Any) -> Any:
        """A value of the model's as an argument of a node."""

    def last_node(self) -> Node:
        """The node that was recorded last."""

    def erase_after(self, last: Node) -> None:
        """Takes back the nodes that were recorded after one."""
