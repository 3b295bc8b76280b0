"""Runs of the model itself during its capture: what it returns, or why it fails by itself."""

from __future__ import annotations

import torch
from torch.utils import _pytree as pytree

from opbridge.base.dropped_prints import dropping_prints
from opbridge.base.torch_private import torch_tracing
from opbridge.capture.advice import advise_eager
from opbridge.capture.model_inputs import described
from opbridge.capture.model_state import ModelState
from opbridge.capture.one_attempt import Attempt
from opbridge.capture.side_effects import SideEffects
from opbridge.errors import OpbridgeError, UsageError
from opbridge.kernels.triton.eager import running_on_cpu

__all__ = ["eager_failure", "run_eagerly"]


def run_eagerly(attempt: Attempt) -> None:
    """Runs the model itself, to see what such classes and operators return.

    Raises:
        UsageError: It fails.
    """
    attempt.forget_failed_attempt()
    with SideEffects(attempt.module), torch.random.fork_rng(devices=[]), attempt.functions.recording():
        with attempt.operators.recording():
            failure = eager_failure(attempt)
        if failure is not None and torch_tracing.asks_for_gradient(failure):
            grad, attempt.grad, attempt.functions.records = attempt.grad, True, []
            with attempt.operators.recording():
                failure = eager_failure(attempt)
            attempt.grad = grad  # the capture finds that out too
    if failure is not None:
        with SideEffects(attempt.module), attempt.functions.suspended():
            failure = eager_failure(attempt) or failure  # without the interception of calls, which its words show
        raise UsageError(advise_eager(failure, described(attempt.args, attempt.kwargs))) from failure


def eager_failure(attempt: Attempt) -> Exception | None:
    """What the model raises without an export, on copies of its inputs and buffers; its state is restored."""
    args, kwargs = pytree.tree_map_only(torch.Tensor, torch.clone, (attempt.args, attempt.kwargs))
    attempt.functions.note_inputs(pytree.tree_leaves((args, kwargs)))
    buffers = {name: buffer.clone() for name, buffer in attempt.module.named_buffers()}
    try:
        with (
            dropping_prints(),
            ModelState(attempt.module),
            torch.set_grad_enabled(attempt.grad),
            torch_tracing.in_onnx_export(attempt.functions.recording_now),
            running_on_cpu(),
        ):
            torch.func.functional_call(attempt.module, buffers, args, kwargs)
    except OpbridgeError:  # of a Triton kernel, which says nothing of the model on its own device
        return None
    except Exception as error:
        return error
    return None
