"""The attempts at the capture of a model: the direct capture, with more freedom for sizes, and torch.export's."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils import _pytree as pytree

from opbridge.base.torch_private import torch_tracing
from opbridge.capture import fixed_sizes, other_sides
from opbridge.capture.advice import is_data_dependent, reason
from opbridge.capture.failed_attempts import explained
from opbridge.capture.model_state import ModelState
from opbridge.capture.one_attempt import Attempt, Captured, SizesContradicted
from opbridge.capture.retries import capture_with_retries
from opbridge.capture.side_effects import SideEffects, keeping_random_state
from opbridge.errors import CaptureError, UsageError
from opbridge.graph.captured_graph import CapturedGraph

__all__ = ["capture_by_torch_export", "first_capture", "keeping_functions"]

_Outcome = tuple[Captured | None, Exception | None]
"""The graph, or what was raised."""


def first_capture(attempt: Attempt) -> Captured:
    """The first attempt that succeeds.

    Raises:
        CaptureError: None does; the message is advice.
        UsageError: The model fails by itself, or the inputs or dynamic shapes are of a wrong kind.
    """
    if attempt.shapes.needs_torch_export:
        return capture_by_torch_export(attempt)
    try:
        return _following_sizes(attempt)
    except UsageError:
        raise
    except Exception as error:
        first = error
    notes, attempt.notes = attempt.notes, []
    if not isinstance(first, CaptureError | SizesContradicted) and not is_data_dependent(first):
        attempt.start_again("non-strict")
        with contextlib.suppress(Exception):
            found = capture_with_retries(attempt)
            attempt.notes.append(f"captured by torch.export, as the direct capture stops: {reason(first)}")
            return found
    attempt.start_again("non-strict")
    attempt.notes = notes
    return explained(attempt, first)


def capture_by_torch_export(attempt: Attempt) -> Captured:
    """The capture by torch.export.

    Raises:
        CaptureError: It fails; the message is advice.
        UsageError: The model fails by itself, or the inputs or dynamic shapes are of a wrong kind.
    """
    attempt.start_again("non-strict")
    try:
        return capture_with_retries(attempt)
    except UsageError:
        raise
    except Exception as error:
        return explained(attempt, error)


@contextlib.contextmanager
def keeping_functions(attempt: Attempt) -> Iterator[None]:
    """Around the attempts: classes of torch.autograd.Function that have a `symbolic` stay whole.

    Raises:
        CaptureError: Such a class was defined while the model ran.
    """
    functions = attempt.functions
    with contextlib.ExitStack() as stack:
        if functions.classes:
            stack.enter_context(functions.whole())
            hook = attempt.module.register_forward_pre_hook(functions.start_run)
            stack.callback(hook.remove)
        yield
    traced_through = functions.traced_through()
    if traced_through:
        raise CaptureError(
            f"The class {traced_through[0].__qualname__}, whose symbolic is to be used, is defined while the model "
            "runs, and was traced through. Define it at the top of its module."
        )


def _following_sizes(attempt: Attempt) -> Captured:
    """The direct capture; where Python's own functions fix a size in it, one that keeps the size symbolic.

    1. All Python functions of the model's packages take symbolic sizes; see `tracer.number_calls`.
    2. The example is larger than it is, so that what the model keeps from an earlier run, such as a table and the
       size that it is for, is not for that size; see `fixed_sizes`.
    """
    found, failure = _outcome(attempt)
    if not attempt.shapes.axes or attempt.shapes.verify is not None or attempt.is_for_example:
        return _one_of(found, failure)
    demands = _demands_of(attempt, found, failure)
    if fixed_sizes.is_by_python(failure, demands):
        found, failure = _better(attempt, found, failure)
        demands = _demands_of(attempt, found, failure)
    if fixed_sizes.limiting(demands, attempt.shapes.axes):
        larger = fixed_sizes.with_larger_example(attempt.shapes)
        if larger is not None:
            example, kept = attempt.shapes, dict(vars(attempt))
            attempt.example, attempt.shapes = example, larger
            try:
                of_larger, failure_of_larger = _better(attempt, found, failure)
            finally:
                attempt.example, attempt.shapes = None, example
            if of_larger is not found and of_larger is not None and _differs_on_example(attempt, of_larger.graph):
                vars(attempt).update(kept)
            else:
                found, failure = of_larger, failure_of_larger
    return _one_of(found, failure) if found is None else _with_other_sides(attempt, found)


def _with_other_sides(attempt: Attempt, found: Captured) -> Captured:
    """A capture of the other sides of the model's questions about sizes, where it is the model on both sides."""
    example = shapes = attempt.shapes
    for _, sizes in list(other_sides.of_other_sides(found.graph, example)):
        tried = other_sides.with_sizes(shapes, sizes)
        kept = dict(vars(attempt))
        attempt.start_again("direct")
        attempt.notes, attempt.shapes, attempt.example = [], tried, example
        try:
            new, _ = _outcome(attempt)
        finally:
            attempt.shapes, attempt.example = example, None
        if new is not None and _is_model(attempt, new.graph) and other_sides.merged(found.graph, new.graph, example):
            found, shapes = new, tried
        else:
            vars(attempt).update(kept)
    return found


