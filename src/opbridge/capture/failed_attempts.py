"""What follows where no attempt at a capture succeeds: torch.export's strict mode, or advice."""

from __future__ import annotations

from typing import Any

from opbridge.base.torch_private import torch_tracing
from opbridge.capture.advice import (
    advise,
    advise_eager,
    advise_shapes,
    is_data_dependent,
    is_final,
    is_shape_violation,
    reason,
    with_line,
)
from opbridge.capture.advice_rules import REGISTER
from opbridge.capture.eager_runs import eager_failure
from opbridge.capture.limits import OutOfTime
from opbridge.capture.model_inputs import described
from opbridge.capture.one_attempt import Attempt, Captured, SizesContradicted
from opbridge.capture.side_effects import SideEffects
from opbridge.capture.stated_sizes import Dimension
from opbridge.capture.training_mode import evaluating
from opbridge.errors import CaptureError, KernelError, UsageError

__all__ = ["dimensions", "explained"]


def explained(attempt: Attempt, error: Exception) -> Captured:
    """The strict mode where it may succeed; else advice.

    Raises:
        CaptureError: It does not succeed either; the message is advice.
        UsageError: The model fails by itself, or the inputs are of a wrong kind.
    """
    if isinstance(error, (CaptureError, KernelError)):
        # Ours, from inside of torch: without the path that it took there.
        raise CaptureError(with_line(error)) from error.__cause__
    if isinstance(error, OutOfTime):
        raise CaptureError(f"The capture was stopped: {error} (max_capture_seconds). Raise the limit.") from error
    if str(error).startswith("Unsupported input type"):
        kind = str(error).partition("'")[2].partition("'")[0]
        raise UsageError(
            f"Unsupported input type {kind}: it is not a container that PyTorch can flatten. Pass tensors, "
            "numbers, strings and None, in tuples, lists, dicts and dataclasses, or register the class: "
            f"{REGISTER.format(short=kind.rpartition('.')[2])}."
        ) from error
    if attempt.operators.failure is not None:  # met in a function of TorchScript's
        raise CaptureError(str(attempt.operators.failure)) from error
    return _strict(attempt, error)


def _strict(attempt: Attempt, error: Exception) -> Captured:
    if is_shape_violation(error):
        demands = error.conditions if isinstance(error, SizesContradicted) else _violated(attempt)
        raise CaptureError(advise_shapes(error, demands, dimensions(attempt))) from error
    with (
        SideEffects(attempt.module) as effects,
        attempt.functions.suspended(),
    ):  # strict mode gives no chance to observe them
        failure = eager_failure(attempt)
        if failure is not None and torch_tracing.asks_for_gradient(failure):
            attempt.grad = True
            failure = eager_failure(attempt)
    if failure is not None:
        raise UsageError(advise_eager(failure, described(attempt.args, attempt.kwargs))) from failure
    futile = is_data_dependent(error) and not attempt.thorough
    # The strict mode would trace through the functions, and does not get what the operators return.
    if is_final(error) or futile or attempt.is_for_example:
        raise CaptureError(advise(error)) from error
    attempt.general, attempt.strategy = attempt.dynamic, "strict"
    try:
        program = attempt.capture_once()
    except Exception:
        mode = is_data_dependent(error) and _is_the_mode(attempt)
        raise CaptureError(advise(error, mode=mode)) from error
    attempt.notes.append(f"captured with torch.export's strict mode, because its default mode failed: {reason(error)}")
    attempt.notes += effects.notes()
    return program


def _violated(attempt: Attempt) -> list[Any]:
    """What the model needs of its sizes, found by leaving every dimension to torch."""
    if attempt.shapes.relaxed is None:
        return []
    attempt.general = True  # says it in the fewest conditions
    try:
        return attempt.demands(attempt.capture_once(attempt.shapes.relaxed).graph, checked=False)
    except Exception:
        return []


def dimensions(attempt: Attempt) -> list[Dimension]:
    """The dynamic dimensions of the inputs, as conditions call them."""
    return [Dimension(axis.name or axis.place, axis.place, axis.checked) for axis in attempt.shapes.axes.values()]


def _is_the_mode(attempt: Attempt) -> bool:
    """Whether the model would do in evaluation mode."""
    if not attempt.module.training:
        return False
    attempt.strategy = "direct"
    try:
        with evaluating(attempt.module), SideEffects(attempt.module):
            attempt.capture_once()
    except Exception:
        return False
    return True
