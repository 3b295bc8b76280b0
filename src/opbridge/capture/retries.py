"""An execution of the model, repeated where what it raises says what it should have assumed."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import Any

from opbridge.base.own_faults import raise_own_fault
from opbridge.base.torch_private import torch_failures, torch_tracing
from opbridge.capture import fake_implementations
from opbridge.capture.assumptions import Assumptions, Gradients
from opbridge.capture.captured import Captured, Failed, Outcome, SizesContradicted
from opbridge.capture.dynamic_shapes import Shapes
from opbridge.capture.eager_runs import run_eagerly
from opbridge.capture.one_capture import capture_once
from opbridge.capture.session import CaptureSession
from opbridge.capture.side_effects import SideEffects, keeping_random_state
from opbridge.capture.tracer.ends_of_parts import EndsMet, watching_ends
from opbridge.capture.zero_one_specialization import conditions_of_empty_examples, include_small_sizes
from opbridge.errors import UsageError
from opbridge.graph.captured_graph import CapturedGraph

__all__ = ["capture_with_retries", "is_by_loop"]

_WITH_GRADIENTS = "the model computes gradients, so it was captured with gradients enabled"


def capture_with_retries(session: CaptureSession, assumptions: Assumptions) -> Outcome:
    """The graph under some assumptions, or under others where what an execution raises asks for these.

    Raises:
        UsageError: The model fails by itself, or the inputs or dynamic shapes are of a wrong kind.
    """
    executions = _Executions(session, assumptions)
    try:
        with session.observing_effects() as effects:
            captured = executions.captured()
    except UsageError:
        raise
    except Exception as error:
        raise_own_fault(error)
        return Failed(error, executions.assumptions, executions.notes)
    captured = dataclasses.replace(captured, notes=(*executions.notes, *effects.notes()), draws=effects.drew)
    if assumptions.mode != "direct" or not assumptions.shapes.axes or captured.draws:
        return captured
    try:
        return _including_small_sizes(session, captured)
    except SizesContradicted as error:
        return Failed(error, captured.assumptions, captured.notes)


def is_by_loop(failure: Exception | None) -> bool:
    """Whether a loop of the model may fix a size."""
    return isinstance(failure, SizesContradicted) and failure.unrolls


def _including_small_sizes(session: CaptureSession, captured: Captured) -> Captured:
    """The same without the conditions that exclude a size of 1, where the model does the same for it.

    Raises:
        SizesContradicted: A size is 0 in the example, and the model does something else for other sizes.
    """
    assumptions = captured.assumptions
    if session.is_for_example or assumptions.is_by_size:
        return captured

    def recapture(shapes: Shapes, dynamic: frozenset[str], expected: CapturedGraph | None) -> CapturedGraph:
        of_sizes = dataclasses.replace(assumptions, shapes=shapes)
        with (
            SideEffects(session.module),
            keeping_random_state(),
            _keeping_attributes(session.functions, session.operators),
        ):
            return capture_once(session, of_sizes, dynamic=dynamic, expected=expected, is_compared=False).graph

    leaves = session.leaves
    contradicted = conditions_of_empty_examples(captured.graph, leaves, assumptions.shapes, recapture)
    if contradicted:
        raise SizesContradicted(contradicted)
    with_one = include_small_sizes(captured.graph, leaves, assumptions.shapes, recapture)
    return dataclasses.replace(captured, with_one=with_one)


class _Executions:
    """Executions of the model, each with the assumptions that the one before it was found to need.

    Attributes:
        assumptions: Those of the last one.
        notes: What a person should know of them.
    """

    def __init__(self, session: CaptureSession, assumptions: Assumptions) -> None:
        self._session, self.assumptions = session, assumptions
        self._ends = EndsMet()
        self.notes: tuple[str, ...] = ()

    def captured(self) -> Captured:
        """The graph.

        Raises:
            SizesContradicted: The model does not take all the sizes that it is to take.
            UsageError: The model fails by itself.
            Exception: Whatever the model or torch raises in the execution that came closest.
        """
        functions, operators = self._session.functions, self._session.operators
        try:
            return self._after_eager_run_if_needed()
        except Exception:  # torch.export raises what the model does
            if not (functions.inference.unknown or operators.results.unknown):
                raise
        # The model does not do with sizes that are known only at run time.
        functions.use_example_sizes()
        operators.use_example_sizes()
        return self._with_special_sizes_if_needed()

    def _once(self, **changes: Any) -> Captured:
        self.assumptions = dataclasses.replace(self.assumptions, **changes)
        with watching_ends() as self._ends:
            return capture_once(self._session, self.assumptions)

    def _needs_eager_run(self) -> bool:
        """Whether the capture needs to know first what the model's own run does."""
        return self._session.functions.unrecorded or self._session.operators.unrecorded

    def _after_eager_run_if_needed(self) -> Captured:
        """The capture; before it the model itself is run, where it calls classes or operators that stay whole."""
        functions, operators = self._session.functions, self._session.operators
        if functions.may_call_one(self._session.call.model) and not functions.own_run.records:
            self._run_eagerly()
        try:
            return self._retried_after_eager_run()
        except UsageError:
            raise
        except Exception:  # whatever an operator that torch traces raises; it is kept whole then
            if not operators.has_traced_operators():
                raise
            if operators.calls is None:
                self._run_eagerly()
            if not operators.has_traced_operators():
                raise
        operators.keep_all_whole()
        return self._retried_after_eager_run()

    def _retried_after_eager_run(self) -> Captured:
        try:
            return self._with_special_sizes_if_needed()
        except Exception:  # whatever the model raises after a call whose results are not recorded yet
            if not self._needs_eager_run():
                raise
        self._run_eagerly()
        return self._with_special_sizes_if_needed()

    def _run_eagerly(self) -> None:
        run_eagerly(self._session, gradients=self.assumptions.gradients != "off")

    def _with_special_sizes_if_needed(self) -> Captured:
        try:
            return self._once()
        except Exception as error:
            first = error
        assumptions = self.assumptions
        if self._needs_eager_run():
            raise first
        if fake_implementations.is_raised_by_check(first) and not assumptions.is_unchecked:
            self.assumptions = dataclasses.replace(assumptions, is_unchecked=True)
            return self._with_special_sizes_if_needed()
        if torch_tracing.asks_for_gradient(first):
            return self._with_gradients()
        if torch_failures.is_data_dependent(first) and self._ends.any and not assumptions.asks_for_ends:
            return self._asking_for_ends(first)
        is_of_other_branch = bool(assumptions.free) and not assumptions.is_by_size
        is_unhelped = is_by_loop(first) or torch_failures.is_data_dependent(first)
        if not assumptions.is_dynamic or is_of_other_branch or is_unhelped:
            raise first
        try:
            return self._once(is_general=False)
        except Exception as error:
            # torch fixes small sizes of its own accord here; what it then says is not the model's doing.
            raise (first if assumptions.shapes.has_small_sizes else error) from None

    def _asking_for_ends(self, first: Exception) -> Captured:
        """The capture for which the signs of ends of parts are conditions on sizes.

        Raises:
            Exception: The given one, where what depends on data is another size.
        """
        assumptions = self.assumptions
        try:
            return self._once(asks_for_ends=True)
        except Exception as error:
            if not torch_failures.is_data_dependent(error):
                raise
        self.assumptions = assumptions
        raise first

    def _with_gradients(self) -> Captured:
        """The capture of a model that computes gradients, with as few of its tensors as possible requiring them."""
        self.notes = (*self.notes, _WITH_GRADIENTS)
        if self.assumptions.mode != "direct":
            return self._once(gradients="on")
        of_inputs: Gradients = "of inputs"
        try:
            return self._once(gradients=of_inputs)
        except Exception as error:
            if not torch_tracing.asks_for_gradient(error):
                raise
        return self._once(gradients="of inputs and parameters")


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
