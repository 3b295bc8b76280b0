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
from torch.utils import _pytree as pytree

from opbridge.base.locks import process_state
from opbridge.base.sources import raised_at
from opbridge.base.torch_private import torchscript_export
from opbridge.capture import Capture
from opbridge.capture.advice import advise_eager
from opbridge.capture.dynamic_shapes import Shapes
from opbridge.capture.model_inputs import described
from opbridge.capture.resolved_call import ResolvedCall
from opbridge.capture.side_effects import SideEffects
from opbridge.errors import CaptureError, UsageError
from opbridge.fit.target import Target
from opbridge.plan.data import Plan
from opbridge.request import BuildConfig
from opbridge.torchscript.converting import convert
from opbridge.torchscript.frozen import collecting
from opbridge.torchscript.interface import Flat, capture_stand_in, describe_interface
from opbridge.torchscript.recording import Recorder

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


def trace(call: ResolvedCall, building: BuildConfig, target: Target, notes: Sequence[str] = ()) -> Traced:
    """Traces a model with torch's TorchScript exporter.

    The model runs once, on the example inputs. Values of tensors that Python reads become constants; the plan has a
    note for each. Of the pinned routes, only "aten" and "fallthrough" have an effect.

    Args:
        call: The model and its example inputs, which a trace supports (`request.traceable`).
        building: How the trace becomes an ONNX model.
        target: The target, with the opset to build for.
        notes: The first notes of the plan.

    Raises:
        CaptureError: The model cannot be traced.
        UsageError: A model that fails on these inputs by itself.
    """
    start = time.perf_counter()
    assert isinstance(call.module, torch.nn.Module)  # which `refuse_untraceable` sees to
    module, args, kwargs, opset = call.module, call.args, call.kwargs, target.opset
    recorder = Recorder(
        building.registry, opset, building.routes.allow, functools.partial(_pin, building.routes.pinned)
    )
    flat = Flat(module, args, kwargs)
    with process_state:  # One trace at a time: it changes global state, Python's warnings included.
        with SideEffects(module) as effects, _unchanged(module), collecting() as frozen:
            graph = _graph(flat, call.shapes, recorder, args, kwargs)
        captured = capture_stand_in(flat, call)
    all_notes = (*notes, *frozen.notes(), *effects.notes(), *captured.notes)
    captured = dataclasses.replace(captured, model=call.reference, notes=all_notes, seconds=time.perf_counter() - start)
    inputs, names = describe_interface(captured, building, opset)
    built = convert(
        graph.graph,
        graph.weights,
        graph.functions,
        recorder,
        inputs,
        flat.returned(),
        names,
        opset,
        building.custom_opsets,
    )
    plan = Plan(recorder.rows(), opset, target.name, all_notes, allow=building.routes.allow)
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
