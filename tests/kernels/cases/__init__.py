"""What a kernel is called with, and what it has to return: for PyTorch, for ONNX Runtime and under the sanitizers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

__all__ = ["FAMILIES", "Attributes", "Case", "Refused"]

FAMILIES = tuple(sorted(path.stem for path in Path(__file__).parent.glob("[a-z]*.py")))
"""The files of cases, each of kernels that belong together."""

Attributes = dict[str, int | float | str | list[int]]


@dataclass
class Case:
    """A call.

    Attributes:
        operator: Its name in opbridge_ops.
        inputs: float64 tensors, None where one is left out.
        attributes: By name.
        expected: The outputs, float64.
    """

    operator: str
    inputs: Sequence[np.ndarray | None]
    attributes: Attributes = field(default_factory=dict)
    expected: Sequence[np.ndarray] = ()


@dataclass
class Refused:
    """A call that is an error.

    Attributes:
        operator: Its name in opbridge_ops.
        shapes: Those of the inputs, which are zeros; a tensor where it has to be another; None where one is left out.
        attributes: By name.
        words: What the error says, as a regular expression.
    """

    operator: str
    shapes: Sequence[tuple[int, ...] | np.ndarray | None]
    attributes: Attributes
    words: str

    def inputs(self) -> list[np.ndarray | None]:
        """What it is called with."""
        return [np.zeros(each) if isinstance(each, tuple) else each for each in self.shapes]

    @property
    def outputs(self) -> int:
        """How many the operator has."""
        return 2 if self.operator.endswith("_backward") or self.operator == "nms_match" else 1
