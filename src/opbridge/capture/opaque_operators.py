"""Keeps operators of other libraries whole of which nothing tells the shapes: no fake (meta) implementation.

1. Where the capture comes to such an operator, it ends, and the model runs once as it is, on the example inputs; each
   call is noted with what it returned.
2. In the next attempt such an operator returns tensors without data of the shapes that were noted. Which call is which
   is known by their order.
3. An operator that is registered as composed of others ("CompositeImplicitAutograd") may be a kernel that reads memory.
   It is one if what it returned is not what the operators give that were called in it, called once more. Otherwise
   torch runs it on tensors without data, as ever, and learns the shapes from that.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx import GraphModule
from torch.utils import _pytree as pytree

from opbridge.base.torch_private import torch_library, torch_sizes
from opbridge.errors import CaptureError

__all__ = ["Operators", "shapes_as_in"]


@dataclass(frozen=True)
class _Tensor:
    """What is known of a tensor that a call got or gave."""

    shape: tuple[int, ...]
    stride: tuple[int, ...] | None
    dtype: torch.dtype
    device: torch.device


@dataclass
class _Call:
    """One call in the model's own run.

    Attributes:
        operator: The operator.
        given: The tensors that it got.
        outputs: What it returned, with `_Tensor`s for tensors.
        within: The operators in whose calls it was made.
        composed: Whether what it returned comes from the operators that it called.
    """

    operator: torch._ops.OpOverload
    given: tuple[_Tensor, ...]
    within: tuple[torch._ops.OpOverload, ...]
    outputs: Any = None
    composed: bool = False


@dataclass
class _Open:
    """A composed operator that is running: what it got, and the operators that it called."""

    operator: torch._ops.OpOverload
    inputs: list[torch.Tensor]
    copies: list[torch.Tensor]
    random: torch.Tensor
    steps: list[tuple[Any, Any, Any]] = field(default_factory=list)


class Operators:
    """The operators that stay whole in one capture, and their calls.

    Args:
        aside: Whether what is called now is no part of the graph: it is in something else that stays whole.

    Attributes:
        calls: Those of the model's own run, in order; None before it.
        unrecorded: Whether one was met in the capture before there were any.
        failure: What an operator that was met could not be kept for. TorchScript makes another error of it.
        unknown: Names of the operators that gave sizes which are known only at run time.
    """

    def __init__(self, aside: Callable[[], bool] = lambda: False) -> None:
        self._aside = aside
        named = torch_library.existing_operators(torch_library.third_party_operators())
        self._candidates = tuple(op for op in named if torch_library.lacks_fake_implementation(op))
        # Of these the kernel is run on tensors without data at first, as torch does.
        self._left = {op for op in self._candidates if torch_library.is_composite_explicit(op)}
        self.calls: list[_Call] | None = None
        self.unrecorded = False
        self.failure: CaptureError | None = None
        self.unknown: dict[str, None] = {}
        self._met: dict[torch._ops.OpOverload, None] = {}
        self._guessed: dict[str, None] = {}
        self._kept_sizes: dict[str, None] = {}
        self._numbers: dict[str, None] = {}
        self._assumed: dict[str, None] = {}
        self._fixed = False
        self._position = 0

    @property
    def names(self) -> frozenset[str]:
        """The operators of the capture that were kept whole."""
        return frozenset(op.name() for op in self._met)

    def fix_sizes(self) -> None:
        """From here on, sizes that depend on values are taken from the example."""
        self._fixed = True

    @contextlib.contextmanager
    def recording(self) -> Iterator[None]:
        """Around the model's own run."""
        if not self._candidates:
            yield
            return
        run, self.failure = _Recording(self._aside), None
        with torch_library.intercepting_calls(self._candidates, run.call, run.other):
            yield
        self.calls, self.unrecorded = run.calls, False
        parts = {call.operator for call in run.calls if call.composed}
        self._left |= parts - {call.operator for call in run.calls if not call.composed}

    def may_take_more(self) -> bool:
        """Whether there are operators that were left to torch, and might be in the way."""
        return bool(self._left) and (self.calls is None or any(call.operator in self._left for call in self.calls))

    def take_all(self) -> None:
        """From here on, no operator is left to torch."""
        self._left = set()

    @contextlib.contextmanager
    def whole(self) -> Iterator[None]:
        """Around an attempt at the capture."""
        self._position, self.failure, self._met = 0, None, {}
        self._guessed, self._kept_sizes, self._numbers, self._assumed, self.unknown = {}, {}, {}, {}, {}
        whole = [op for op in self._candidates if op not in self._left]
        if not whole:
            yield
            return
        kept = set(whole)
        calls = [each for each in self.calls or () if each.operator in kept and kept.isdisjoint(each.within)]
        with torch_library.with_fake_implementations({op: self._stand_in(op, calls) for op in whole}):
            yield

    def notes(self) -> Iterator[str]:
        """What a person should know of these operators."""
        if self._guessed:
            yield (
                f"the sizes of what {', '.join(self._guessed)} returns may depend on values, and are taken from the "
                "example: a size that one of its inputs has there is taken to be that one, and every other is fixed"
            )
        if self._kept_sizes:
            yield (
                f"of what {', '.join(self._kept_sizes)} returns, sizes that equal a fixed size or number among its "
                "inputs in the example are taken to be that; the others are known only at run time"
            )
        if self._assumed:
            yield (
                f"sizes of what {', '.join(self._assumed)} returns that are none of its inputs' are fixed to the "
                "example's; if they depend on values, make a size of its inputs dynamic"
            )
        if self._numbers:
            yield f"the number that {', '.join(self._numbers)} returns is fixed to the example's"

    def _stand_in(self, op: torch._ops.OpOverload, calls: Sequence[_Call]) -> Callable[..., Any]:
        def stand_in(*args: Any, **kwargs: Any) -> Any:
            if self._aside():
                raise CaptureError(f"{op.name()} does not run on tensors without data.")
            try:
                return self._returned(op, calls, pytree.tree_leaves((args, kwargs)))
            except CaptureError as error:
                self.failure = error
                raise

        return stand_in

    def _returned(self, op: torch._ops.OpOverload, calls: Sequence[_Call], leaves: Sequence[Any]) -> Any:
        name = op.name()
        if torch_library.is_mutable(op):
            raise CaptureError(
                f"The operator {name} has no fake (meta) implementation, and writes to its arguments, which an ONNX "
                "model cannot: give the library an operator that returns what this one writes, and call that one."
            )
        if self.calls is None:
            self.unrecorded = True
            raise CaptureError(f"What {name} returns is not known yet.")  # which ends this attempt
        position, self._position = self._position, self._position + 1
        call = calls[position] if position < len(calls) else None
        if call is None or call.operator is not op or not _fits(call, leaves):
            instead = f"calls {call.operator.name()}" if call is not None else "calls no such operator any more"
            if call is not None and call.operator is op:
                instead = "calls it with tensors of other sizes or types"
            raise CaptureError(
                f"The operator {name}, which has no fake (meta) implementation, is called during the capture where the "
                f"model itself, run on the example inputs, {instead}. What the model does depends on values or on "
                f"state: make it take the same way each time, or give the operator a fake implementation with "
                f'@torch.library.register_fake("{name}").'
            )
        self._met[op] = None
        sizes = _Sizes(leaves)
        like = next((leaf for leaf in leaves if isinstance(leaf, torch.Tensor)), None)

        def made(output: Any) -> Any:
            if isinstance(output, (bool, int, float)):
                self._numbers[name] = None
            return self._made(name, output, sizes, like) if isinstance(output, _Tensor) else output

        return pytree.tree_map(made, call.outputs)

    def _made(self, name: str, output: _Tensor, sizes: _Sizes, like: torch.Tensor | None) -> torch.Tensor:
        if not sizes.dynamic and not all(map(sizes.is_fixed, output.shape)):
            self._assumed[name] = None
        if (not sizes.dynamic or like is None) and output.stride is not None:
            return torch.empty_strided(output.shape, output.stride, dtype=output.dtype, device=output.device)
        shape: list[Any] = []
        for size in output.shape:
            if not sizes.dynamic or like is None:
                shape.append(size)
            elif self._fixed:
                self._guessed[name] = None
                shape.append(sizes.symbol(size))
            elif sizes.is_fixed(size):
                self._kept_sizes[name] = None
                shape.append(size)
            else:
                self.unknown[name] = None
                shape.append(torch_sizes.unknown_size(like))
        return torch.empty(shape, dtype=output.dtype, device=output.device)


