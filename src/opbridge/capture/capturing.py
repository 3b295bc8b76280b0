"""The capture of a model: what is known of it, the strategies, and what comes out."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from opbridge.base.sources import Source
from opbridge.base.torch_private import torch_tracing
from opbridge.base.wording import sentence
from opbridge.capture.advice import advise_others
from opbridge.capture.autograd_functions import Functions
from opbridge.capture.cache_names import input_names_of_caches, name_caches
from opbridge.capture.captured import Captured
from opbridge.capture.config import CaptureConfig
from opbridge.capture.data import Capture
from opbridge.capture.dynamic_shapes import asked_dimensions
from opbridge.capture.exported_programs import (
    from_exported_program,
    named_sizes,
    narrow_ranges,
    without_writes,
)
from opbridge.capture.functionalize import functionalize
from opbridge.capture.model_inputs import frozen_inputs
from opbridge.capture.one_capture import demands
from opbridge.capture.resolved_call import ResolvedCall, resolved_call
from opbridge.capture.session import CaptureSession
from opbridge.capture.size_constraints import dim_names, dim_sums, dynamic_dimensions
from opbridge.capture.strategies import run_strategies
from opbridge.capture.tracer.triton_launches import has_launches
from opbridge.capture.training_mode import training_notes
from opbridge.errors import CaptureError
from opbridge.graph.captured_graph import CapturedGraph
from opbridge.graph.decisions import decisions_of
from opbridge.graph.open_lists import ROWS, SIZES, open_lists
from opbridge.graph.operators import calls_in
from opbridge.kernels.triton import operators
from opbridge.model_support import applying, changed_sources

__all__ = ["capture", "capture_call"]

_DEFAULT = CaptureConfig()
_MOST_CONDITIONS = 5


def capture(
    model: Any,
    args: Any = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    config: CaptureConfig = _DEFAULT,
) -> Capture:
    """Captures a model on example inputs; the arguments are those of `resolved_call`.

    Raises:
        CaptureError, UsageError: As `resolved_call` and `capture_call` do.
    """
    return capture_call(resolved_call(model, args, kwargs, dynamic_shapes), config)


def capture_call(
    call: ResolvedCall, config: CaptureConfig = _DEFAULT, tell: Callable[[str], None] = lambda text: None
) -> Capture:
    """Captures a model: runs it once on tensors without values, and records the operators that run.

    1. The model's own Python runs (`opbridge.capture.tracer`). Gradients are off; a model that asks for gradients
       itself gets them.
    2. With dynamic shapes, sizes 0 and 1 are sizes like others at first; where that fails, torch sets them apart. Where
       something asks whether a size is 1, a second capture tells whether that matters (`zero_one_specialization`).
    3. torch.export where that fails and torch.export does not; a note says why.

    A torch.autograd.Function with a `symbolic` stays one operator; see `functions`. So does an operator of another
    library that has no fake implementation; see `operators`. Meanwhile `torch.onnx.is_in_onnx_export()` and
    `torch.compiler.is_exporting()` are true.

    Args:
        call: The model and its example inputs.
        config: How it is captured.
        tell: Called with what is done now.

    Raises:
        CaptureError: The model cannot be captured, or not as a functional graph; the message names its line and what
            to write instead, and torch's error is the cause.
        UsageError: A model that fails on these inputs by itself.
    """
    start = time.perf_counter()
    if isinstance(call.module, ExportedProgram):
        return _of_program(call, call.module, config, tell, start)
    module, args, kwargs = call.module, call.args, call.kwargs
    named = {axis.place: axis.name for axis in call.shapes.axes.values() if axis.name is not None}
    functions = Functions(config.handler, config.opset, named)
    session = CaptureSession(call, module, config, functions, config.limits(tell))
    session.limits.begin()
    with functions.kept_whole(module), _saying(session), applying.noting() as noted, torch_tracing.mute_logs():
        try:
            found, tried = run_strategies(session)
        except CaptureError as error:
            if not session.unrolled:
                raise
            raise CaptureError(
                " ".join([str(error), *(sentence(_unrolled(each)) for each in session.unrolled)])
            ) from error
    leaves = pytree.tree_leaves((args, kwargs))
    graph, shapes = found.graph, found.assumptions.shapes
    no_loop = found.no_loop and f"the loop over a dynamic size is unrolled as in the example: {found.no_loop}"
    notes = [
        *found.notes,
        *([no_loop] if no_loop else ()),
        *changed_sources.notes(module),
        *noted,
        *call.notes,
        *frozen_inputs(graph, leaves),
        *training_notes(module, graph),
    ]
    needed = demands(session, found)
    notes += _size_notes(needed, found.other_sizes.is_right_for_one)
    notes += map(_unrolled, session.unrolled)
    if session.limits.is_out_of_time:
        notes.append(_left(session))
    notes += [*functions.notes(), *session.operators.notes(), *_list_notes(graph)]
    notes += operators.notes(dict.fromkeys(name for _, name in calls_in(graph.module)))
    _check_others(session, found)
    with torch_tracing.mute_logs():
        functional = functionalize(graph, session.operators.names, found.rewrite)
    of_inputs = input_names_of_caches(module, args, kwargs)
    written = {node.name for number in of_inputs if (node := functional.graph.inputs[number].node) is not None}
    notes += functional.state_notes(written)
    for each in (graph, functional.graph):
        name_caches(each, of_inputs)
    return Capture(
        graph,
        functional,
        call.reference,
        args,
        kwargs,
        found.assumptions.mode,
        dim_names(graph, leaves, shapes.axes),
        tuple(notes),
        time.perf_counter() - start,
        tuple(functions.calls),
        tuple(sorted(functions.own_run.read_inputs)),
        session.operators.names,
        tuple(asked_dimensions(shapes, leaves)),
        tuple((text, str(source or "")) for text, source in needed),
        () if found.raising is None else (*decisions_of(functional.graph.module), *found.raising),
        dim_sums(graph, leaves, shapes.axes),
        tried,
        no_loop,
    )


def _of_program(
    call: ResolvedCall, program: ExportedProgram, config: CaptureConfig, tell: Callable[[str], None], start: float
) -> Capture:
    """The capture of an ExportedProgram: its own graph, or one of its module where that launches Triton kernels."""
    args, kwargs = call.args, call.kwargs
    leaves = pytree.tree_leaves((args, kwargs))
    if has_launches(program):
        of_module = resolved_call(program.module(), args, kwargs, named_sizes(program, args, kwargs))
        direct = dataclasses.replace(config, method="export", strict=False)
        return dataclasses.replace(capture_call(of_module, direct, tell), model=program, mode="given")
    graph = from_exported_program(program)
    functional = functionalize(graph, frozenset(), functools.partial(without_writes, program))
    names, said = dim_names(graph, leaves, {}), (*frozen_inputs(graph, leaves), *functional.state_notes())
    seconds = time.perf_counter() - start
    asked = tuple(dynamic_dimensions(graph))
    return Capture(graph, functional, program, args, kwargs, "given", names, said, seconds, asked=asked)


@contextlib.contextmanager
def _saying(session: CaptureSession) -> Iterator[None]:
    """Within this context, an error says what may have led to it.

    That is a time limit that has left captures out, and what is to be said of the packages that the model uses.
    """
    try:
        yield
    except CaptureError as error:
        said = [*changed_sources.notes(session.module)]
        if session.limits.is_out_of_time and "max_capture_seconds" not in str(error):
            said.append(_left(session))
        if said:
            raise CaptureError("\n".join([str(error), *(f"{sentence(each)}." for each in said)])) from error.__cause__
        raise


def _left(session: CaptureSession) -> str:
    return (
        f"the time limit of {session.limits.seconds:g} s (max_capture_seconds) was reached before all captures were "
        "tried that may support more sizes or branches"
    )


def _size_notes(needed: list[Any], is_right_for_one: bool) -> Iterator[str]:
    """The conditions for a person."""
    if needed:
        told = [f"{text} ({source})" if source else text for text, source in needed[:_MOST_CONDITIONS]]
        if len(needed) > len(told):
            told.append(f"{len(needed) - len(told)} more conditions")
        others = "verified also with a size of 1" if is_right_for_one else ""
        yield (f"the file is valid only for {', '.join(told)}; {others or 'other sizes are not covered'}")


def _unrolled(comprehension: Source) -> str:
    """What is said of a comprehension that has the iterations of the example."""
    return (
        f"the comprehension at {comprehension} is unrolled for the sizes of the example, because the source of its "
        "function was not found; write it as a loop that appends to a list"
    )


def _list_notes(graph: CapturedGraph) -> Iterator[str]:
    """Which outputs are lists in the model."""
    for name, dim in open_lists(graph.structure).items():
        if dim == ROWS:
            yield (
                f"the output '{name}' is a list of containers whose length depends on the inputs: what they hold at "
                "each of their keys is an output, with the values of all elements"
            )
        elif dim is None:
            yield f"the output '{name}' has one row for each element of a list whose length depends on the inputs"
        else:
            yield (
                f"the output '{name}' contains a list of tensors whose length depends on the inputs, concatenated "
                f"along dimension {dim}; '{name}.{SIZES}' contains their sizes in that dimension"
            )


def _check_others(session: CaptureSession, found: Captured) -> None:
    """Refuses a capture that does not take the further inputs that the user gave."""
    verify = found.assumptions.shapes.verify
    if verify is not None and found.program is not None:
        narrow_ranges(found.program, found.graph)
        try:
            verify(found.program)
        except Exception as error:
            raise CaptureError(advise_others(error, demands(session, found))) from error
