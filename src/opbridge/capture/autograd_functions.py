"""Captures each call of certain classes of torch.autograd.Function as one operator.

1. Where the model may call such a class, or the capture reaches one, the model itself runs once on the example inputs.
   Each call is recorded with its results (`function_recording`).
2. During the capture, a call becomes one operator (`opbridge.graph.function_calls`), and `forward` is not run. Calls
   are matched by their order.

The class's `forward` is replaced for that time (`replaced_forwards`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import NoneType
from typing import Any

import torch
from torch.utils import _pytree as pytree

from opbridge.capture.function_recording import FunctionRecord, FunctionRecording
from opbridge.capture.replaced_forwards import ReplacedForwards
from opbridge.errors import CaptureError
from opbridge.graph.function_calls import FunctionCall, Placeholder, run_as_operator
from opbridge.symbolics.shapes import Inference

__all__ = ["Functions"]


class Functions:
    """The classes that are captured as operators in one capture, and their calls.

    Args:
        handler: The symbolic function of `prim::PythonOp`, if one is registered.
        opset: The opset that symbolic functions build for.
        names: The user's names of input sizes, by place (`x.shape[0]`).

    Attributes:
        forwards: The classes.
        own_run: Their calls in the model's own run.
        calls: Their calls in the capture.
        unrecorded: Whether the capture reached a call before calls were recorded.
        inference: Infers the shapes of what they return.
    """

    def __init__(self, handler: Callable[..., Any] | None, opset: int, names: Mapping[str, str]) -> None:
        self._handler = handler
        self._opset = opset
        self._names = names
        self.forwards = ReplacedForwards(has_handler=handler is not None)
        self.own_run = FunctionRecording(self.forwards)
        self.calls: list[FunctionCall] = []
        self.unrecorded = False
        self._known: dict[Any, FunctionCall] = {}
        self._position = 0
        self.inference = self._inference(use_example_sizes=False)

    def may_call_one(self, model: Any) -> bool:
        """Whether a model may call such a class: one is defined in the module of one of its submodules."""
        parts = model.modules() if isinstance(model, torch.nn.Module) else ()
        files = {type(part).__module__ for part in parts} | {getattr(model, "__module__", None)}
        return any(cls.__module__ in files for cls in self.forwards.classes)

    def use_example_sizes(self) -> None:
        """Fixes sizes that depend on values to the example's in later executions."""
        self._known.clear()
        self.inference = self._inference(use_example_sizes=True)

    def _inference(self, *, use_example_sizes: bool) -> Inference:
        return Inference(self.forwards.run, self._opset, use_example_sizes=use_example_sizes, names=self._names)

    @contextlib.contextmanager
    def recording(self) -> Iterator[None]:
        """Within this context, which is around the model's own run, calls are recorded."""
        self.unrecorded = False
        with self.own_run.running():
            yield

    @contextlib.contextmanager
    def kept_whole(self, module: torch.nn.Module) -> Iterator[None]:
        """Within this context, which is around all executions of a model, classes that have a `symbolic` stay whole.

        Raises:
            CaptureError: Such a class was defined while the model ran.
        """
        with contextlib.ExitStack() as stack:
            if self.forwards.classes:
                stack.enter_context(self.forwards.replaced(self._called))
                hook = module.register_forward_pre_hook(self._start_run)
                stack.callback(hook.remove)
            yield
        traced_through = self.forwards.traced_through()
        if traced_through:
            raise CaptureError(
                f"The class {traced_through[0].__qualname__} has a symbolic function but is defined inside forward(), "
                "so the capture traced through it. Define the class at module level."
            )

    def _start_run(self, *_: Any) -> None:
        """Called when the model starts to run."""
        self._position = 0
        if not self.own_run.is_running:
            self.calls = []

    def _called(self, cls: type, ctx: Any, given: Sequence[Any]) -> Any:
        """Records a call, or makes it an operator."""
        return self.own_run.call(cls, ctx, given) if self.own_run.is_running else self._capture(cls, given)

    def _capture(self, cls: type, given: Sequence[Any]) -> Any:
        records = self.own_run.records
        if not records:
            self.unrecorded = True
            raise CaptureError("What the function returns is not known yet.")  # ends this execution
        position, self._position = self._position, self._position + 1
        record = records[position] if position < len(records) else None
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

    def _call(self, cls: type, args: tuple[Any, ...], record: FunctionRecord) -> FunctionCall:
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
        for cls in dict.fromkeys(record.cls for record in self.own_run.records if record.writes):
            yield (
                f"{cls.__qualname__} writes to its arguments; the ONNX model contains what it returns and does not "
                "modify its arguments"
            )
        if self.inference.specialized:
            names = ", ".join(self.inference.specialized)
            yield f"the output sizes of {names} depend on values, and are fixed to those of the example"


_PLAIN = (Placeholder, bool, int, float, str, NoneType)
