"""A model and example inputs -> Capture: its graph of operators, each with its source line."""

from __future__ import annotations

import contextlib
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from opbridge import _torch
from opbridge.capture import wrapping
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
from opbridge.capture.shapes import Shapes, resolve
from opbridge.capture.sizes import dim_names, settle_sizes
from opbridge.capture.wrapping import (
    Watch,
    as_module,
    described,
    evaluating,
    example_inputs,
    fit_signature,
    frozen_inputs,
    inputs_of_program,
    training_notes,
)
from opbridge.errors import CaptureError, UsageError

__all__ = ["Capture", "capture"]

_MOST_CONDITIONS = 5


@dataclass
class Capture:
    """A model as a graph of operators.

    Attributes:
        exported_program: As torch.export gave it: not functional, in the training form. Its ranges leave out sizes that
            it does not cover.
        model: The user's module (without what torch.compile put around it) or function, for comparison; None where an
            ExportedProgram was given.
        args: The positional example inputs.
        kwargs: The keyword example inputs.
        strategy: "non-strict", "strict", or "given" for an ExportedProgram.
        dim_names: torch's symbols ("s77") and what their dimensions are called in the ONNX file ("batch").
        notes: What a person should know: a fallback that was needed, values that were frozen, sizes that are excluded.
        seconds: How long it took.
    """

    exported_program: ExportedProgram
    model: Callable[..., Any] | None
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    strategy: str
    dim_names: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    seconds: float = 0.0


def capture(
    model: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None, *, dynamic_shapes: Any = None
) -> Capture:
    """Captures a model with torch.export.

    1. Non-strict: the model's own Python runs, on tensors without values. Gradients are off, which keeps
       `torch.no_grad()` inside the model out of the graph; a model that asks for gradients itself gets them.
    2. With dynamic shapes, sizes 0 and 1 are sizes like others at first; where that fails, torch sets them apart.
    3. Strict (TorchDynamo) where that fails and the model itself runs; a note says why.

    Args:
        model: A module, any other callable, or an ExportedProgram, which is taken as it is.
        args: Positional example inputs: a tuple or list, or one tensor.
        kwargs: Keyword example inputs.
        dynamic_shapes: What torch.export takes; names in place of dimensions (`{"x": {0: "batch"}}`); or "auto".

    Raises:
        CaptureError: The model cannot be captured; the message names its line and what to write instead, and torch's
            error is the cause.
        UsageError: A model, inputs or dynamic shapes of a wrong kind, or a model that fails on these inputs by itself.
    """
    start = time.perf_counter()
    args, kwargs = example_inputs(args, kwargs)
    if isinstance(model, ExportedProgram):
        args, kwargs = inputs_of_program(model, args, kwargs, dynamic_shapes)
        leaves = pytree.tree_leaves((args, kwargs))
        names, notes = dim_names(model, leaves, {}), [*frozen_inputs(model, leaves)]
        return Capture(model, None, args, kwargs, "given", names, tuple(notes), time.perf_counter() - start)
    module = as_module(model, args, kwargs)
    fit_signature(module, args, kwargs)
    run = _Run(module, args, kwargs, resolve(module, args, kwargs, dynamic_shapes))
    program = run.program()
    leaves = pytree.tree_leaves((args, kwargs))
    notes = [*run.notes, *frozen_inputs(program, leaves), *training_notes(module, program), *run.size_notes(program)]
    run.check_others(program)
    names = dim_names(program, leaves, run.shapes.axes)
    reference = module if isinstance(model, torch.nn.Module) else model
    return Capture(program, reference, args, kwargs, run.strategy, names, tuple(notes), time.perf_counter() - start)


