"""The parts of two sides with which a difference can be shown again."""

from __future__ import annotations

import dataclasses
from typing import Any

import onnx
import torch

from opbridge.verification.bisection.files import FileSide
from opbridge.verification.bisection.report import Culprit

__all__ = ["Case", "Located"]


@dataclasses.dataclass
class Case:
    """The parts with which a difference can be shown again.

    Attributes:
        parts: The part of each file.
        inputs: The inputs of each part by name.
        outputs: The name of the value that differs, in each part.
        sides: The files: of the expected values and of the actual ones, or beside PyTorch the one.
        call: Beside PyTorch, the node that is called, the key of the value, and the values of the nodes it reads.
    """

    parts: tuple[onnx.ModelProto, ...]
    inputs: tuple[dict[str, torch.Tensor], ...]
    outputs: tuple[str, ...]
    sides: tuple[FileSide, ...]
    call: tuple[Any, str, Any] | None = None


@dataclasses.dataclass
class Located:
    """An operator that was found, and the parts that show it; None where there are none."""

    culprit: Culprit
    case: Case | None
