"""What is known of the values in a graph while it is recorded, although its tensors have none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.fx import Node

from opbridge.capture.tracer.constants import Constants
from opbridge.capture.tracer.counted_masks import CountedMasks
from opbridge.capture.tracer.known_items import Known, KnownItems
from opbridge.capture.tracer.parts_between_data import PartsBetweenData
from opbridge.capture.tracer.seeded_draws import SeededDraws

__all__ = ["KnownValues"]


class KnownValues:
    """The values of one graph that are known.

    Args:
        known: Which integers that are computed from sizes by way of tensors are known.
        lengths: Gives the lengths that sequences are packed by, for their node; None where they are those that depend
            on no input.
        draws: The random numbers of the run, where it has begun before this graph.

    Attributes:
        constants: The values that depend on weights and constants alone.
        items: The integers that follow from sizes.
        masks: The masks whose elements were counted.
        parts: The parts between numbers that data decide.
        draws: The random numbers that are the same in each run.
    """

    def __init__(
        self,
        known: Known = Known.NONE,
        lengths: Callable[[Node], list[int] | None] | None = None,
        draws: SeededDraws | None = None,
    ) -> None:
        self.constants = Constants()
        self.items = KnownItems(self.constants, known)
        self.masks = CountedMasks()
        self.parts = PartsBetweenData()
        self.draws = SeededDraws() if draws is None else draws
        self._lengths = lengths

    def for_body(self) -> KnownValues:
        """What is known in the body of an operator of the graph, at its begin."""
        return KnownValues(self.items.known, draws=self.draws)

    def add(self, function: Any, node: Node, result: Any) -> None:
        """Notes a new node, of which the arguments are known.

        Args:
            function: The operator; `operator.getitem` for one of its results.
            node: The node.
            result: What the operator gives, without values.
        """
        self.add_node(function, node)
        self.items.add(function, node, result)

    def add_node(self, function: Any, node: Node) -> None:
        """Notes a new node whose integers are not of interest.

        Args:
            function: The operator.
            node: The node.
        """
        self.constants.add(function, node)
        self.masks.add(function, node)

    def lengths(self, node: Node) -> list[int] | None:
        """The lengths that sequences are packed by; None where they are not known."""
        if self._lengths is not None:
            return self._lengths(node)
        known, values = self.constants.result(torch.Tensor.tolist, (node,), {})
        return values if known else None
