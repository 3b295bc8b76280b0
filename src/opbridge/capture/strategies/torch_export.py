"""torch.export, and advice where nothing else succeeds."""

from __future__ import annotations

import dataclasses
from typing import Any

from opbridge.base.own_faults import raise_own_fault
from opbridge.base.torch_private import torch_failures, torch_tracing
from opbridge.capture.advice import (
    advise,
    advise_branch,
    advise_eager,
    advise_shapes,
    reason,
    with_line,
)
from opbridge.capture.advice_rules import REGISTER
from opbridge.capture.assumptions import Assumptions
from opbridge.capture.captured import Captured, Failed, Outcome, SizesContradicted
from opbridge.capture.control_flow import PathsRefused
from opbridge.capture.dynamic_shapes import Shapes
from opbridge.capture.eager_runs import eager_failure
from opbridge.capture.limits import OutOfTime
from opbridge.capture.model_inputs import described
from opbridge.capture.one_capture import capture_once, demands
from opbridge.capture.retries import capture_with_retries, is_by_loop
from opbridge.capture.session import CaptureSession
from opbridge.capture.side_effects import SideEffects
from opbridge.capture.stated_sizes import Dimension
from opbridge.capture.strategies.strategy import NoImprovement, Progress, Strategy
from opbridge.capture.training_mode import evaluating
from opbridge.errors import CaptureError, KernelError, UsageError

__all__ = ["STRICT", "TORCH_EXPORT", "dimensions"]


def _may_differ(progress: Progress) -> bool:
    failed = progress.failed
    if failed is None:
        return progress.outcome is None
    is_ours = isinstance(failed.error, CaptureError | SizesContradicted)
    return not is_ours and not torch_failures.is_data_dependent(failed.error)


def _by_torch_export(progress: Progress) -> Outcome | NoImprovement:
    failed, assumptions = progress.failed, progress.first.restarted("non-strict")
    if failed is None:
        return capture_with_retries(progress.session, assumptions)
    try:
        found = capture_with_retries(progress.session, assumptions)
    except Exception as error:  # the first error says more
        raise_own_fault(error)
        return NoImprovement(error)
    if isinstance(found, Failed):
        return NoImprovement(found.error)
    why = f"captured by torch.export, because opbridge's own capture failed: {reason(failed.error)}"
    return found.noting(why)


TORCH_EXPORT = Strategy("torch.export", _may_differ, _by_torch_export)


def _has_failed(progress: Progress) -> bool:
    return progress.failed is not None


def _strict_or_advice(progress: Progress) -> Outcome:
    """The capture in torch.export's strict mode where it may succeed; else advice.

    Raises:
        CaptureError: It does not succeed either; the message is advice.
        UsageError: The model fails by itself, or the inputs are of a wrong kind.
    """
    failed = progress.failed
    assert failed is not None
    of_paths = failed.of_paths
    try:
        return _explained(progress, failed)
    except CaptureError as error:
        if of_paths is None:
            raise
        if isinstance(of_paths, PathsRefused):
            said = str(of_paths).removeprefix("The model cannot be captured: ")
            raise CaptureError(f"{error}\nIt cannot be exported as a Loop: {said}") from error.__cause__
        if not is_by_loop(failed.error) and (advice := advise_branch(of_paths, failed.error)) is not None:
            raise CaptureError(advice) from of_paths
        said = with_line(of_paths) if isinstance(of_paths, CaptureError) else reason(of_paths)
        raise CaptureError(f"{error}\nCapturing all branches failed: {said}") from error.__cause__


STRICT = Strategy("torch.export, strict mode", _has_failed, _strict_or_advice)


def _explained(progress: Progress, failed: Failed) -> Captured:
    session, error = progress.session, failed.error
    if isinstance(error, (CaptureError, KernelError)):
        # Ours, from inside of torch: without the path that it took there.
        raise CaptureError(with_line(error)) from error.__cause__
    if isinstance(error, OutOfTime):
        raise CaptureError(f"The capture was stopped: {error} (max_capture_seconds). Raise the limit.") from error
    if (kind := torch_failures.unknown_input(error)) is not None:
        raise UsageError(
            f"Unsupported input type {kind}: it is not a container that PyTorch can flatten. Pass tensors, "
            "numbers, strings and None, in tuples, lists, dicts and dataclasses, or register the class: "
            f"{REGISTER.format(short=kind.rpartition('.')[2])}."
        ) from error
    if session.operators.failure is not None:  # met in a function of TorchScript's
        raise CaptureError(str(session.operators.failure)) from error
    return _strict(progress, failed)


def _strict(progress: Progress, failed: Failed) -> Captured:
    session, error = progress.session, failed.error
    assumptions = progress.first.restarted("strict")
    if isinstance(error, SizesContradicted) or torch_failures.is_shape_violation(error):
        needed = error.conditions if isinstance(error, SizesContradicted) else _violated(session, assumptions)
        raise CaptureError(advise_shapes(error, needed, dimensions(progress.first.shapes))) from error
    with (
        SideEffects(session.module) as effects,
        session.functions.forwards.suspended(),
    ):  # strict mode gives no chance to observe them
        failure = eager_failure(session, gradients=False)
        if failure is not None and torch_tracing.asks_for_gradient(failure):
            assumptions = dataclasses.replace(assumptions, gradients="on")
            failure = eager_failure(session, gradients=True)
    if failure is not None:
        inputs = described(session.call.args, session.call.kwargs)
        raise UsageError(advise_eager(failure, inputs)) from failure
    futile = torch_failures.is_data_dependent(error) and not session.config.is_thorough
    # The strict mode would trace through the functions, and does not get what the operators return.
    is_final = torch_failures.lacks_fake_implementation(error) or torch_failures.has_unknown_output(error)
    if is_final or futile or session.is_for_example:
        raise CaptureError(advise(error)) from error
    try:
        captured = capture_once(session, assumptions)
    except Exception:  # whatever torch raises in this mode; the first error says more
        mode = torch_failures.is_data_dependent(error) and _is_the_mode(session, assumptions)
        raise CaptureError(advise(error, mode=mode)) from error
    why = f"captured with torch.export's strict mode, because its default mode failed: {reason(error)}"
    return captured.noting(*failed.notes, why, *effects.notes())


def _violated(session: CaptureSession, assumptions: Assumptions) -> list[Any]:
    """What the model needs of its sizes, found by leaving every dimension to torch."""
    shapes = assumptions.shapes
    if shapes.relaxed is None:
        return []
    relaxed = dataclasses.replace(
        assumptions,
        mode="non-strict",
        shapes=dataclasses.replace(shapes, given=shapes.relaxed),
        is_general=True,  # says it in the fewest conditions
    )
    try:
        return demands(session, capture_once(session, relaxed, is_compared=False), checked=False)
    except Exception:  # what torch raises here too; the advice then has torch's own words
        return []


def dimensions(shapes: Shapes) -> list[Dimension]:
    """The dynamic dimensions of the inputs, as conditions call them."""
    return [Dimension(axis.name or axis.place, axis.place, axis.checked) for axis in shapes.axes.values()]


def _is_the_mode(session: CaptureSession, assumptions: Assumptions) -> bool:
    """Whether the model would do in evaluation mode."""
    if not session.module.training:
        return False
    try:
        with evaluating(session.module), SideEffects(session.module):
            capture_once(session, dataclasses.replace(assumptions, mode="direct"))
    except Exception:  # whatever the model or torch raises in evaluation mode
        return False
    return True
