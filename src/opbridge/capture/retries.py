"""An attempt at the capture, repeated where what it raises says what it should have assumed."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from torch.utils import _pytree as pytree

from opbridge.base.torch_private import torch_tracing
from opbridge.capture import fake_implementations, fixed_sizes
from opbridge.capture.advice import is_data_dependent
from opbridge.capture.dynamic_shapes import Shapes
from opbridge.capture.eager_runs import run_eagerly
from opbridge.capture.one_attempt import Attempt, Captured, SizesContradicted
from opbridge.capture.side_effects import SideEffects, keeping_random_state
from opbridge.capture.zero_one_specialization import conditions_of_empty_examples, include_small_sizes
from opbridge.errors import UsageError
from opbridge.graph.captured_graph import CapturedGraph

__all__ = ["capture_with_retries", "is_by_loop", "outcome"]


def capture_with_retries(attempt: Attempt) -> Captured:
    """The graph of an attempt, repeated with other assumptions where what it raises asks for that.

    Raises:
        SizesContradicted: The model does not take all the sizes that it is to take.
        UsageError: The model fails by itself.
        Exception: Whatever the model or torch raises in the attempt that came closest.
    """
    with SideEffects(attempt.module) as effects:
        attempt.effects = effects
        try:
            program = _after_eager_run_if_needed(attempt)
        except Exception:  # torch.export raises what the model does
            if not (attempt.functions.inference.unknown or attempt.operators.unknown):
                raise
            # The model does not do with sizes that are known only at run time.
            attempt.functions.use_example_sizes()
            attempt.operators.use_example_sizes()
            program = _with_special_sizes_if_needed(attempt)
    attempt.notes += effects.notes()
    if attempt.strategy == "direct" and attempt.shapes.axes and not effects.drew:
        _include_small_sizes(attempt, program.graph)
    return program


def outcome(attempt: Attempt) -> tuple[Captured | None, Exception | None]:
    """What an attempt gives: the graph, or what it raises.

    Raises:
        UsageError: The model fails by itself, or the inputs or dynamic shapes are of a wrong kind.
    """
    try:
        return capture_with_retries(attempt), None
    except UsageError:
        raise
    except Exception as error:
        return None, error


def is_by_loop(failure: Exception | None) -> bool:
    """Whether a loop of the model's fixes a size."""
    if not isinstance(failure, SizesContradicted):
        return False
    return failure.unrolls or fixed_sizes.is_by_loop(failure.conditions)


def _include_small_sizes(attempt: Attempt, graph: CapturedGraph) -> None:
    """Drops the conditions that exclude a size of 1, where the model does the same for it.

    Raises:
        SizesContradicted: A size is 0 in the example, and the model does something else for other sizes.
    """
    if attempt.is_for_example or attempt.by_size:
        return

    def recapture(shapes: Shapes, dynamic: frozenset[str], expected: CapturedGraph | None) -> CapturedGraph:
        with (
            SideEffects(attempt.module),
            keeping_random_state(),
            _keeping_attributes(attempt.functions, attempt.operators),
        ):
            return attempt.capture_once(shapes, dynamic, expected, again=True).graph

    leaves = pytree.tree_leaves((attempt.args, attempt.kwargs))
    contradicted = conditions_of_empty_examples(graph, leaves, attempt.shapes, recapture)
    if contradicted:
        raise SizesContradicted(contradicted)
    attempt.with_one = include_small_sizes(graph, leaves, attempt.shapes, recapture)


def _needs_eager_run(attempt: Attempt) -> bool:
    """Whether the capture needs to know first what the model's own run does."""
    return attempt.functions.unrecorded or attempt.operators.unrecorded


def _after_eager_run_if_needed(attempt: Attempt) -> Captured:
    """The capture; before it the model itself is run, where it calls classes or operators that stay whole."""
    if attempt.functions.may_call_one(attempt.model) and not attempt.functions.records:
        run_eagerly(attempt)
    try:
        return _retried_after_eager_run(attempt)
    except UsageError:
        raise
    except Exception:
        if not attempt.operators.has_traced_operators():
            raise
        if attempt.operators.calls is None:
            run_eagerly(attempt)
        if not attempt.operators.has_traced_operators():
            raise
    attempt.operators.keep_all_whole()
    return _retried_after_eager_run(attempt)


def _retried_after_eager_run(attempt: Attempt) -> Captured:
    try:
        return _with_special_sizes_if_needed(attempt)
    except Exception:
        if not _needs_eager_run(attempt):
            raise
    run_eagerly(attempt)
    return _with_special_sizes_if_needed(attempt)


def _with_special_sizes_if_needed(attempt: Attempt) -> Captured:
    try:
        return attempt.capture_once()
    except Exception as error:
        first = error
    if _needs_eager_run(attempt):
        raise first
    if fake_implementations.is_raised_by_check(first) and not attempt.unchecked:
        attempt.unchecked = True
        return _with_special_sizes_if_needed(attempt)
    if torch_tracing.asks_for_gradient(first):
        return _with_gradients(attempt)
    is_of_other_side = bool(attempt.other_side) and not attempt.by_size
    if not attempt.dynamic or is_of_other_side or is_data_dependent(first):
        raise first
    attempt.general = False
    try:
        return attempt.capture_once()
    except Exception as error:
        # torch fixes small sizes of its own accord here; what it then says is not the model's doing.
        raise (first if attempt.shapes.has_small_sizes else error) from None


def _with_gradients(attempt: Attempt) -> Captured:
    """The capture of a model that computes gradients, with as few of its tensors as possible requiring them."""
    attempt.grad = True
    attempt.notes.append("the model computes gradients, so it was captured with gradients enabled")
    if attempt.strategy != "direct":
        return attempt.capture_once()
    attempt.gradients = "inputs"
    try:
        return attempt.capture_once()
    except Exception as error:
        if not torch_tracing.asks_for_gradient(error):
            raise
    attempt.gradients = "inputs and parameters"
    return attempt.capture_once()


@contextlib.contextmanager
def _keeping_attributes(*objects: Any) -> Iterator[None]:
    """Within this context, objects may set their attributes, which are put back."""
    kept = [dict(vars(each)) for each in objects]
    try:
        yield
    finally:
        for each, attributes in zip(objects, kept, strict=True):
            vars(each).clear()
            vars(each).update(attributes)
