"""The capture of a model: what is known of it, the attempts, and what comes out."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from opbridge.base.torch_private import torch_tracing
from opbridge.base.wording import sentence
from opbridge.capture.advice import advise_others
from opbridge.capture.attempts import capture_by_torch_export, first_capture, keeping_functions
from opbridge.capture.autograd_functions import Functions
from opbridge.capture.cache_names import check_caches, input_names_of_caches, name_caches
from opbridge.capture.data import Capture
from opbridge.capture.dynamic_shapes import asked_dimensions, resolve
from opbridge.capture.exported_programs import (
    from_exported_program,
    inputs_of_program,
    named_sizes,
    narrow_ranges,
    without_writes,
)
from opbridge.capture.functionalize import functionalize
from opbridge.capture.limits import CaptureLimits
from opbridge.capture.model_inputs import distinct, example_inputs, fit_signature, frozen_inputs
from opbridge.capture.model_module import as_module
from opbridge.capture.one_attempt import Attempt, Captured
from opbridge.capture.size_constraints import dim_names, dim_sums, dynamic_dimensions
from opbridge.capture.tracer.triton_launches import has_launches
from opbridge.capture.training_mode import training_notes
from opbridge.errors import CaptureError
from opbridge.graph.captured_graph import CapturedGraph
from opbridge.graph.decisions import decisions_of
from opbridge.graph.open_lists import SIZES, open_lists
from opbridge.graph.operators import calls_in
from opbridge.kernels.triton import operators
from opbridge.model_support import caches, changed_sources
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
    by_torch_export: bool = False,
    limits: CaptureLimits | None = None,
    strict: bool = False,
) -> Capture:
    """Captures a model: runs it once on tensors without values, and records the operators that run.

    1. The model's own Python runs (`opbridge.capture.tracer`). Gradients are off; a model that asks for gradients
       itself gets them.
    2. With dynamic shapes, sizes 0 and 1 are sizes like others at first; where that fails, torch sets them apart. Where
       something asks whether a size is 1, a second capture tells whether that matters (`small_sizes`).
    3. torch.export where that fails and torch.export does not; a note says why.

    A torch.autograd.Function with a `symbolic` stays one operator; see `functions`. So does an operator of another
    library that has no fake implementation; see `operators`. Meanwhile `torch.onnx.is_in_onnx_export()` and
    `torch.compiler.is_exporting()` are true.

    Args:
        model: A module, any other callable, or an ExportedProgram, which is taken as it is.
        args: Positional example inputs: a tuple or list, or one tensor.
        kwargs: Keyword example inputs.
        dynamic_shapes: What torch.export takes; names in place of dimensions (`{"x": {0: "batch"}}`); or "auto".
        opset: The opset that symbolic functions are asked for, where they have to tell shapes.
        handler: The symbolic function of `prim::PythonOp`, which takes every torch.autograd.Function without one.
        thorough: Whether torch.export's strict mode is tried on a model whose Python asks for values of tensors. It
            takes long, and rarely helps.
        by_torch_export: Whether torch.export is used from the start.
        limits: How many captures a model that decides by data may take.
        strict: Whether relations between dimensions that the dynamic shapes do not state are an error; see
            `related_sizes`.

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
        if has_launches(model):
            module, sizes = model.module(), named_sizes(model, args, kwargs)
            of_module = capture(module, args, kwargs, dynamic_shapes=sizes, handler=handler, opset=opset, limits=limits)
            return dataclasses.replace(of_module, model=model, strategy="given")
        graph = from_exported_program(model)
        functional = functionalize(graph, frozenset(), functools.partial(without_writes, model))
        names, said = dim_names(graph, leaves, {}), (*frozen_inputs(graph, leaves), *functional.state_notes())
        seconds = time.perf_counter() - start
        asked = tuple(dynamic_dimensions(graph))
        return Capture(graph, functional, model, args, kwargs, "given", names, said, seconds, asked=asked)
    of_caches = check_caches(args, kwargs)
    whole: tuple[tuple[Any, ...], dict[str, Any]] = caches.of_all_tokens((args, kwargs))
    args, kwargs = whole
    if not isinstance(dynamic_shapes, torch.export.ShapesCollection):  # which knows tensors by their identity
        args, kwargs = distinct(args, kwargs)
    module = as_module(model, args, kwargs)
    fit_signature(module, args, kwargs)
    shapes = resolve(module, args, kwargs, dynamic_shapes)
    named = {axis.place: axis.name for axis in shapes.axes.values() if axis.name is not None}
    functions = Functions(handler, opset, named)
    run = Attempt(model, module, args, kwargs, shapes, functions, thorough, limits, strict=strict)
    run.limits.begin()
    with keeping_functions(run), _saying(run), torch_tracing.mute_export():
        found = capture_by_torch_export(run) if by_torch_export else first_capture(run)
    leaves = pytree.tree_leaves((args, kwargs))
    graph = found.graph
    notes = [
        *run.notes,
        *changed_sources.notes(module),
        *of_caches,
        *frozen_inputs(graph, leaves),
        *training_notes(module, graph),
    ]
    demands = run.demands(graph)
    notes += _size_notes(demands, run.is_right_for_one)
    if run.limits.is_out_of_time:
        notes.append(_left(run))
    notes += [*run.functions.notes(), *run.operators.notes(), *_list_notes(graph)]
    notes += operators.notes(dict.fromkeys(name for _, name in calls_in(graph.module)))
    _check_others(run, found)
    with torch_tracing.mute_export():
        functional = functionalize(graph, run.operators.names, found.rewrite)
    of_inputs = input_names_of_caches(module, args, kwargs)
    written = {node.name for number in of_inputs if (node := functional.graph.inputs[number].node) is not None}
    notes += functional.state_notes(written)
    for each in (graph, functional.graph):
        name_caches(each, of_inputs)
    return Capture(
        graph,
        functional,
        module if isinstance(model, torch.nn.Module) else model,
        args,
        kwargs,
        run.strategy,
        dim_names(graph, leaves, run.shapes.axes),
        tuple(notes),
        time.perf_counter() - start,
        tuple(run.functions.calls),
        tuple(sorted(run.functions.read_inputs)),
        run.operators.names,
        tuple(asked_dimensions(run.shapes, leaves)),
        tuple((text, str(source or "")) for text, source in demands),
        () if run.raising is None else (*decisions_of(functional.graph.module), *run.raising),
        dim_sums(graph, leaves, run.shapes.axes),
    )


