"""How a model is captured: `capture=` of `opbridge.export`, its limits, and what symbolic functions are asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from opbridge.capture.limits import MOST_CAPTURES, CaptureLimits
from opbridge.errors import UsageError
from opbridge.onnx import opsets

__all__ = ["METHODS", "CaptureConfig"]

METHODS = ("export", "torch.export", "trace", "auto")
"""The values of `capture=`; `opbridge.torchscript.capture_methods` says what each does."""


@dataclass(frozen=True)
class CaptureConfig:
    """How a model is captured.

    Attributes:
        method: One of `METHODS`.
        max_captures: The most captures of a model that decides by data; None: 64.
        max_seconds: After how many seconds no further capture is begun; None: no limit.
        strict: Whether relations between dimensions that the dynamic shapes do not state are an error; see
            `related_sizes`.
        opset: The opset that symbolic functions are asked for, where they have to tell shapes.
        handler: The symbolic function of `prim::PythonOp`, which takes every torch.autograd.Function without one.

    Raises:
        UsageError: A limit is no positive number, or there is no such strategy.
    """

    method: str = "export"
    max_captures: int | None = None
    max_seconds: float | None = None
    strict: bool = False
    opset: int = opsets.OLDEST
    handler: Callable[..., Any] | None = None

    def __post_init__(self) -> None:
        most, seconds = self.max_captures, self.max_seconds
        if most is not None and (type(most) is not int or most < 1):
            raise UsageError(f"Invalid value max_captures={most!r}; expected an integer of 1 or more.")
        if seconds is not None and not (isinstance(seconds, (int, float)) and seconds > 0):
            raise UsageError(f"Invalid value max_capture_seconds={seconds!r}; expected a positive number of seconds.")
        if self.method not in METHODS:
            raise UsageError(f"capture={self.method!r} is not known; use 'export', 'torch.export', 'trace' or 'auto'.")

    @property
    def by_torch_export(self) -> bool:
        """Whether torch.export is used from the start."""
        return self.method == "torch.export"

    @property
    def is_thorough(self) -> bool:
        """Whether torch.export's strict mode is tried on a model whose Python asks for values of tensors.

        It takes long, and rarely helps: where a trace follows, it is left out.
        """
        return self.method != "auto"

    def limits(self, tell: Callable[[str], None]) -> CaptureLimits:
        """The limits of one model's captures, which count them.

        Args:
            tell: Called with what is done now.
        """
        return CaptureLimits(MOST_CAPTURES if self.max_captures is None else self.max_captures, self.max_seconds, tell)
