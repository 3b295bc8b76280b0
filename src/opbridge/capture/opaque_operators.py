"""Captures operators of third-party libraries that have no fake (meta) implementation.

1. When the capture reaches such an operator, it stops, and the model itself runs once on the example inputs. Each call
   is recorded with its results (`operator_recording`).
2. In the next execution, the operator has a fake implementation that returns tensors of the recorded shapes. Calls are
   matched by their order.
3. A composite operator ("CompositeImplicitAutograd") may have a kernel that reads memory. It has one if the operators
   that it calls, when they are called again, do not give its results. Otherwise torch traces it on fake tensors, as
   usual, and so gets the shapes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.fx import GraphModule
from torch.utils import _pytree as pytree

from opbridge.base.torch_private import torch_library, torch_sizes
from opbridge.capture import fake_implementations
from opbridge.capture.opaque_results import OpaqueResults
from opbridge.capture.operator_recording import CallRecord, Recording
from opbridge.errors import CaptureError

__all__ = ["Operators", "shapes_as_in"]


class Operators:
    """The operators without fake implementations in one capture, and their calls.

    Args:
        is_suspended: Whether calls are not part of the graph now, inside of another operator that stays whole.

    Attributes:
        calls: The calls of the model's own run, in order; None before it.
        unrecorded: Whether the capture reached such an operator before its calls were recorded.
        failure: The error of the last fake implementation that failed, which TorchScript replaces by another one.
        results: What they return in the last execution.
    """

    def __init__(self, is_suspended: Callable[[], bool] = lambda: False) -> None:
        self._is_suspended = is_suspended
        named = torch_library.existing_operators(torch_library.third_party_operators())
        unknown = (op for op in named if not fake_implementations.describes(op.name()))
        self._candidates = tuple(op for op in unknown if torch_library.lacks_fake_implementation(op))
        # These are traced on fake tensors at first, as torch does it.
        self._traced = {op for op in self._candidates if torch_library.is_composite_explicit(op)}
        self.calls: list[CallRecord] | None = None
        self.unrecorded = False
        self.failure: CaptureError | None = None
        self.results = OpaqueResults()
        self._kept: dict[torch._ops.OpOverload, None] = {}
        self._use_example_sizes = False
        self._position = 0

    @property
    def names(self) -> frozenset[str]:
        """The operators of the capture that were kept whole."""
        return frozenset(op.name() for op in self._kept)

    def use_example_sizes(self) -> None:
        """Fixes sizes that depend on values to the example's in later executions."""
        self._use_example_sizes = True

    @contextlib.contextmanager
    def recording(self) -> Iterator[None]:
        """Within this context, which is around the model's own run, calls are recorded."""
        if not self._candidates:
            yield
            return
        run, self.failure = Recording(self._is_suspended), None
        with torch_library.intercepting_calls(self._candidates, run.call, run.other):
            yield
        self.calls, self.unrecorded = run.calls, False
        parts = {call.operator for call in run.calls if call.composed}
        self._traced |= parts - {call.operator for call in run.calls if not call.composed}

    def has_traced_operators(self) -> bool:
        """Whether torch traces operators that could be kept whole instead, where an execution has failed."""
        return bool(self._traced) and (self.calls is None or any(call.operator in self._traced for call in self.calls))

    def keep_all_whole(self) -> None:
        """Keeps all operators whole in later executions; torch traces none of them."""
        self._traced = set()

    @contextlib.contextmanager
    def whole(self) -> Iterator[None]:
        """Within this context, which is around one execution of the model, the operators have fake implementations."""
        self._position, self.failure, self._kept = 0, None, {}
        self.results = OpaqueResults()
        whole = [op for op in self._candidates if op not in self._traced]
        if not whole:
            yield
            return
        kept = set(whole)
        calls = [each for each in self.calls or () if each.operator in kept and kept.isdisjoint(each.within)]
        with torch_library.with_fake_implementations({op: self._fake_implementation(op, calls) for op in whole}):
            yield

    def notes(self) -> Iterator[str]:
        """Notes for the user about these operators."""
        return self.results.notes()

    def _fake_implementation(self, op: torch._ops.OpOverload, calls: Sequence[CallRecord]) -> Callable[..., Any]:
        def fake_implementation(*args: Any, **kwargs: Any) -> Any:
            if self._is_suspended():
                raise CaptureError(f"{op.name()} does not run on tensors without data.")
            if torch_library.is_mutable(op):
                result = torch_library.written_results(op, args, kwargs)
                if result is not NotImplemented:
                    self._kept[op] = None
                    return result
            try:
                return self._returned(op, calls, pytree.tree_leaves((args, kwargs)))
            except CaptureError as error:
                self.failure = error
                raise

        return fake_implementation

    def _returned(self, op: torch._ops.OpOverload, calls: Sequence[CallRecord], leaves: Sequence[Any]) -> Any:
        name = op.name()
        if torch_library.is_mutable(op):
            raise CaptureError(
                f"The operator {name} has no fake (meta) implementation and writes to its arguments, which is not "
                "supported in ONNX. Add an operator that returns the result instead, and call that one."
            )
        if self.calls is None:
            self.unrecorded = True
            raise CaptureError(f"What {name} returns is not known yet.")  # which ends this execution
        position, self._position = self._position, self._position + 1
        call = calls[position] if position < len(calls) else None
        if call is None or call.operator is not op or not _fits(call, leaves):
            instead = f"calls {call.operator.name()}" if call is not None else "calls no such operator"
            if call is not None and call.operator is op:
                instead = "calls it with tensors of different sizes or types"
            raise CaptureError(
                f"The operator {name}, which has no fake (meta) implementation, is called during the capture, but "
                f"the model itself, run on the example inputs, {instead} there. The control flow of the model "
                "depends on values or on state. Make it take the same path in every run, or give the operator a "
                f'fake implementation with @torch.library.register_fake("{name}").'
            )
        self._kept[op] = None
        return self.results.of(call, leaves, use_example_sizes=self._use_example_sizes)


