"""`capture="trace"`: capture, plan and translation in one step, by the TorchScript exporter."""

from __future__ import annotations

import contextlib
import dataclasses
import fnmatch
import functools
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import onnx_ir as ir
import torch
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from opbridge.base.locks import process_state
from opbridge.base.routes import ALLOWED_BY_DEFAULT
from opbridge.base.sources import raised_at
from opbridge.base.torch_private import torch_dynamic_shapes, torchscript_export
from opbridge.capture import Capture
from opbridge.capture.advice import advise_eager
from opbridge.capture.dynamic_shapes import Shapes, resolve
from opbridge.capture.model_inputs import described, example_inputs, fit_signature
from opbridge.capture.model_module import as_module
from opbridge.capture.side_effects import SideEffects
from opbridge.errors import CaptureError, UsageError
from opbridge.plan.data import Plan
from opbridge.trace.converting import convert
from opbridge.trace.frozen import collecting
from opbridge.trace.interface import Flat, capture_stand_in, describe_interface
from opbridge.trace.recording import Recorder
from opbridge.translations.registry import Registry

__all__ = ["Traced", "trace"]


@dataclass
class Traced:
    """A model that was traced.

    Attributes:
        capture: Its inputs, outputs and notes; the graph in it is that of a stand-in, not the model's.
        plan: Every operator of the trace.
        model: The ONNX model, which is valid only where the plan is ok.
    """

    capture: Capture
    plan: Plan
    model: ir.Model


def trace(
    model: Any,
    args: Any = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    registry: Registry,
    opset: int,
    target: str = "onnxruntime",
    allow: Sequence[str] = ALLOWED_BY_DEFAULT,
    routes: Mapping[str, str] | None = None,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    custom_opsets: Mapping[str, int] | None = None,
    notes: Sequence[str] = (),
) -> Traced:
    """Traces a model with torch's TorchScript exporter.

    The model runs once, on the example inputs. Values of tensors that Python reads become constants; the plan has a
    note for each.

    Args:
        model: A module, or any other callable.
        args: Positional example inputs.
        kwargs: Keyword example inputs.
        dynamic_shapes: As for `opbridge.capture.capture`.
        registry: Translations and the user's symbolic functions.
        opset: The opset to build for.
        target: The runtime that the model is for.
        allow: The allowed routes.
        routes: Operators pinned to a route; only "aten" and "fallthrough" have an effect.
        input_names: Names for the inputs.
        output_names: Names for the outputs.
        custom_opsets: The versions of domains other than ONNX's own.
        notes: The first notes of the plan.

    Raises:
        CaptureError: The model cannot be traced.
        UsageError: A model, inputs or dynamic shapes of a wrong kind, an opset that the TorchScript exporter does not
            build for, or a model that fails on these inputs by itself.
    """
    start = time.perf_counter()
    newest = torchscript_export.newest_opset()
    if opset > newest:
        raise UsageError(
            f"opset_version={opset} is not supported by capture='trace': PyTorch's TorchScript exporter, which "
            f"does the tracing, supports opset {newest} at most. Leave opset_version out, or use {newest}."
        )
    if isinstance(model, ExportedProgram):
        raise UsageError("capture='trace' is not supported for an ExportedProgram. Pass the model itself.")
    args, kwargs = example_inputs(args, kwargs)
    module = as_module(model, args, kwargs)
    fit_signature(module, args, kwargs)
    shapes = resolve(module, args, kwargs, dynamic_shapes)
    if torch_dynamic_shapes.is_shapes_spec(dynamic_shapes):
        raise UsageError(
            "ShapesSpec is not supported by capture='trace'. Give dynamic_shapes as a dict by input name, or 'auto'."
        )
    recorder = Recorder(registry, opset, allow, functools.partial(_pin, routes or {}))
    flat = Flat(module, args, kwargs)
    with process_state:  # One trace at a time: it changes global state, Python's warnings included.
        with SideEffects(module) as effects, _unchanged(module), collecting() as frozen:
            graph = _graph(flat, shapes, recorder, args, kwargs)
        captured = capture_stand_in(flat, args, kwargs, dynamic_shapes)
    all_notes = (*notes, *frozen.notes(), *effects.notes(), *captured.notes)
    reference = module if isinstance(model, torch.nn.Module) else model
    captured = dataclasses.replace(captured, model=reference, notes=all_notes, seconds=time.perf_counter() - start)
    inputs, names = describe_interface(captured, registry, opset, input_names, output_names)
    built = convert(
        graph.graph,
        graph.weights,
        graph.functions,
        recorder,
        inputs,
        flat.returned(),
        names,
        opset,
        custom_opsets or {},
    )
    plan = Plan(recorder.rows(), opset, target, all_notes, allow=tuple(allow))
    return Traced(captured, plan, built)


def _pin(routes: Mapping[str, str], name: str) -> str | None:
    """The route that `routes` pins an operator to; TorchScript has base names only."""
    return next((route for each, route in routes.items() if fnmatch.fnmatchcase(name, each.partition(".")[0])), None)


def _graph(
    flat: Flat, shapes: Shapes, recorder: Recorder, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> torchscript_export.TracedGraph:
    axes: dict[int, dict[int, str]] = {}
    for number, (_, tensor) in enumerate(flat.tensors):
        for (identity, dimension), axis in shapes.axes.items():
            if identity == id(tensor):
                axes.setdefault(number, {})[dimension] = axis.name or f"input_{number}_{dimension}"
    # Copies, since a model may write to its inputs.
    inputs = tuple(tensor.detach().clone() for _, tensor in flat.tensors)
    try:
        return torchscript_export.traced_graph(
            flat, inputs, axes, recorder.opset, recorder.find, recorder.python_operator
        )
    except Exception as error:
        failure = _eager_failure(flat, args, kwargs)
        if failure is not None:
            raise UsageError(advise_eager(failure, described(args, kwargs))) from failure
        raise CaptureError(_advice(error, recorder)) from error


def _advice(error: Exception, recorder: Recorder) -> str:
    message = " ".join(str(error).split()) or type(error).__name__
    message = message if len(message) <= 300 else f"{message[:300]} ..."
    line = raised_at(error)
    if line is not None and not recorder.recordings:
        code = f" (`{line.code}`)" if line.code else ""
        return (
            f"The model cannot be captured by a trace: at {line}, in {line.function}{code}: "
            f"{type(error).__name__}: {message.rstrip('.')}. The line runs without tracing, so it does not support "
            "traced tensors. Use torch operators, or skip the line while tracing: `if not torch.jit.is_tracing():`."
        )
    last = next((each for each in reversed(recorder.recordings) if each.source is not None), None)
    after = f" after {last.operator} at {last.source}" if last is not None else ""
    return (
        f"The model was traced, but PyTorch's TorchScript exporter failed on the trace{after}: "
        f"{type(error).__name__}: {message}. Change that part of the model, or register a symbolic function for it."
    )


def _eager_failure(flat: Flat, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Exception | None:
    args, kwargs = pytree.tree_map_only(torch.Tensor, torch.clone, (args, kwargs))
    try:
        with _unchanged(flat.model), torch.no_grad():
            flat.model(*args, **kwargs)
    except Exception as error:
        return error
    return None


@contextlib.contextmanager
def _unchanged(module: torch.nn.Module) -> Iterator[None]:
    """Restores the buffers of a model after a run."""
    buffers = [(buffer, buffer.detach().clone()) for buffer in module.buffers()]
    try:
        yield
    finally:
        with torch.no_grad():
            for buffer, before in buffers:
                if not torch.equal(buffer, before):
                    buffer.copy_(before)