@contextlib.contextmanager
def _saying(attempt: Attempt) -> Iterator[None]:
    """Within this context, an error says what may have led to it.

    That is a time limit that has left captures out, and what is to be said of the packages that the model uses.
    """
    try:
        yield
    except CaptureError as error:
        said = [*changed_sources.notes(attempt.module)]
        if attempt.limits.is_out_of_time and "max_capture_seconds" not in str(error):
            said.append(_left(attempt))
        if said:
            raise CaptureError("\n".join([str(error), *(f"{sentence(each)}." for each in said)])) from error.__cause__
        raise


def _left(attempt: Attempt) -> str:
    return (
        f"the time limit of {attempt.limits.seconds:g} s (max_capture_seconds) was reached before all captures were "
        "tried that may support more sizes or branches"
    )


def _size_notes(demands: list[Any], is_right_for_one: bool) -> Iterator[str]:
    """The conditions for a person."""
    if demands:
        told = [f"{text} ({source})" if source else text for text, source in demands[:_MOST_CONDITIONS]]
        if len(demands) > len(told):
            told.append(f"{len(demands) - len(told)} more conditions")
        others = "verified also with a size of 1" if is_right_for_one else ""
        yield (f"the file is valid only for {', '.join(told)}; {others or 'other sizes are not covered'}")


def _list_notes(graph: CapturedGraph) -> Iterator[str]:
    """Which outputs are lists in the model."""
    for name, dim in open_lists(graph.structure).items():
        if dim is None:
            yield f"the output '{name}' has one row for each element of a list whose length depends on the inputs"
        else:
            yield (
                f"the output '{name}' contains a list of tensors whose length depends on the inputs, concatenated "
                f"along dimension {dim}; '{name}.{SIZES}' contains their sizes in that dimension"
            )


def _check_others(attempt: Attempt, found: Captured) -> None:
    """Refuses a capture that does not take the further inputs that the user gave."""
    verify = attempt.shapes.verify
    if verify is not None and found.program is not None:
        narrow_ranges(found.program, found.graph)
        try:
            verify(found.program)
        except Exception as error:
            raise CaptureError(advise_others(error, attempt.demands(found.graph))) from error