def _fits(call: CallRecord, leaves: Sequence[Any]) -> bool:
    """Whether a call of the capture has the same kinds of arguments as a recorded one."""
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    return len(tensors) == len(call.given) and all(
        tensor.dtype == known.dtype
        and tensor.dim() == len(known.shape)
        and all(type(size) is not int or size == other for size, other in zip(tensor.shape, known.shape, strict=True))
        for tensor, known in zip(tensors, call.given, strict=True)
    )


@contextlib.contextmanager
def shapes_as_in(module: GraphModule, names: frozenset[str]) -> Iterator[None]:
    """Within this context, operators that the capture kept whole return what they have in its graph.

    Args:
        module: The graph.
        names: The operators among them that torch would decompose.
    """
    calls: dict[torch._ops.OpOverload, list[Any]] = {}
    for body in module.modules():
        for node in body.graph.nodes if isinstance(body, GraphModule) else ():
            op = node.target
            if (
                node.op != "call_function"
                or not torch_library.is_third_party(op)
                or not torch_library.lacks_fake_implementation(op)
            ):
                continue
            if op.name() in names or not (
                torch_library.is_composite_implicit(op) or torch_library.is_composite_explicit(op)
            ):
                calls.setdefault(op, []).append(node.meta.get("val"))
    if not calls:
        yield
        return
    with torch_library.with_fake_implementations({op: _repeating(values) for op, values in calls.items()}):
        yield


def _repeating(values: list[Any]) -> Callable[..., Any]:
    """A fake implementation that returns tensors like these in turn; torch may run the graph more than once."""
    position = 0

    def returned(*args: Any, **kwargs: Any) -> Any:
        nonlocal position
        value, position = values[position % len(values)], position + 1
        like = next((leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)), None)

        def made(tensor: torch.Tensor) -> torch.Tensor:
            if like is None or not torch_sizes.unknown_symbols(list(tensor.shape)):
                return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=tensor.device)
            shape = [
                torch_sizes.unknown_size(like) if torch_sizes.unknown_symbols([size]) else size for size in tensor.shape
            ]
            return torch.empty(shape, dtype=tensor.dtype, device=tensor.device)

        return pytree.tree_map_only(torch.Tensor, made, value)

    return returned
