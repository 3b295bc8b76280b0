"""Keeps classes of torch.autograd.Function whole while a model is captured.

1. Where the model looks like calling such a class, or turns out to, it runs once as it is, on the example inputs; each
   call is noted with what it returned.
2. During the capture, the call becomes one operator (`opbridge.graph.function_calls`), and `forward` is not run. Which
   call is which is known by their order.

What is replaced for that time is the class's `forward`, not `apply`: code often keeps `apply` under a name of its own.
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


_one_at_a_time = threading.RLock()


class Functions:
    """The classes that stay whole in one capture, and their calls.

    Args:
        handler: The symbolic function of `prim::PythonOp`, if one is registered.
        opset: The opset that symbolic functions are asked for.
        names: What the user calls the sizes of the inputs, by place (`x.shape[0]`).

    Attributes:
        records: The calls of the model's own run, in order.
        calls: Those of the capture.
        unrecorded: Whether a call was met before there were records.
        recording_now: Whether the model's own run is under way.
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
        self._setups: dict[type, bool] = {}
        self.unrecorded = False
        self.recording_now = False
        self.read_inputs: set[int] = set()
        self._memory: dict[int, int] = {}
        self._known: dict[Any, FunctionCall] = {}
        self._depth = 0
        self._position = 0
        self._thread = threading.get_ident()
        self.inference = self._inference(use_example_sizes=False)

    def likely(self, model: Any) -> bool:
        """Whether a model looks like one that calls such a class: one is defined in the file of a part of it."""
        parts = model.modules() if isinstance(model, torch.nn.Module) else ()
        files = {type(part).__module__ for part in parts} | {getattr(model, "__module__", None)}
        return any(cls.__module__ in files for cls in self.classes)

    def fix_sizes(self) -> None:
        """From here on, sizes that depend on values are taken to be the example's."""
        self._known.clear()
        self.inference = self._inference(use_example_sizes=True)

    def begin(self, *_: Any) -> None:
        """The model starts to run; also as a hook."""
        self._position = 0
        if not self.recording_now:
            self.calls = []

    @contextlib.contextmanager
    def recording(self) -> Iterator[None]:
        """Around the model's own run; `note_inputs` is to be called in it."""
        self.recording_now, self.unrecorded = True, False
        self.records = []
        try:
            yield
        finally:
            self.recording_now = False

    def note_inputs(self, leaves: Sequence[Any]) -> None:
        """Says which tensors the run gets, as leaves of its inputs."""
        self._memory = {
            leaf.data_ptr(): index
            for index, leaf in enumerate(leaves)
            if isinstance(leaf, torch.Tensor) and leaf.numel()
        }

    def _note_read(self, tensor: torch.Tensor) -> None:
        if type(tensor) is torch.Tensor and tensor.numel() and tensor.data_ptr() in self._memory:
            self.read_inputs.add(self._memory[tensor.data_ptr()])

    def is_aside(self) -> bool:
        """Whether the inside of such a class runs, or a run of the model of which nothing is noted."""
        return self._depth > 0

    @contextlib.contextmanager
    def aside(self) -> Iterator[None]:
        """Within this context, calls run as if nothing were replaced."""
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1

    @contextlib.contextmanager
    def whole(self) -> Iterator[None]:
        """Within this context, calls are recorded, or become operators; those of other threads run as ever."""
        with _one_at_a_time, self._replaced():
            yield

    @contextlib.contextmanager
    def _replaced(self) -> Iterator[None]:
        kept = {}
        for cls in self.classes:
            kept[cls] = {name: vars(cls).get(name) for name in ("forward", "setup_context")}
            self._forwards[cls] = cls.forward  # type: ignore[attr-defined]
            self._setups[cls] = _has_setup(cls)
        try:
            for cls in self.classes:
                cls.forward = staticmethod(self._stand_in(cls))  # type: ignore[attr-defined]
            yield
        finally:
            for cls, attributes in kept.items():
                if attributes["forward"] is not None:
                    cls.forward = attributes["forward"]  # type: ignore[attr-defined]
                else:
                    del cls.forward  # type: ignore[attr-defined]

    def missed(self) -> list[type]:
        """Classes that were defined while the model ran, and were traced through."""
        return [cls for cls in opaque_classes(self._handler is not None) if cls not in self._forwards]

    def _inference(self, *, use_example_sizes: bool) -> Inference:
        return Inference(self._run_forward, self._opset, use_example_sizes=use_example_sizes, names=self._names)

    def _stand_in(self, cls: type) -> Callable[..., Any]:
        def forward(*args: Any) -> Any:
            ctx, given = (None, args) if self._setups[cls] else (args[0], args[1:])
            if self._depth or threading.get_ident() != self._thread:
                return self._forwards[cls](*args)
            return self._record(cls, ctx, given) if self.recording_now else self._capture(cls, given)

        return forward

    def _call_forward(self, cls: type, ctx: Any, given: Sequence[Any]) -> Any:
        with self.aside():
            return self._forwards[cls](*given) if self._setups[cls] else self._forwards[cls](ctx, *given)

    def _run_forward(self, cls: type, given: Sequence[Any]) -> Any:
        """A class's own `forward`, outside of autograd."""
        return self._call_forward(cls, _Context(given), given)

    def _record(self, cls: type, ctx: Any, given: Sequence[Any]) -> Any:
        handled = not callable(getattr(cls, "symbolic", None))
        traced = self._traced(cls, given) if handled else None
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
        with self.aside():
            graph = torchscript_export.traced_call_graph(call, example)
        return graph.findNode("prim::PythonOp"), graph

    def _capture(self, cls: type, given: Sequence[Any]) -> Any:
        if not self.records:
            self.unrecorded = True
            raise CaptureError("What the function returns is not known yet.")  # which ends this attempt
        position, self._position = self._position, self._position + 1
        record = self.records[position] if position < len(self.records) else None
        if record is None or record.cls is not cls:
            raise CaptureError(
                f"{cls.__qualname__} is called during the capture where the model itself, run on the example inputs, "
                f"calls {record.cls.__qualname__ if record else 'no function'}. What the model does depends on values "
                "or on state; make it take the same way each time."
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
        """A new call, or an equal one of before: torch knows the results of an operator that it has seen."""
        known: FunctionCall | None = None
        # By their text: 0.0 and -0.0 are equal, and so are 1 and True. Of other things the text may not be all.
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
        """What a person should know of these functions."""
        for cls in dict.fromkeys(record.cls for record in self.records if record.writes):
            yield (
                f"{cls.__qualname__} writes to its arguments; the ONNX model has what it returns, and leaves its "
                "arguments as they are"
            )
        if self.inference.specialized:
            names = ", ".join(self.inference.specialized)
            yield f"the sizes of what {names} returns depend on values, and are fixed to the example's"


_PLAIN = (Placeholder, bool, int, float, str, NoneType)


class _Record:
    def __init__(self, cls: type, outputs: tuple[OutputRecord, ...], single: bool, traced: Any, writes: bool) -> None:
        self.cls = cls
        self.outputs = outputs
        self.single = single
        self.traced = traced
        self.writes = writes


class _Context:
    """The `ctx` of a `forward` that runs outside of autograd: takes everything, keeps attributes."""

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


def _has_setup(cls: Any) -> bool:
    """Whether a class has a `setup_context`, and so a `forward` without ctx."""
    return cls.setup_context is not torch.autograd.Function.setup_context
