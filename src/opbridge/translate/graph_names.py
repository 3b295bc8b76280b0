"""The names that a user gives the inputs and outputs of the ONNX graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["GraphNames"]


@dataclass(frozen=True)
class GraphNames:
    """Names for the graph's inputs and outputs, in order; fewer than there are leave the rest as they are.

    Attributes:
        inputs: Those of the inputs, which are the flattened tensor inputs; None: the names of the capture.
        outputs: Those of the outputs.
    """

    inputs: Sequence[str] | None = None
    outputs: Sequence[str] | None = None