def _differs_on_example(attempt: Attempt, graph: CapturedGraph) -> bool:
    """Whether a capture of a larger example does not give what the model gives for the sizes of the example itself."""
    leaves, structure = pytree.tree_flatten((attempt.args, attempt.kwargs))
    return any(
        _gives_same(attempt, graph, values, structure) is False
        for values in (leaves, other_sides.of_other_values(leaves))
    )


def _is_model(attempt: Attempt, graph: CapturedGraph) -> bool:
    """Whether a capture of other sizes gives what the model gives on the example, and on one of twice its sizes."""
    leaves, structure = pytree.tree_flatten((attempt.args, attempt.kwargs))
    if fixed_sizes.fixes_another_size(graph, leaves, attempt.shapes.axes):
        return False
    further = [other_sides.of_other_values(leaves), other_sides.twice(leaves, attempt.shapes)]
    return _gives_same(attempt, graph, leaves, structure) is True and not any(
        _gives_same(attempt, graph, values, structure) is False for values in further
    )


def _gives_same(attempt: Attempt, graph: CapturedGraph, leaves: list[Any], structure: Any) -> bool | None:
    """Whether a capture and the model give the same on some inputs.

    None where that cannot be said: the model refuses them, draws random numbers, or gives nothing but zeros.
    """
    copies = [[each.clone() if isinstance(each, torch.Tensor) else each for each in leaves] for _ in range(2)]
    module = attempt.module
    with keeping_random_state(), torch.set_grad_enabled(attempt.grad):
        try:
            drawn = torch.get_rng_state()
            with SideEffects(module) as effects, ModelState(module), torch_tracing.in_onnx_export():
                args, kwargs = pytree.tree_unflatten(copies[0], structure)
                expected = pytree.tree_leaves(module(*args, **kwargs))
        except Exception:  # a model raises anything for sizes that it does not take
            return None
        if effects.drew or not torch.equal(drawn, torch.get_rng_state()):
            return None
        if not any(isinstance(each, torch.Tensor) and bool(each.any()) for each in expected):
            return None
        try:
            return other_sides.agree(expected, other_sides.results(graph, copies[1]))
        except Exception:  # an operator raises for these sizes
            return False


def _outcome(attempt: Attempt) -> _Outcome:
    """What an attempt gives: the graph, or what it raises."""
    try:
        return capture_with_retries(attempt), None
    except UsageError:
        raise
    except Exception as error:
        return None, error


def _better(attempt: Attempt, found: Captured | None, failure: Exception | None) -> _Outcome:
    """What a further attempt gives where that leaves the sizes more freedom; else what there is."""
    kept = dict(vars(attempt))
    attempt.start_again("direct")
    attempt.following, attempt.notes = True, []
    new, error = _outcome(attempt)
    axes = (attempt.example or attempt.shapes).axes
    before, after = _demands_of(attempt, found, failure), _demands_of(attempt, new, error)
    leaves = pytree.tree_leaves((attempt.args, attempt.kwargs))
    is_larger = new is not None and (
        fixed_sizes.fixes_another_size(new.graph, leaves, axes)
        or (attempt.example is not None and fixed_sizes.leaves_out_example(after, axes))
    )
    if (
        new is not None
        and not is_larger
        and (
            found is None
            or len(after) < len(before)
            or len(fixed_sizes.limiting(after, axes, 4)) < len(fixed_sizes.limiting(before, axes))
        )
    ):
        return new, None
    vars(attempt).update(kept)
    is_said_best = isinstance(error, SizesContradicted) and attempt.example is None
    return found, error if found is None and is_said_best else failure


def _demands_of(attempt: Attempt, found: Captured | None, failure: Exception | None) -> list[Any]:
    """What an attempt needs of the sizes."""
    if found is None:
        return failure.conditions if isinstance(failure, SizesContradicted) else []
    kept = dict(found.graph.ranges)
    demands = attempt.demands(found.graph)
    found.graph.ranges.clear()
    found.graph.ranges.update(kept)
    return demands


def _one_of(found: Captured | None, failure: Exception | None) -> Captured:
    """The graph of an attempt, or what it raised."""
    if failure is not None:
        raise failure
    assert found is not None
    return found