class _Sizes:
    """The sizes and numbers that a call gets."""

    def __init__(self, leaves: Sequence[Any]) -> None:
        every = [size for leaf in leaves for size in (leaf.shape if isinstance(leaf, torch.Tensor) else (leaf,))]
        self.dynamic = any(isinstance(size, torch.SymInt) for size in every)
        settled = [torch_sizes.known_size(size) for size in every]
        self._fixed = {size for size in settled if type(size) is int}
        self._symbols: dict[int, dict[str, torch.SymInt]] = {}
        for size in settled:
            hint = torch_library.size_hint(size) if isinstance(size, torch.SymInt) else None
            if hint is not None:
                self._symbols.setdefault(hint, {})[str(size)] = size

    def is_fixed(self, size: int) -> bool:
        """Whether a size of the example is one that does not vary, and none that does."""
        return size in self._fixed and size not in self._symbols

    def symbol(self, size: int) -> Any:
        """The only size that varies and is this one in the example; the size itself where there is no such one."""
        found = list(self._symbols.get(size, {}).values())
        return found[0] if len(found) == 1 else size


class _Recording:
    """The calls of a model's own run."""

    def __init__(self, aside: Callable[[], bool]) -> None:
        self._aside = aside
        self.calls: list[_Call] = []
        self._running: list[torch._ops.OpOverload] = []
        self._open: list[_Open] = []

    def call(
        self, op: torch._ops.OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any], run: Callable[[], Any]
    ) -> Any:
        """Runs an operator and notes it."""
        if self._aside():
            return run()
        leaves = pytree.tree_leaves((args, kwargs))
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        call = _Call(op, tuple(map(_described, tensors)), tuple(self._running))
        self.calls.append(call)
        self._running.append(op)
        composed = torch_library.is_composite_implicit(op)
        if composed:
            with torch_library.without_interception():
                copies = [tensor.clone() for tensor in tensors]
            self._open.append(_Open(op, tensors, copies, torch.get_rng_state()))
        try:
            returned = run()
        finally:
            self._running.pop()
            opened = self._open.pop() if composed else None
        call.outputs = pytree.tree_map_only(torch.Tensor, _described, returned)
        if opened is not None:
            call.composed = _repeats(opened, returned)
        return returned

    def other(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        """Notes an operator that was called, for the composed ones that it was called in."""
        for each in self._open:
            each.steps.append((func, (args, kwargs), result))


def _repeats(opened: _Open, returned: Any) -> bool:
    """Whether the operators that an operator called give what it returned, when they are called once more."""
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
                        known[id(before)] = _poisoned(func, now)
            return all(
                id(value) in known and torch.allclose(known[id(value)], value, equal_nan=True)
                for value in outputs
                if isinstance(value, torch.Tensor)
            )
    except Exception:  # whatever an operator raises when it is called out of its place: it does not repeat
        return False


def _poisoned(func: Any, tensor: torch.Tensor) -> torch.Tensor:
    """A new tensor whose content nobody has written yet, with content that nobody wants."""
    if "empty" in func.name().partition("::")[2] and tensor.numel():
        if tensor.dtype.is_floating_point or tensor.dtype.is_complex:
            tensor.fill_(torch.nan)
        elif tensor.dtype is not torch.bool:
            tensor.fill_(torch.iinfo(tensor.dtype).max)
    return tensor


def _described(tensor: torch.Tensor) -> _Tensor:
    stride = tuple(tensor.stride()) if tensor.layout == torch.strided else None
    return _Tensor(tuple(tensor.shape), stride, tensor.dtype, tensor.device)


def _fits(call: _Call, leaves: Sequence[Any]) -> bool:
    """Whether a call of the capture gets tensors such as a call of the model's own run got."""
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    return len(tensors) == len(call.given) and all(
        tensor.dtype == known.dtype
        and tensor.dim() == len(known.shape)
        and all(type(size) is not int or size == other for size, other in zip(tensor.shape, known.shape, strict=True))
        for tensor, known in zip(tensors, call.given, strict=True)
    )


@contextlib.contextmanager
def shapes_as_in(module: GraphModule, names: frozenset[str]) -> Iterator[None]:
    """Within this context, operators that the capture kept whole give what they have in its graph, as it is run anew.

    Args:
        module: The graph.
        names: Those operators among them that torch would take apart.

    Raises:
        CaptureError: The graph is run anew without them.
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
    """Gives tensors such as these in turn; torch may run the graph more than once."""
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
