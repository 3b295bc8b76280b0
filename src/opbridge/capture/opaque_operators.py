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
from opbridge.capture.operator_recording import CallRecord, Recording, TensorRecord
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
        unknown: Names of the operators that returned sizes which are known only at run time.
    """

    def __init__(self, is_suspended: Callable[[], bool] = lambda: False) -> None:
        self._is_suspended = is_suspended
        named = torch_library.existing_operators(torch_library.third_party_operators())
        self._candidates = tuple(op for op in named if torch_library.lacks_fake_implementation(op))
        # These are traced on fake tensors at first, as torch does it.
        self._traced = {op for op in self._candidates if torch_library.is_composite_explicit(op)}
        self.calls: list[CallRecord] | None = None
        self.unrecorded = False
        self.failure: CaptureError | None = None
        self.unknown: dict[str, None] = {}
        self._kept: dict[torch._ops.OpOverload, None] = {}
        self._matched_sizes: dict[str, None] = {}
        self._constant_sizes: dict[str, None] = {}
        self._numbers: dict[str, None] = {}
        self._specialized_sizes: dict[str, None] = {}
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
        self._matched_sizes, self._constant_sizes, self._numbers, self._specialized_sizes, self.unknown = (
            {},
            {},
            {},
            {},
            {},
        )
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
        if self._matched_sizes:
            yield (
                f"the output sizes of {', '.join(self._matched_sizes)} may depend on values and are inferred from "
                "the example: a size that equals an input size is assumed to be that size, and all others are fixed"
            )
        if self._constant_sizes:
            yield (
                f"output sizes of {', '.join(self._constant_sizes)} that equal a fixed size or number among its "
                "inputs in the example are assumed to be that; the others are known only at run time"
            )
        if self._specialized_sizes:
            yield (
                f"output sizes of {', '.join(self._specialized_sizes)} that do not equal an input size are fixed "
                "to those of the example; if they depend on values, make a size of its inputs dynamic"
            )
        if self._numbers:
            yield f"the number that {', '.join(self._numbers)} returns is fixed to its value in the example"

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
        sizes = _Sizes(leaves)
        like = next((leaf for leaf in leaves if isinstance(leaf, torch.Tensor)), None)

        def made(output: Any) -> Any:
            if isinstance(output, (bool, int, float)):
                self._numbers[name] = None
            return self._made(name, output, sizes, like) if isinstance(output, TensorRecord) else output

        return pytree.tree_map(made, call.outputs)

    def _made(self, name: str, output: TensorRecord, sizes: _Sizes, like: torch.Tensor | None) -> torch.Tensor:
        if not sizes.dynamic and not all(map(sizes.is_fixed, output.shape)):
            self._specialized_sizes[name] = None
        if (not sizes.dynamic or like is None) and output.stride is not None:
            return torch.empty_strided(output.shape, output.stride, dtype=output.dtype, device=output.device)
        shape: list[Any] = []
        for size in output.shape:
            if not sizes.dynamic or like is None:
                shape.append(size)
            elif self._use_example_sizes:
                self._matched_sizes[name] = None
                shape.append(sizes.symbol(size))
            elif sizes.is_fixed(size):
                self._constant_sizes[name] = None
                shape.append(size)
            else:
                self.unknown[name] = None
                shape.append(torch_sizes.unknown_size(like))
        return torch.empty(shape, dtype=output.dtype, device=output.device)


class _Sizes:
    """The sizes and numbers among the arguments of a call."""

    def __init__(self, leaves: Sequence[Any]) -> None:
        every = [size for leaf in leaves for size in (leaf.shape if isinstance(leaf, torch.Tensor) else (leaf,))]
        self.dynamic = any(isinstance(size, torch.SymInt) for size in every)
        sizes = [torch_sizes.known_size(size) for size in every]
        self._static = {size for size in sizes if type(size) is int}
        self._symbols: dict[int, dict[str, torch.SymInt]] = {}
        for size in sizes:
            hint = torch_library.size_hint(size) if isinstance(size, torch.SymInt) else None
            if hint is not None:
                self._symbols.setdefault(hint, {})[str(size)] = size

    def is_fixed(self, size: int) -> bool:
        """Whether a size of the example is that of a static dimension, and not also that of a dynamic one."""
        return size in self._static and size not in self._symbols

    def symbol(self, size: int) -> Any:
        """The dynamic size that has this value in the example; the value itself where there is not exactly one."""
        found = list(self._symbols.get(size, {}).values())
        return found[0] if len(found) == 1 else size


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
