"""Captures a model with torch.export: the attempts that are made, and what is known after them."""

from __future__ import annotations

import contextlib
import functools
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from opbridge.base.sources import raised_at
from opbridge.base.torch_private import torch_sizes, torch_tracing
from opbridge.capture import fake_implementations, model_module
from opbridge.capture.advice import (
    advise,
    advise_eager,
    advise_others,
    advise_shapes,
    is_data_dependent,
    is_final,
    is_shape_violation,
    model_line,
    reason,
)
from opbridge.capture.autograd_functions import Functions
from opbridge.capture.data import Capture
from opbridge.capture.dynamic_shapes import Shapes, resolve
from opbridge.capture.exported_programs import (
    from_exported_program,
    inputs_of_program,
    narrow_ranges,
    without_writes,
)
from opbridge.capture.functionalize import functionalize
from opbridge.capture.model_inputs import (
    described,
    distinct,
    example_inputs,
    fit_signature,
    frozen_inputs,
)
from opbridge.capture.model_module import as_module
from opbridge.capture.opaque_operators import Operators
from opbridge.capture.side_effects import SideEffects
from opbridge.capture.size_constraints import constrain_sizes, dim_names
from opbridge.capture.training_mode import evaluating, training_notes
from opbridge.errors import CaptureError, UsageError
from opbridge.graph.captured_graph import CapturedGraph
from opbridge.onnx import opsets

__all__ = ["capture"]

_MOST_CONDITIONS = 5


def capture(
    model: Any,
    args: Any = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    opset: int = opsets.OLDEST,
    handler: Callable[..., Any] | None = None,
    thorough: bool = True,
) -> Capture:
    """Captures a model with torch.export.

    1. Non-strict: the model's own Python runs, on tensors without values. Gradients are off, which keeps
       `torch.no_grad()` inside the model out of the graph; a model that asks for gradients itself gets them.
    2. With dynamic shapes, sizes 0 and 1 are sizes like others at first; where that fails, torch sets them apart.
    3. Strict (TorchDynamo) where that fails and the model itself runs; a note says why.

    A torch.autograd.Function with a `symbolic` stays one operator; see `functions`. So does an operator of another
    library that has no fake implementation; see `operators`. Meanwhile `torch.onnx.is_in_onnx_export()` is true.

    Args:
        model: A module, any other callable, or an ExportedProgram, which is taken as it is.
        args: Positional example inputs: a tuple or list, or one tensor.
        kwargs: Keyword example inputs.
        dynamic_shapes: What torch.export takes; names in place of dimensions (`{"x": {0: "batch"}}`); or "auto".
        opset: The opset that symbolic functions are asked for, where they have to tell shapes.
        handler: The symbolic function of `prim::PythonOp`, which takes every torch.autograd.Function without one.
        thorough: Whether the strict mode is tried on a model whose Python asks for values of tensors. It takes long,
            and rarely helps.

    Raises:
        CaptureError: The model cannot be captured, or not as a functional graph; the message names its line and what
            to write instead, and torch's error is the cause.
        UsageError: A model, inputs or dynamic shapes of a wrong kind, or a model that fails on these inputs by itself.
    """
    start = time.perf_counter()
    args, kwargs = example_inputs(args, kwargs)
    if isinstance(model, ExportedProgram):
        args, kwargs = inputs_of_program(model, args, kwargs, dynamic_shapes)
        leaves = pytree.tree_leaves((args, kwargs))
        graph = from_exported_program(model)
        functional = functionalize(graph, frozenset(), functools.partial(without_writes, model))
        names, said = dim_names(graph, leaves, {}), (*frozen_inputs(graph, leaves), *functional.state_notes())
        return Capture(graph, functional, model, args, kwargs, "given", names, said, time.perf_counter() - start)
    if not isinstance(dynamic_shapes, torch.export.ShapesCollection):  # which knows tensors by their identity
        args, kwargs = distinct(args, kwargs)
    module = as_module(model, args, kwargs)
    fit_signature(module, args, kwargs)
    shapes = resolve(module, args, kwargs, dynamic_shapes)
    named = {axis.place: axis.name for axis in shapes.axes.values() if axis.name is not None}
    run = _Attempts(model, module, args, kwargs, shapes, Functions(handler, opset, named), thorough)
    with run.keeping_functions():
        program = run.program()
    leaves = pytree.tree_leaves((args, kwargs))
    graph = from_exported_program(program)
    notes = [*run.notes, *frozen_inputs(graph, leaves), *training_notes(module, graph), *run.size_notes(graph)]
    notes += [*run.functions.notes(), *run.operators.notes()]
    run.check_others(program, graph)
    functional = functionalize(graph, run.operators.names, functools.partial(without_writes, program))
    notes += functional.state_notes()
    names = dim_names(graph, leaves, run.shapes.axes)
    reference = module if isinstance(model, torch.nn.Module) else model
    seconds = time.perf_counter() - start
    calls, read = tuple(run.functions.calls), tuple(sorted(run.functions.read_inputs))
    whole = run.operators.names
    return Capture(
        graph, functional, reference, args, kwargs, run.strategy, names, tuple(notes), seconds, calls, read, whole
    )


