"""The tensors that a graph knows, each with the node that it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch.fx import Node

from opbridge.base.torch_private import torch_proxies, torch_sizes, torch_tracing
from opbridge.capture.tracer import open_ranks

__all__ = ["Tracked", "TrackedTensors"]


class Tracked(NamedTuple):
    """A tensor that the graph knows.

    Attributes:
        node: The node that it is now.
        fake: The tensor itself, without values.
    """

    node: Node
    fake: torch.Tensor


class TrackedTensors:
    """The tensors that a graph knows, by identity, with the methods that torch uses.

    Attributes:
        found: What is known of each, by its identity.
        alive: The tensors.
        ranks: The nodes whose rank is open.
        proxy: Gives what torch takes for a node.
    """

    def __init__(self) -> None:
        self.ranks = open_ranks.OpenRanks()
        self.found: dict[int, Tracked] = {}
        self.alive: list[torch.Tensor] = []
        self._by_memory: dict[int, list[torch.Tensor]] = {}
        self._indexed = 0
        self.proxy: Callable[[Node], Any] = torch.fx.Proxy

    def find(self, tensor: torch.Tensor) -> Tracked | None:
        """What is known of a tensor.

        Autograd and factory functions return copies that share the memory of what was recorded; they are the same.
        """
        found = self.found.get(id(tensor))
        if found is None and isinstance(tensor, torch_proxies.FakeTensor):
            for each in self.alive[self._indexed :]:
                self._by_memory.setdefault(torch_tracing.storage_key(each), []).append(each)
            self._indexed = len(self.alive)
            for other in reversed(self._by_memory.get(torch_tracing.storage_key(tensor), ())):
                if torch_sizes.is_same_view(other, tensor):
                    found = self.found[id(tensor)] = Tracked(self.found[id(other)].node, tensor)
                    self.alive.append(tensor)
                    break
        return found

    def settle_ranks(self, values: Any) -> None:
        """Asks for the ranks of tensors, and of those in lists and tuples, where they are open."""
        if not self.ranks:
            return
        for value in values:
            if isinstance(value, torch.Tensor):
                found = self.find(value)
                if found is not None:
                    self.ranks.settle(found.node)
            elif isinstance(value, (list, tuple)):
                self.settle_ranks(value)

    def __setitem__(self, tensor: torch.Tensor, slot: Any) -> None:
        self.found[id(tensor)] = Tracked(slot.proxy.node, tensor)
        self.alive.append(tensor)

    def __contains__(self, tensor: torch.Tensor) -> bool:
        return self.find(tensor) is not None

    def get(self, tensor: torch.Tensor, default: Any = None) -> Any:
        return default if self.find(tensor) is None else self[tensor]

    def __getitem__(self, tensor: torch.Tensor) -> Any:
        found = self.find(tensor)
        if found is None:
            raise KeyError(tensor)
        self.ranks.settle(found.node)
        return torch_proxies.Slot(self.proxy(found.node), None)
