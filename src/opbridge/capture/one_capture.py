"""One execution of the model under given assumptions, and the graph that it gives."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch.export import ExportedProgram

from opbridge.base.dropped_prints import dropping_prints
from opbridge.base.torch_private import torch_shape_env, torch_size_arithmetic, torch_sizes, torch_tracing
from opbridge.capture import fake_implementations, fixed_sizes, model_module
from opbridge.capture.advice import model_line
from opbridge.capture.assumptions import Assumptions
from opbridge.capture.captured import Captured, SizesContradicted
from opbridge.capture.control_flow.branch_oracle import BranchOracle
from opbridge.capture.control_flow.lowering import CFGLowering
from opbridge.capture.exported_programs import from_exported_program, without_writes
from opbridge.capture.model_state import ModelState
from opbridge.capture.session import CaptureSession
from opbridge.capture.size_constraints import constrain_sizes, contradictions
from opbridge.capture.tracer import rewritten, trace
from opbridge.capture.tracer.ends_of_parts import asking_for_ends
from opbridge.capture.tracer.symbolic_loops import watching_unrolled_loops
from opbridge.capture.tracer.triton_launches import has_launches
from opbridge.errors import CaptureError
from opbridge.graph.captured_graph import CapturedGraph

__all__ = ["capture_once", "demands"]


def capture_once(
    session: CaptureSession,
    assumptions: Assumptions,
    *,
    dynamic: frozenset[str] = frozenset(),
    expected: CapturedGraph | None = None,
    is_compared: bool = True,
) -> Captured:
    """The graph under some assumptions.

    The name of this function marks where the model's frames begin: see `model_line`.

    Args:
        session: The model.
        assumptions: What its execution assumes.
        dynamic: Places of sizes that are never fixed; see `trace`.
        expected: A graph that this one is compared with; see `trace`.
        is_compared: Whether the sizes that the capture is for are compared with those that were asked for.

    Raises:
        SizesContradicted: The capture is for fewer sizes than were asked for.
        OutOfTime: The time limit is reached.
        Exception: Whatever the model or torch raises.
    """
    purpose = assumptions.purpose if is_compared else "other sizes, for the other branch of a condition on sizes"
    # The paths of a model are limited where they are explored, and what is made of them is never given up.
    session.limits.begin_one(purpose, is_limited=assumptions.execution is None)
    session.begin_execution()
    with (
        dropping_prints(session.limits.is_again),
        torch.set_grad_enabled(assumptions.gradients != "off"),
        torch_sizes.small_sizes_dynamic(assumptions.is_general),
        fake_implementations.replacing_fake_implementations(),
        session.operators.whole() if assumptions.mode != "strict" else contextlib.nullcontext(),
        fake_implementations.without_checks(assumptions.is_unchecked),
        asking_for_ends(assumptions.asks_for_ends),
        torch_shape_env.recording_guard_stacks(model_line) if assumptions.is_dynamic else contextlib.nullcontext(),
        torch_size_arithmetic.dividing_sizes_directly() if assumptions.is_dynamic else contextlib.nullcontext(),
        torch_size_arithmetic.rounding_quotients_to_integers(),
        torch_tracing.in_onnx_export(),
    ):
        if assumptions.mode == "direct":
            graph, program = _traced(session, assumptions, dynamic, expected), None
        else:
            program = _program(session, assumptions)
    rewrite: Callable[[], CapturedGraph]
    if program is None:
        rewrite = functools.partial(
            _rewritten, graph, assumptions.is_general, by_running=assumptions.rewrites_by_running
        )
    else:
        if has_launches(program):
            raise CaptureError(
                "The model launches Triton kernels, which a program of torch.export does not show. Capture it with "
                'opbridge\'s own capture, capture="export".'
            )
        graph, rewrite = from_exported_program(program), functools.partial(without_writes, program)
    if is_compared:
        _check_sizes(session, assumptions, graph)
    return Captured(graph, rewrite, assumptions, program)


def _traced(
    session: CaptureSession, assumptions: Assumptions, dynamic: frozenset[str], expected: CapturedGraph | None
) -> CapturedGraph:
    shapes, execution = assumptions.shapes, assumptions.execution
    follows = assumptions.is_following or shapes.axes
    with watching_unrolled_loops() as loops:
        graph = trace(
            session.module,
            session.call.args,
            session.call.kwargs,
            shapes,
            general=assumptions.is_general,
            gradients=_REQUIRING.get(assumptions.gradients, ""),
            dynamic=dynamic | assumptions.free,
            expected=expected,
            calls=session.following_calls(everywhere=assumptions.is_following) if follows else None,
            answers=execution if isinstance(execution, BranchOracle) else None,
            merged=execution if isinstance(execution, CFGLowering) else None,
            copying=session.copying,
        )
    session.unrolls_loops |= loops.any
    if assumptions.example is not None:
        fixed_sizes.forget_example(graph, assumptions.example)
    return graph


_REQUIRING = {"of inputs": "inputs", "of inputs and parameters": "inputs and parameters"}


def _program(session: CaptureSession, assumptions: Assumptions) -> ExportedProgram:
    with (
        ModelState(session.module),  # torch.export runs the model on tensors in plain attributes as they are
        torch_tracing.keep_model_frames(__file__, model_module.__file__),
        torch_tracing.mute_export(),
        warnings.catch_warnings(),
    ):
        warnings.filterwarnings("ignore", message="The tensor attribute")  # said by a note of ours
        warnings.filterwarnings("ignore", module=r"torch\._dynamo")  # about how it traces
        return torch.export.export(
            session.module,
            session.call.args,
            session.call.kwargs,
            dynamic_shapes=assumptions.shapes.given,
            strict=assumptions.mode == "strict",
        )


def _check_sizes(session: CaptureSession, assumptions: Assumptions, graph: CapturedGraph) -> None:
    """Compares the sizes that a capture is for with those that were asked for.

    Raises:
        SizesContradicted: They are fewer.
    """
    axes, leaves, least = assumptions.shapes.axes, session.leaves, assumptions.least_size
    if not axes or assumptions.free:
        return
    contradicted = contradictions(graph, leaves, axes, least)
    if contradicted:
        asked = dataclasses.replace(graph, conditions=tuple(each for each in graph.conditions if each.by_operator))
        raise SizesContradicted(
            contradicted,
            unrolls=fixed_sizes.may_unroll_a_loop(graph) or fixed_sizes.splits_by_a_size(graph),
            of_operators=frozenset(text for text, _ in contradictions(asked, leaves, axes, least)),
        )


def demands(session: CaptureSession, captured: Captured, *, checked: bool = True) -> list[Any]:
    """The sizes that a capture is for, where these are not all that the dynamic shapes allow, as conditions.

    Args:
        session: The model.
        captured: The capture; the ranges of its graph are narrowed.
        checked: See `constrain_sizes`.
    """
    axes = captured.assumptions.shapes.axes
    if not axes:
        return []
    return constrain_sizes(
        captured.graph,
        session.leaves,
        axes,
        captured.assumptions.least_size,
        checked=checked,
        with_one=captured.with_one,
    )


def _rewritten(graph: CapturedGraph, general: bool, *, by_running: bool) -> CapturedGraph:
    """The same graph without writes, with no more asked about sizes than the capture did."""
    replacing = fake_implementations.replacing_fake_implementations(rewriting=True)
    with torch_sizes.small_sizes_dynamic(general), replacing:
        return rewritten(graph, by_running=by_running)