class _Attempts:
    """The attempts at one capture, and what is known after them.

    Attributes:
        dynamic: Whether some dimensions may vary.
        general: Whether sizes 0 and 1 are treated like other sizes; torch makes them special by default.
        unchecked: Whether torch's checks of its own fake implementations are off.
        grad: Whether gradients are on.
        strategy: The mode of torch.export: "non-strict" or "strict".
        notes: What a person should know.
    """

    def __init__(
        self,
        model: Any,
        module: torch.nn.Module,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        shapes: Shapes,
        functions: Functions,
        thorough: bool = True,
    ) -> None:
        self.model = model
        self.module = module
        self.args = args
        self.kwargs = kwargs
        self.shapes = shapes
        self.functions = functions
        self.operators = Operators(functions.is_suspended)
        self.thorough = thorough
        self.dynamic = shapes.given is not None
        self.general = self.dynamic
        self.unchecked = False
        self.grad = False
        self.strategy = "non-strict"
        self.notes: list[str] = []

    def program(self) -> ExportedProgram:
        """The first attempt that succeeds; else the advice."""
        try:
            return self._default()
        except CaptureError as error:
            # Ours, from inside of torch.export: without the way that it took there.
            line = raised_at(error)
            raise CaptureError(f"{error} (at {line})" if line else str(error)) from error.__cause__
        except Exception as error:
            if str(error).startswith("Unsupported input type"):
                kind = str(error).partition("'")[2].partition("'")[0]
                raise UsageError(
                    f"Among the inputs is a {kind}, which torch.export does not take. Give tensors, numbers, strings "
                    "and None, in tuples, lists, dicts and dataclasses."
                ) from error
            if self.operators.failure is not None:  # met in a function of TorchScript's
                raise CaptureError(str(self.operators.failure)) from error
            return self._strict(error)

    def size_notes(self, graph: CapturedGraph) -> Iterator[str]:
        """Which sizes the capture is for, where these are not all that the dynamic shapes allow."""
        demands = self._demands(graph)
        if demands:
            told = [f"{text} ({source})" if source else text for text, source in demands[:_MOST_CONDITIONS]]
            if len(demands) > len(told):
                told.append(f"{len(demands) - len(told)} more conditions hold")
            yield f"the capture is the model only where {', '.join(told)}; other sizes are not covered"

    def check_others(self, program: ExportedProgram, graph: CapturedGraph) -> None:
        """Refuses a capture that does not take the further inputs that the user gave."""
        if self.shapes.verify is not None:
            narrow_ranges(program, graph)
            try:
                self.shapes.verify(program)
            except Exception as error:
                raise CaptureError(advise_others(error, self._demands(graph))) from error

    @contextlib.contextmanager
    def keeping_functions(self) -> Iterator[None]:
        """Around the attempts: classes of torch.autograd.Function that have a `symbolic` stay whole.

        Raises:
            CaptureError: Such a class was defined while the model ran.
        """
        functions = self.functions
        with contextlib.ExitStack() as stack:
            if functions.classes:
                stack.enter_context(functions.whole())
                hook = self.module.register_forward_pre_hook(functions.start_run)
                stack.callback(hook.remove)
            yield
        traced_through = functions.traced_through()
        if traced_through:
            raise CaptureError(
                f"The class {traced_through[0].__qualname__}, whose symbolic is to be used, is defined while the model "
                "runs, and was traced through. Define it at the top of its module."
            )

    def _run_eagerly(self) -> None:
        """Runs the model itself, to see what such classes and operators return.

        Raises:
            UsageError: It fails.
        """
        with SideEffects(self.module), torch.random.fork_rng(devices=[]), self.functions.recording():
            with self.operators.recording():
                failure = self._eager_failure()
            if failure is not None and "does not require grad" in str(failure):
                grad, self.grad, self.functions.records = self.grad, True, []
                with self.operators.recording():
                    failure = self._eager_failure()
                self.grad = grad  # the capture finds that out too
        if failure is not None:
            raise UsageError(advise_eager(failure, described(self.args, self.kwargs))) from failure

    def _default(self) -> ExportedProgram:
        with SideEffects(self.module) as effects:
            try:
                program = self._after_eager_run_if_needed()
            except Exception:  # torch.export raises what the model does
                if not (self.functions.inference.unknown or self.operators.unknown):
                    raise
                # The model does not do with sizes that are known only at run time.
                self.functions.use_example_sizes()
                self.operators.use_example_sizes()
                program = self._with_special_sizes_if_needed()
        self.notes += effects.notes()
        return program

    @property
    def needs_eager_run(self) -> bool:
        """Whether the capture needs to know first what the model's own run does."""
        return self.functions.unrecorded or self.operators.unrecorded

    def _after_eager_run_if_needed(self) -> ExportedProgram:
        """The capture; before it the model itself is run, where it calls classes or operators that stay whole."""
        if self.functions.may_call_one(self.model) and not self.functions.records:
            self._run_eagerly()
        try:
            return self._retried_after_eager_run()
        except UsageError:
            raise
        except Exception:
            if not self.operators.has_traced_operators():
                raise
            if self.operators.calls is None:
                self._run_eagerly()
            if not self.operators.has_traced_operators():
                raise
        self.operators.keep_all_whole()
        return self._retried_after_eager_run()

    def _retried_after_eager_run(self) -> ExportedProgram:
        try:
            return self._with_special_sizes_if_needed()
        except Exception:
            if not self.needs_eager_run:
                raise
        self._run_eagerly()
        return self._with_special_sizes_if_needed()

    def _with_special_sizes_if_needed(self) -> ExportedProgram:
        try:
            return self._export()
        except Exception as error:
            first = error
        if self.needs_eager_run:
            raise first
        if fake_implementations.is_raised_by_check(first) and not self.unchecked:
            self.unchecked = True
            return self._with_special_sizes_if_needed()
        if "does not require grad" in str(first):
            self.grad = True
            self.notes.append("the model computes gradients, so it was captured with gradients on")
            return self._export()
        if not self.dynamic or is_data_dependent(first):
            raise first
        self.general = False
        try:
            return self._export()
        except Exception as error:
            # torch fixes small sizes of its own accord here; what it then says is not the model's doing.
            raise (first if self.shapes.has_small_sizes else error) from None

    def _strict(self, error: Exception) -> ExportedProgram:
        if is_shape_violation(error):
            raise CaptureError(advise_shapes(error, self._violated())) from error
        with (
            SideEffects(self.module) as effects,
            self.functions.suspended(),
        ):  # strict mode gives no chance to observe them
            failure = self._eager_failure()
        if failure is not None:
            raise UsageError(advise_eager(failure, described(self.args, self.kwargs))) from failure
        futile = is_data_dependent(error) and not self.thorough
        # The strict mode would trace through the functions, and does not get what the operators return.
        if is_final(error) or futile or self.functions.records or self.operators.calls:
            raise CaptureError(advise(error)) from error
        self.general, self.strategy = self.dynamic, "strict"
        try:
            program = self._export()
        except Exception:
            mode = is_data_dependent(error) and self._is_the_mode()
            raise CaptureError(advise(error, mode=mode)) from error
        self.notes.append(f"captured with torch.export's strict mode, as its default mode stops: {reason(error)}")
        self.notes += effects.notes()
        return program

    def _export(self, shapes: Any = None) -> ExportedProgram:
        # The name of this function marks where the model's frames begin: see `model_line`.
        with (
            torch.set_grad_enabled(self.grad),
            torch_sizes.small_sizes_dynamic(self.general),
            fake_implementations.replacing_fake_implementations(),
            self.operators.whole() if self.strategy != "strict" else contextlib.nullcontext(),
            fake_implementations.without_checks(self.unchecked),
            torch_sizes.recording_guard_stacks(model_line) if self.dynamic else contextlib.nullcontext(),
            torch_tracing.keep_model_frames(__file__, model_module.__file__),
            torch_tracing.in_onnx_export(),
            torch_tracing.mute_export(),
            warnings.catch_warnings(),
        ):
            warnings.filterwarnings("ignore", message="The tensor attribute")  # said by a note of ours
            warnings.filterwarnings("ignore", module=r"torch\._dynamo")  # about how it traces
            return torch.export.export(
                self.module,
                self.args,
                self.kwargs,
                dynamic_shapes=self.shapes.given if shapes is None else shapes,
                strict=self.strategy == "strict",
            )

    def _demands(self, graph: CapturedGraph, *, checked: bool = True) -> list[Any]:
        if not self.shapes.axes:
            return []
        leaves = pytree.tree_leaves((self.args, self.kwargs))
        return constrain_sizes(graph, leaves, self.shapes.axes, 1 if self.general else 2, checked=checked)

    def _violated(self) -> list[Any]:
        """What the model needs of its sizes, found by leaving every dimension to torch."""
        if self.shapes.relaxed is None:
            return []
        self.general = True  # says it in the fewest conditions
        try:
            return self._demands(from_exported_program(self._export(self.shapes.relaxed)), checked=False)
        except Exception:
            return []

    def _is_the_mode(self) -> bool:
        """Whether the model would do in evaluation mode."""
        if not self.module.training:
            return False
        self.strategy = "non-strict"
        try:
            with evaluating(self.module), SideEffects(self.module):
                self._export()
        except Exception:
            return False
        return True

    def _eager_failure(self) -> Exception | None:
        """What the model raises without an export, on copies of its inputs and buffers."""
        args, kwargs = pytree.tree_map_only(torch.Tensor, torch.clone, (self.args, self.kwargs))
        self.functions.note_inputs(pytree.tree_leaves((args, kwargs)))
        buffers = {name: buffer.clone() for name, buffer in self.module.named_buffers()}
        try:
            with torch.set_grad_enabled(self.grad), torch_tracing.in_onnx_export(self.functions.recording_now):
                torch.func.functional_call(self.module, buffers, args, kwargs)
        except Exception as error:
            return error
        return None
