"""The model whose capture is under way, and what all executions of it share."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from torch.utils import _pytree as pytree

from opbridge.base.sources import Source
from opbridge.capture.autograd_functions import Functions
from opbridge.capture.config import CaptureConfig
from opbridge.capture.limits import CaptureLimits
from opbridge.capture.opaque_operators import Operators
from opbridge.capture.resolved_call import ResolvedCall
from opbridge.capture.side_effects import SideEffects
from opbridge.capture.tracer import FollowingCalls
from opbridge.capture.tracer.contiguous_copies import Copying
from opbridge.capture.tracer.loop_summaries import Identities

__all__ = ["CaptureSession"]


class CaptureSession:
    """The model whose capture is under way, and what all executions of it share.

    What an execution assumes is not here but in its `Assumptions`, and what it gives is in `Captured`. What is here is
    either given, or only ever added to: a fact about the model that an execution has shown holds for all of them.

    Args:
        call: The model and its example inputs.
        config: How it is captured.
        functions: Classes of torch.autograd.Function that stay whole.
        limits: How many executions there may be, and for how long.

    Attributes:
        call: The model and its example inputs.
        module: The module to capture.
        config: How it is captured.
        functions: Classes of torch.autograd.Function that stay whole.
        operators: Operators that stay whole.
        limits: How many executions there may be, and for how long.
        identities: Which identities matter to what the model does.
        copying: Whether `contiguous` copies where sizes decide whether it does.
        unrolled: The comprehensions that have the iterations of the example, as the source of their functions is not
            there; see `tracer.symbolic_loops`.
        unrolls_loops: Whether an execution has unrolled a loop of a symbolic number of iterations. Each one does that
            in which loops are no branches, and so fixes this number.
    """

    def __init__(
        self, call: ResolvedCall, module: Any, config: CaptureConfig, functions: Functions, limits: CaptureLimits
    ) -> None:
        self.call, self.module, self.config = call, module, config
        self.functions, self.operators = functions, Operators(functions.forwards.is_suspended)
        self.limits = limits
        self.identities, self.copying = Identities(), Copying()
        self.unrolled: dict[Source, None] = {}
        self.unrolls_loops = False
        self._effects: SideEffects | None = None
        self._has_executed = False
        self._calls: dict[bool, FollowingCalls] = {}

    @property
    def leaves(self) -> list[Any]:
        """The leaves of `(args, kwargs)`."""
        return pytree.tree_leaves((self.call.args, self.call.kwargs))

    @property
    def is_for_example(self) -> bool:
        """Whether classes or operators stay whole in it, of which the results are known for the example only."""
        return bool(self.functions.own_run.records or self.operators.calls)

    def following_calls(self, *, everywhere: bool) -> FollowingCalls:
        """The Python functions that follow symbolic numbers.

        Args:
            everywhere: Whether they are all functions of the model's packages, and not only its classes' methods.
        """
        if everywhere not in self._calls:
            self._calls[everywhere] = FollowingCalls(self.module, everywhere=everywhere)
        return self._calls[everywhere]

    @contextlib.contextmanager
    def observing_effects(self) -> Iterator[SideEffects]:
        """Within this context, the side effects of executions are observed, and undone before each further one."""
        with SideEffects(self.module) as effects:
            self._effects = effects
            yield effects

    def begin_execution(self) -> None:
        """Undoes what an execution before left in the attributes of the model: tensors without values."""
        if self._effects is not None and self._has_executed:
            self._effects.restore()
        self._has_executed = True