class _Run:
    """The attempts at one capture, and what is known after them."""

    def __init__(self, module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], shapes: Shapes) -> None:
        self.module = module
        self.args = args
        self.kwargs = kwargs
        self.shapes = shapes
        self.dynamic = shapes.given is not None
        self.general = self.dynamic
        self.grad = False
        self.strategy = "non-strict"
        self.notes: list[str] = []

    def program(self) -> ExportedProgram:
        """The first attempt that succeeds; else the advice."""
        try:
            return self._default()
        except Exception as error:
            if str(error).startswith("Unsupported input type"):
                kind = str(error).partition("'")[2].partition("'")[0]
                raise UsageError(
                    f"Among the inputs is a {kind}, which torch.export does not take. Give tensors, numbers, strings "
                    "and None, in tuples, lists, dicts and dataclasses."
                ) from error
            return self._strict(error)

    def size_notes(self, program: ExportedProgram) -> Iterator[str]:
        """Which sizes the capture is for, where these are not all that the dynamic shapes allow."""
        demands = self._demands(program)
        if demands:
            told = [f"{text} ({source})" if source else text for text, source in demands[:_MOST_CONDITIONS]]
            if len(demands) > len(told):
                told.append(f"{len(demands) - len(told)} more conditions hold")
            yield f"the capture is the model only where {', '.join(told)}; other sizes are not covered"

    def check_others(self, program: ExportedProgram) -> None:
        """Refuses a capture that does not take the further inputs that the user gave."""
        if self.shapes.verify is not None:
            try:
                self.shapes.verify(program)
            except Exception as error:
                raise CaptureError(advise_others(error, self._demands(program))) from error

    def _default(self) -> ExportedProgram:
        with Watch(self.module) as watch:
            program = self._twice()
        self.notes += watch.notes()
        return program

    def _twice(self) -> ExportedProgram:
        try:
            return self._export()
        except Exception as error:
            first = error
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
        with Watch(self.module) as watch:  # the strict mode leaves no chance to
            failure = self._eager_failure()
        if failure is not None:
            raise UsageError(advise_eager(failure, described(self.args, self.kwargs))) from failure
        if is_final(error):
            raise CaptureError(advise(error)) from error
        self.general, self.strategy = self.dynamic, "strict"
        try:
            program = self._export()
        except Exception:
            mode = is_data_dependent(error) and self._is_the_mode()
            raise CaptureError(advise(error, mode=mode)) from error
        self.notes.append(f"captured with torch.export's strict mode, as its default mode stops: {reason(error)}")
        self.notes += watch.notes()
        return program

    def _export(self, shapes: Any = None) -> ExportedProgram:
        # The name of this function marks where the model's frames begin: see `model_line`.
        with (
            torch.set_grad_enabled(self.grad),
            _torch.general_sizes(self.general),
            _torch.ascribe_guards(model_line) if self.dynamic else contextlib.nullcontext(),
            _torch.keep_model_frames(__file__, wrapping.__file__),
            _torch.mute_export(),
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

    def _demands(self, program: ExportedProgram, *, checked: bool = True) -> list[Any]:
        if not self.shapes.axes:
            return []
        leaves = pytree.tree_leaves((self.args, self.kwargs))
        return settle_sizes(program, leaves, self.shapes.axes, 1 if self.general else 2, checked=checked)

    def _violated(self) -> list[Any]:
        """What the model needs of its sizes, found by leaving every dimension to torch."""
        if self.shapes.relaxed is None:
            return []
        self.general = True  # says it in the fewest conditions
        try:
            return self._demands(self._export(self.shapes.relaxed), checked=False)
        except Exception:
            return []

    def _is_the_mode(self) -> bool:
        """Whether the model would do in evaluation mode."""
        if not self.module.training:
            return False
        self.strategy = "non-strict"
        try:
            with evaluating(self.module), Watch(self.module):
                self._export()
        except Exception:
            return False
        return True

    def _eager_failure(self) -> Exception | None:
        """What the model raises without an export, on copies of its inputs and buffers."""
        args, kwargs = pytree.tree_map_only(torch.Tensor, torch.clone, (self.args, self.kwargs))
        buffers = {name: buffer.clone() for name, buffer in self.module.named_buffers()}
        try:
            with torch.set_grad_enabled(self.grad):
                torch.func.functional_call(self.module, buffers, args, kwargs)
        except Exception as error:
            return error
        return None
