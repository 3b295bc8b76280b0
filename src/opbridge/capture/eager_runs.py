"""Runs of the model itself during its capture: what it returns, or why it fails by itself."""

from __future__ import annotations

import torch
from torch.utils import _pytree as pytree

from opbridge.base.dropped_prints import dropping_prints
from opbridge.base.torch_private import torch_tracing
from opbridge.capture.advice import advise_eager
from opbridge.capture.model_inputs import described
from opbridge.capture.model_state import ModelState
from opbridge.capture.session import CaptureSession
from opbridge.capture.side_effects import SideEffects
from opbridge.errors import OpbridgeError, UsageError
from opbridge.kernels.triton.eager import running_on_cpu

__all__ = ["eager_failure", "run_eagerly"]


def run_eagerly(session: CaptureSession, *, gradients: bool) -> None:
    """Runs the model itself, to see what such classes and operators return.

    Args:
        session: The model.
        gradients: Whether gradients are computed. Where the model asks for them, it is run again with them.

    Raises:
        UsageError: It fails.
    """
    session.begin_execution()
    functions, operators = session.functions, session.operators
    with SideEffects(session.module), torch.random.fork_rng(devices=[]), functions.recording():
        with operators.recording():
            failure = eager_failure(session, gradients=gradients)
        if failure is not None and torch_tracing.asks_for_gradient(failure):
            gradients = True
            functions.own_run.restart()
            with operators.recording():
                failure = eager_failure(session, gradients=True)
    if failure is not None:
        with SideEffects(session.module), functions.forwards.suspended():
            # Without the interception of calls, which its words show.
            failure = eager_failure(session, gradients=gradients) or failure
        raise UsageError(advise_eager(failure, described(session.call.args, session.call.kwargs))) from failure


def eager_failure(session: CaptureSession, *, gradients: bool) -> Exception | None:
    """What the model raises without an export, on copies of its inputs and buffers; its state is restored."""
    args, kwargs = pytree.tree_map_only(torch.Tensor, torch.clone, (session.call.args, session.call.kwargs))
    session.functions.own_run.note_inputs(pytree.tree_leaves((args, kwargs)))
    buffers = {name: buffer.clone() for name, buffer in session.module.named_buffers()}
    try:
        with (
            dropping_prints(),
            ModelState(session.module),
            torch.set_grad_enabled(gradients),
            torch_tracing.in_onnx_export(session.functions.own_run.is_running),
            running_on_cpu(),
        ):
            torch.func.functional_call(session.module, buffers, args, kwargs)
    except OpbridgeError:  # of a Triton kernel, which says nothing of the model on its own device
        return None
    except Exception as error:
        return error
    return None
