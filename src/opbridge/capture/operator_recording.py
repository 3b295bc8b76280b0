"""Records the calls of operators without fake implementations in a run of the model itself.

For a call of a composite operator, it also finds out whether the result comes from the operators that it calls: they
are called again, on copies of its inputs, and have to give the same result.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils import _pytree as pytree

from opbridge.base.torch_private import torch_library

__all__ = ["CallRecord", "Recording", "TensorRecord"]


@dataclass(frozen=True)
class TensorRecord:
    """The properties of an argument or a result of a call."""

    shape: tuple[int, ...]
    stride: tuple[int, ...] | None
    dtype: torch.dtype
    device: torch.device


@dataclass
class CallRecord:
    """One call in the model's own run.

    Attributes:
        operator: The operator.
        given: Its tensor arguments.
        outputs: Its results, with `TensorRecord`s in place of tensors.
        within: The operators from whose kernels it was called.
        composed: Whether its results come from the operators that it called.
    """

    operator: torch._ops.OpOverload
    given: tuple[TensorRecord, ...]
    within: tuple[torch._ops.OpOverload, ...]
    outputs: Any = None
    composed: bool = False


@dataclass
class _RunningComposite:
    """A composite operator that is running: its inputs, and the operators that it has called."""

    operator: torch._ops.OpOverload
    inputs: list[torch.Tensor]
    copies: list[torch.Tensor]
    random: torch.Tensor
    steps: list[tuple[Any, Any, Any]] = field(default_factory=list)


class Recording:
    """Records the calls of a model's own run.

    Args:
        is_suspended: Whether calls are not recorded now, as they are inside of another operator that stays whole.

    Attributes:
        calls: The recorded calls, in order.
    """

    def __init__(self, is_suspended: Callable[[], bool]) -> None:
        self._is_suspended = is_suspended
        self.calls: list[CallRecord] = []
        self._running: list[torch._ops.OpOverload] = []
        self._composites: list[_RunningComposite] = []

    def call(
        self, op: torch._ops.OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any], run: Callable[[], Any]
    ) -> Any:
        """Runs an operator, and records the call."""
        if self._is_suspended():
            return run()
        leaves = pytree.tree_leaves((args, kwargs))
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        call = CallRecord(op, tuple(map(_tensor_record, tensors)), tuple(self._running))
        self.calls.append(call)
        self._running.append(op)
        composed = torch_library.is_composite_implicit(op)
        if composed:
            with torch_library.without_interception():
                copies = [tensor.clone() for tensor in tensors]
            self._composites.append(_RunningComposite(op, tensors, copies, torch.get_rng_state()))
        try:
            returned = run()
        finally:
            self._running.pop()
            opened = self._composites.pop() if composed else None
        call.outputs = pytree.tree_map_only(torch.Tensor, _tensor_record, returned)
        if opened is not None:
            call.composed = _repeats(opened, returned)
        return returned

    def other(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        """Records the call of any operator, for the composite ones that are running."""
        for each in self._composites:
            each.steps.append((func, (args, kwargs), result))


def _repeats(opened: _RunningComposite, returned: Any) -> bool:
    """Whether the operators that a composite operator called give the same results when they are called again."""
    known = dict(zip(map(id, opened.inputs), opened.copies, strict=True))

    def again(value: Any) -> Any:
        return pytree.tree_map_only(torch.Tensor, lambda tensor: known.get(id(tensor), tensor), value)

    outputs = pytree.tree_leaves(returned)
    try:
        with torch_library.without_interception(), torch.random.fork_rng(devices=[]):
            torch.set_rng_state(opened.random)
            for func, given, result in opened.steps:
                args, kwargs = again(given)
                fresh = pytree.tree_leaves(func(*args, **kwargs))
                for before, now in zip(pytree.tree_leaves(result), fresh, strict=True):
                    if isinstance(before, torch.Tensor):
                        known[id(before)] = _filled_if_uninitialized(func, now)
            return all(
                id(value) in known and torch.allclose(known[id(value)], value, equal_nan=True)
                for value in outputs
                if isinstance(value, torch.Tensor)
            )
    except Exception:  # an operator may raise anything here: the call cannot be repeated
        return False


def _filled_if_uninitialized(func: Any, tensor: torch.Tensor) -> torch.Tensor:
    """Fills the result of an operator such as `empty` with NaN or the largest integer, so that its use is noticed."""
    if "empty" in func.name().partition("::")[2] and tensor.numel():
        if tensor.dtype.is_floating_point or tensor.dtype.is_complex:
            tensor.fill_(torch.nan)
        elif tensor.dtype is not torch.bool:
            tensor.fill_(torch.iinfo(tensor.dtype).max)
    return tensor


def _tensor_record(tensor: torch.Tensor) -> TensorRecord:
    stride = tuple(tensor.stride()) if tensor.layout == torch.strided else None
    return TensorRecord(tuple(tensor.shape), stride, tensor.dtype, tensor.device)
