"""What Python holds during one execution of a model: what its later code can read, wherever it is."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from types import FrameType
from typing import Any

import torch

from opbridge.base.torch_private import torch_decisions
from opbridge.capture.control_flow.heap_snapshot import HeapSnapshot, settings
from opbridge.capture.control_flow.program_points import IterationCounter, program_point
from opbridge.capture.control_flow.state import State, state_of
from opbridge.capture.tracer.symbolic_loops import Loops

__all__ = ["PythonState"]


class PythonState:
    """What Python holds during one execution.

    Args:
        module: The model.
        loops: The loops that ask.

    Attributes:
        heap: What has been changed beside variables.
        iterations: The iterations of the other loops.
        chosen: The elements that indices are those of, for the trace to fill.
    """

    def __init__(self, module: torch.nn.Module, loops: Loops) -> None:
        self._loops = loops
        self.heap = HeapSnapshot(module.named_modules())
        self.iterations = IterationCounter(loops.learned.numbers, self.heap.note)
        self.chosen: dict[Any, int] = {}
        self._asked: frozenset[Any] = frozenset()
        loops.lists.carried = self.iterations.carried

    def point(self, frames: list[FrameType]) -> Hashable:
        """Where the frames of the model are."""
        return program_point(frames, self.iterations, self._loops.offsets_in)

    def note_asked(self, condition: torch.SymBool | bool) -> None:
        """Notes that a question has been asked: what is known of its symbols tells states apart from now on."""
        self._asked |= torch_decisions.symbols_of(condition)

    def at(self, frames: Sequence[FrameType], recorder: Any) -> State:
        """What is held where the frames of the model are.

        Args:
            frames: The frames.
            recorder: What records the graph.
        """
        learned = self._loops.learned
        return state_of(
            frames,
            [*self.heap.changed(), ("settings", {"": settings()}), ("", self._loops.gone_over())],
            recorder.knows,
            self._elements,
            self.iterations.carried,
            self.chosen,
            self._asked,
            self.heap.stores,
            strict=learned.tells_more,
            sharing=learned.identities.shares,
            comparing=learned.identities.compares_objects,
        )

    def _elements(self, held: Sequence[Any]) -> Sequence[Any]:
        """The elements of a list or tuple, without those that the iterations of a loop have appended."""
        become = self._loops.lists.forms.get(id(held))
        if become is not None and become[0] is held:
            return [become[1]]
        growing = self._loops.lists.growing(held)
        return held if growing is None else growing.elements()
