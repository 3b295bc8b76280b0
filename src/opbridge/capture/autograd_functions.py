"""Captures each call of certain classes of torch.autograd.Function as one operator.

1. Where the model may call such a class, or the capture reaches one, the model itself runs once on the example inputs.
   Each call is recorded with its results.
2. During the capture, a call becomes one operator (`opbridge.graph.function_calls`), and `forward` is not run. Calls
   are matched by their order.

The class's `forward` is replaced for that time, not `apply`: code often keeps a reference to `apply`.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import NoneType
from typing import Any

import torch
from torch.utils import _pytree as pytree

from opbridge.base.torch_private import torch_overrides, torchscript_export
from opbridge.errors import CaptureError
from opbridge.graph.function_calls import FunctionCall, OutputRecord, Placeholder, run_as_operator
from opbridge.symbolics.autograd_functions import opaque_classes
from opbridge.symbolics.shapes import Inference

__all__ = ["Functions"]


_replacement_lock = threading.RLock()


class Functions:
    """The classes that are captured as operators in one capture, and their calls.

    Args:
        handler: The symbolic function of `prim::PythonOp`, if one is registered.
        opset: The opset that symbolic functions build for.
        names: The user's names of input sizes, by place (`x.shape[0]`).

    Attributes:
        records: The calls of the model's own run, in order.
        calls: The calls of the capture.
        unrecorded: Whether the capture reached a call before calls were recorded.
        recording_now: Whether the model's own run is in progress.
        read_inputs: The inputs, by their number among all, whose values become Python numbers inside of such a class:
            what they may hold is known from the example only.
    """

    def __init__(self, handler: Callable[..., Any] | None, opset: int, names: Mapping[str, str]) -> None:
        self.classes = list(opaque_classes(handler is not None))
        self.records: list[_Record] = []
        self.calls: list[FunctionCall] = []
        self._handler = handler
        self._opset = opset
        self._names = names
        self._forwards: dict[type, Callable[..., Any]] = {}
        self._has_setup_context: dict[type, bool] = {}
        self.unrecorded = False
        self.recording_now = False
        self.read_inputs: set[int] = set()
        self._memory: dict[int, int] = {}
        self._known: dict[Any, FunctionCall] = {}
        self._depth = 0
        self._position = 0
        self._thread = threading.get_ident()
        self.inference = self._inference(use_example_sizes=False)

    def may_call_one(self, model: Any) -> bool:
        """Whether a model may call such a class: one is defined in the module of one of its submodules."""
        parts = model.modules() if isinstance(model, torch.nn.Module) else ()
        files = {type(part).__module__ for part in parts} | {getattr(model, "__module__", None)}
        return any(cls.__module__ in files for cls in self.classes)

    def use_example_sizes(self) -> None:
        """Fixes sizes that depend on values to the example's in later executions."""
        self._known.clear()
        self.inference = self._inference(use_example_sizes=True)

    def start_run(self, *_: Any) -> None:
        """Called when the model starts to run; also used as a hook."""
        self._position = 0
        if not self.recording_now:
            self.calls = []

    @contextlib.contextmanager
    def recording(self) -> Iterator[None]:
        """Within this context, which is around the model's own run, calls are recorded. Call `note_inputs` in it."""
        self.recording_now, self.unrecorded = True, False
        self.records = []
        try:
            yield
        finally:
            self.recording_now = False

    def note_inputs(self, leaves: Sequence[Any]) -> None:
        """Registers the leaves of the inputs of the run, to detect reads of their values."""
        self._memory = {
            leaf.data_ptr(): index
            for index, leaf in enumerate(leaves)
            if isinstance(leaf, torch.Tensor) and leaf.numel()
        }

    def _note_read(self, tensor: torch.Tensor) -> None:
        if type(tensor) is torch.Tensor and tensor.numel() and tensor.data_ptr() in self._memory:
            self.read_inputs.add(self._memory[tensor.data_ptr()])

    def is_suspended(self) -> bool:
        """Whether calls are not recorded or captured now: inside of such a class, or in a run for another purpose."""
        return self._depth > 0

    @contextlib.contextmanager
    def suspended(self) -> Iterator[None]:
        """Within this context, calls run as usual, and are not recorded or captured."""
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1

    @contextlib.contextmanager
    def kept_whole(self, module: torch.nn.Module) -> Iterator[None]:
        """Within this context, which is around all executions of a model, classes that have a `symbolic` stay whole.

        Raises:
            CaptureError: Such a class was defined while the model ran.
        """
        with contextlib.ExitStack() as stack:
            if self.classes:
                stack.enter_context(self.whole())
                hook = module.register_forward_pre_hook(self.start_run)
                stack.callback(hook.remove)
            yield
        traced_through = self.traced_through()
        if traced_through:
            raise CaptureError(
                f"The class {traced_through[0].__qualname__} has a symbolic function but is defined inside forward(), "
                "so the capture traced through it. Define the class at module level."
            )

    @contextlib.contextmanager
    def whole(self) -> Iterator[None]:
        """Within this context, calls are recorded or become operators; those of other threads run as usual."""
        with _replacement_lock, self._replaced():
            yield

    @contextlib.contextmanager
    def _replaced(self) -> Iterator[None]:
        kept = {}
        for cls in self.classes:
            kept[cls] = {name: vars(cls).get(name) for name in ("forward", "setup_context")}
            self._forwards[cls] = cls.forward  # type: ignore[attr-defined]
            self._has_setup_context[cls] = _has_setup_context_method(cls)
        try:
            for cls in self.classes:
                cls.forward = staticmethod(self._replacement(cls))  # type: ignore[attr-defined]
            yield
        finally:
            for cls, attributes in kept.items():
                if attributes["forward"] is not None:
                    cls.forward = attributes["forward"]  # type: ignore[attr-defined]
                else:
                    del cls.forward  # type: ignore[attr-defined]

    def traced_through(self) -> list[type]:
        """Classes that were defined while the model ran, and were traced through."""
        return [cls for cls in opaque_classes(self._handler is not None) if cls not in self._forwards]

    def _inference(self, *, use_example_sizes: bool) -> Inference:
        return Inference(self._run_forward, self._opset, use_example_sizes=use_example_sizes, names=self._names)

    def _replacement(self, cls: type) -> Callable[..., Any]:
        def forward(*args: Any) -> Any:
            ctx, given = (None, args) if self._has_setup_context[cls] else (args[0], args[1:])
            if self._depth or threading.get_ident() != self._thread:
                return self._forwards[cls](*args)
            return self._record(cls, ctx, given) if self.recording_now else self._capture(cls, given)

        return forward

    def _call_forward(self, cls: type, ctx: Any, given: Sequence[Any]) -> Any:
        with self.suspended():
            return self._forwards[cls](*given) if self._has_setup_context[cls] else self._forwards[cls](ctx, *given)

    def _run_forward(self, cls: type, given: Sequence[Any]) -> Any:
        """A class's own `forward`, outside of autograd."""
        return self._call_forward(cls, _Context(given), given)

    def _record(self, cls: type, ctx: Any, given: Sequence[Any]) -> Any:
        by_handler = not callable(getattr(cls, "symbolic", None))
        traced = self._traced(cls, given) if by_handler else None
        before = [(leaf, leaf._version) for leaf in pytree.tree_leaves(list(given)) if isinstance(leaf, torch.Tensor)]
        with torch_overrides.observing_value_reads(self._note_read):
            returned = self._call_forward(cls, ctx, given)
        writes = any(leaf._version != version for leaf, version in before)
        values = list(returned) if isinstance(returned, (list, tuple)) else [returned]
        outputs = tuple(
            OutputRecord(tuple(value.shape), value.dtype)
            if isinstance(value, torch.Tensor)
            else OutputRecord(None, None, value)
            for value in values
        )
        self.records.append(_Record(cls, outputs, not isinstance(returned, (list, tuple)), traced, writes))
        return returned

    def _traced(self, cls: type, given: Sequence[Any]) -> tuple[Any, Any]:
        """TorchScript's node of a call, for a handler that reads it, with the graph that owns it."""
        leaves, spec = pytree.tree_flatten(list(given))
        at = [index for index, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]

        def call(*tensors: torch.Tensor) -> Any:
            filled = list(leaves)
            for index, tensor in zip(at, tensors, strict=True):
                filled[index] = tensor
            return cls.apply(*pytree.tree_unflatten(filled, spec))  # type: ignore[attr-defined]

        example = tuple(leaves[index].detach().clone() for index in at)
        with self.suspended():
            graph = torchscript_export.traced_call_graph(call, example)
        return graph.findNode("prim::PythonOp"), graph

    def _capture(self, cls: type, given: Sequence[Any]) -> Any:
        if not self.records:
            self.unrecorded = True
            raise CaptureError("What the function returns is not known yet.")  # ends this execution
        position, self._position = self._position, self._position + 1
        record = self.records[position] if position < len(self.records) else None
        if record is None or record.cls is not cls:
            raise CaptureError(
                f"{cls.__qualname__} is called during the capture, but the model itself, run on the example "
                f"inputs, calls {record.cls.__qualname__ if record else 'no function'} there. The control flow of "
                "the model depends on values or on state. Make it take the same path in every run."
            )
        tensors: list[torch.Tensor] = []
        sizes: list[Any] = []

        def placed(leaf: Any) -> Any:
            if isinstance(leaf, torch.Tensor):
                tensors.append(leaf)
                return Placeholder(True, len(tensors) - 1)
            if isinstance(leaf, torch.SymInt):
                sizes.append(leaf)
                return Placeholder(False, len(sizes) - 1)
            return leaf

        nested = any(isinstance(each, (list, tuple, dict)) for each in given)
        args = tuple(pytree.tree_map(placed, list(given))) if nested else tuple(map(placed, given))
        call = self._call(cls, args, record)
        self.calls.append(call)
        made = iter(run_as_operator(call, tensors, sizes))
        values = [next(made) if output.shape is not None else output.value for output in record.outputs]
        return values[0] if record.single else tuple(values)

    def _call(self, cls: type, args: tuple[Any, ...], record: _Record) -> FunctionCall:
        """A new call, or an earlier equal one, for which torch has cached the results."""
        known: FunctionCall | None = None
        # Compared by their repr, as 0.0 equals -0.0 and 1 equals True. The repr of other objects may be incomplete.
        plain = record.traced is None and all(isinstance(each, _PLAIN) for each in args)
        key = cls, repr(args), record.outputs, record.single
        if plain:
            known = self._known.get(key)
        if known is None:
            handler = None if callable(getattr(cls, "symbolic", None)) else self._handler
            known = FunctionCall(cls, args, record.outputs, record.single, handler, record.traced)
            call = known
            call.infer = lambda fakes, numbers: self.inference.shapes(call, fakes, numbers)
            if plain:
                self._known[key] = known
        return known

    def notes(self) -> Iterator[str]:
        """Notes for the user about these functions."""
        for cls in dict.fromkeys(record.cls for record in self.records if record.writes):
            yield (
                f"{cls.__qualname__} writes to its arguments; the ONNX model contains what it returns and does not "
                "modify its arguments"
            )
        if self.inference.specialized:
            names = ", ".join(self.inference.specialized)
            yield f"the output sizes of {names} depend on values, and are fixed to those of the example"


_PLAIN = (Placeholder, bool, int, float, str, NoneType)


class _Record:
    def __init__(self, cls: type, outputs: tuple[OutputRecord, ...], single: bool, traced: Any, writes: bool) -> None:
        self.cls = cls
        self.outputs = outputs
        self.single = single
        self.traced = traced
        self.writes = writes


class _Context:
    """The `ctx` of a `forward` that runs outside of autograd: accepts all calls, and keeps attributes."""

    def __init__(self, given: Sequence[Any]) -> None:
        self.needs_input_grad = tuple(False for _ in given)
        self.saved_tensors: tuple[Any, ...] = ()

    def save_for_backward(self, *tensors: Any) -> None:
        self.saved_tensors = tensors

    save_for_forward = save_for_backward

    def mark_dirty(self, *tensors: Any) -> None:
        pass

    mark_non_differentiable = mark_dirty

    def set_materialize_grads(self, value: bool) -> None:
        pass


def _has_setup_context_method(cls: Any) -> bool:
    """Whether a class has a `setup_context`, and so a `forward` without ctx."""
    return cls.setup_context is not torch.autograd.Function.setup_context
