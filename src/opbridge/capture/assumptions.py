"""What one execution of the model assumes."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Literal

from opbridge.capture.control_flow.branch_oracle import BranchOracle
from opbridge.capture.control_flow.lowering import CFGLowering
from opbridge.capture.dynamic_shapes import Shapes

__all__ = ["Assumptions", "Gradients", "Mode"]

Mode = Literal["direct", "non-strict", "strict"]
"""How operators are recorded: by opbridge's own tracer, or by a mode of torch.export."""

Gradients = Literal["off", "on", "of inputs", "of inputs and parameters"]
"""Whether gradients are computed, and what requires them where it does in the model."""


@dataclass(frozen=True)
class Assumptions:
    """What one execution of the model assumes. Nothing changes it: another execution has assumptions of its own.

    Attributes:
        shapes: The dynamic shapes, with the sizes that it runs for.
        mode: How operators are recorded.
        is_general: Whether sizes 0 and 1 are treated like other sizes; torch makes them special by default.
        is_unchecked: Whether torch's checks of its own fake implementations are off.
        asks_for_ends: Whether the signs of ends of parts are asked for; see `tracer.ends_of_parts`.
        gradients: Whether gradients are computed.
        is_following: Whether all Python functions of the model's packages follow symbolic sizes, and numbers that data
            decides.
        example: The dynamic shapes of the example, where `shapes` are those of a larger one.
        free: The places of sizes that stay symbolic, however few sizes the capture is for.
        is_by_size: Whether this is one of several captures, each for sizes of its own; see `size_branches`.
        execution: What runs: the model with prescribed answers to its branches on data, or all of its paths in its
            place; None: the model.
        rewrites_by_running: Whether writes are taken out by torch's functionalization alone; see `tracer.rewriting`.
    """

    shapes: Shapes
    mode: Mode = "direct"
    is_general: bool = False
    is_unchecked: bool = False
    asks_for_ends: bool = False
    gradients: Gradients = "off"
    is_following: bool = False
    example: Shapes | None = None
    free: frozenset[str] = frozenset()
    is_by_size: bool = False
    execution: BranchOracle | CFGLowering | None = None
    rewrites_by_running: bool = False

    @classmethod
    def first(cls, shapes: Shapes) -> Assumptions:
        """Those of the first execution: as few as there are."""
        return cls(shapes, is_general=shapes.given is not None)

    @property
    def is_dynamic(self) -> bool:
        """Whether some dimensions may vary."""
        return self.shapes.given is not None

    @property
    def least_size(self) -> int:
        """The least size that a dynamic dimension is taken to have."""
        return 1 if self.is_general else 2

    @property
    def purpose(self) -> str:
        """What the execution is for, after the first one."""
        if self.mode != "direct":
            return f"torch.export, {self.mode} mode"
        if isinstance(self.execution, CFGLowering):
            return "its paths joined in one graph"
        if self.execution is not None:
            return "another path of its data-dependent control flow"
        if self.is_by_size or self.free:
            return "other sizes, for the other branch of a condition on sizes"
        return "a larger example" if self.example is not None else "other assumptions on its sizes"

    def restarted(self, mode: Mode = "direct") -> Assumptions:
        """The same sizes, without what executions in another mode were found to need."""
        return dataclasses.replace(self, mode=mode, is_general=self.is_dynamic, is_unchecked=False, gradients="off")
