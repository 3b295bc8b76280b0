"""The preparation of a verification, of a file or a program."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import onnx_ir as ir
import torch
from torch.export import ExportedProgram

from opbridge.capture import Capture
from opbridge.capture import capture as capture_model
from opbridge.capture.cache_names import check_caches
from opbridge.capture.containers import register_containers
from opbridge.errors import CaptureError, ModelFileError, OpbridgeError, UsageError
from opbridge.kernels import aten
from opbridge.model_support import caches
from opbridge.onnx import reading
from opbridge.plan.data import Plan
from opbridge.request.verification_config import VerificationConfig
from opbridge.request.verification_request import VerificationRequest
from opbridge.runtimes import known
from opbridge.runtimes.onnxruntime import open_session
from opbridge.runtimes.onnxruntime.model_file import checked_model, required_kernels
from opbridge.runtimes.sessions import open_runtime
from opbridge.verification import on_cuda
from opbridge.verification.engine_profile import profile_of
from opbridge.verification.report import LOADING, Run, Verification
from opbridge.verification.runtime_failure import locate_failure
from opbridge.verification.shelter import sheltered
from opbridge.verification.verifier import Verifier

if TYPE_CHECKING:
    import onnxruntime

    from opbridge.runtimes.onnxruntime import IsolatedSession

__all__ = ["Exported", "checked_example", "verify_in", "verify_program"]


@runtime_checkable
class Exported(Protocol):
    """The part of `opbridge.Program` that a verification uses; its module imports this package."""

    model: ir.Model
    plan: Plan
    capture: Capture
    path: Path | None

    def session(self, **options: Any) -> onnxruntime.InferenceSession | IsolatedSession:
        """A session of ONNX Runtime with the model."""

    def aten_operators(self) -> tuple[str, ...]:
        """The operators that the model calls in PyTorch."""

    def to_bytes(self) -> bytes:
        """The content of a file with the model."""


def verify_in(request: VerificationRequest, config: VerificationConfig) -> Verification:
    """`opbridge.verify` in one runtime.

    Raises:
        ModelFileError: The file is missing or damaged, or the runtime refuses it.
        UsageError: Inputs that do not fit the file, or on which the model itself raises.
    """
    subject, given = request.subject, (request.model, request.args, request.kwargs)
    if request.is_file:
        return _verify_file(subject, *given, request.dynamic_shapes, config)
    return verify_program(subject, *given, config)


@caches.taking_caches
def _verify_file(
    path: str | os.PathLike[str],
    model: Any,
    args: Any,
    kwargs: Mapping[str, Any] | None,
    dynamic_shapes: Any,
    options: VerificationConfig,
) -> Verification:
    """`opbridge.verify` for a file."""
    start = time.perf_counter()
    args, kwargs = checked_example("opbridge.verify", model, args, kwargs)
    name = os.fsdecode(path)

    def load() -> ir.Model:
        return reading.load(name)

    loaded: Any
    if options.in_onnxruntime:
        checked_model(name)  # before anything reads it
        open_ = functools.partial(open_session, name, aten=options.aten, loaded=True)
        loaded = sheltered(open_, load, options.isolated, repeats=lambda: aten.NAME in required_kernels(name))
    else:
        profile = options.profile
        if not profile and dynamic_shapes is not None and options.runtime in known.BUILDERS:
            checked_model(name)
            with contextlib.suppress(CaptureError):
                profile = profile_of(capture_model(model, args, kwargs, dynamic_shapes=dynamic_shapes), name)
        if on_cuda.is_asked(options.runtime) and (why := known.obstacle(options.runtime)):
            checked_model(name)
            return on_cuda.loaded_only(name, name, options.runtime, why, start)
        loaded = open_runtime(options.runtime, name, options.isolated, profile=profile)
        if why := known.obstacle(options.runtime):
            return _built(name, loaded, options, why, start)
    capture = None
    if dynamic_shapes is not None:
        # If the model cannot be captured, the dimensions of the file are used; it may have been exported by a trace.
        with contextlib.suppress(CaptureError):
            capture = capture_model(model, args, kwargs, dynamic_shapes=dynamic_shapes)
    deciding = None if capture is not None else _capture_of_decisions(load, model, args, kwargs)
    with closing(loaded):
        found = Verifier(name, loaded, load, model, args, kwargs, capture, False, options, deciding).run(start)
    return on_cuda.with_placement(found, name) if on_cuda.is_asked(options.runtime) else found


@caches.taking_caches
def verify_program(
    program: Exported,
    model: Any,
    args: Any,
    kwargs: Mapping[str, Any] | None,
    options: VerificationConfig,
    subject: str | None = None,
) -> Verification:
    """`opbridge.verify` for a program, which has its own model, example inputs and dynamic shapes.

    A program that the runtime refuses to load is a mismatch, not an error.
    """
    if not isinstance(program, Exported):
        raise UsageError(
            f"opbridge.verify expects the path of an ONNX file or a Program, got {type(program).__name__}. Pass "
            "the path of the file, or the Program that opbridge.export returned."
        )
    start = time.perf_counter()
    capture = program.capture
    if model is None:
        model = capture.model
    if args is None and kwargs is None:
        args, kwargs = capture.args, capture.kwargs
    args, kwargs = checked_example("opbridge.verify", model, args, kwargs)
    name = subject or (str(program.path) if program.path is not None else "the exported model")
    content: str | bytes = b""
    try:
        loaded: Any
        if options.in_onnxruntime:
            called = program.aten_operators()
            options = dataclasses.replace(options, aten=(*options.aten, *called))
            open_ = functools.partial(program.session, aten=options.aten)
            loaded = sheltered(open_, lambda: program.model, options.isolated, repeats=lambda: bool(called))
        else:
            content = str(program.path) if program.path is not None else program.to_bytes()
            profile = options.profile
            if not profile and options.runtime in known.BUILDERS:
                profile = profile_of(capture, content)
            if on_cuda.is_asked(options.runtime) and (why := known.obstacle(options.runtime)):
                return on_cuda.loaded_only(name, content, options.runtime, why, start)
            loaded = open_runtime(options.runtime, content, options.isolated, profile=profile)
            if why := known.obstacle(options.runtime):
                return _built(name, loaded, options, why, start)
    except ModelFileError as error:
        run = Run("example", LOADING, failure=locate_failure(str(error), program.model))
        return Verification(name, known.label(options.runtime), (run,), seconds=time.perf_counter() - start)
    with closing(loaded):
        found = Verifier(name, loaded, lambda: program.model, model, args, kwargs, capture, True, options).run(start)
    return on_cuda.with_placement(found, content) if on_cuda.is_asked(options.runtime) else found


def _built(name: str, loaded: Any, options: VerificationConfig, why: str, start: float) -> Verification:
    """The verification of a file that a runtime has built and cannot run here."""
    with closing(loaded):
        seconds = time.perf_counter() - start
        return Verification(
            name, known.label(options.runtime), (), notes=tuple(loaded.notes), seconds=seconds, unrun=why
        )


def _capture_of_decisions(
    load: Callable[[], ir.Model], model: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Capture | None:
    """A capture of a model that decides by data, for a file that decides; else None."""
    if isinstance(model, ExportedProgram):
        return None
    try:
        if not any(node.op_type in ("If", "Loop") for node in load().graph):
            return None
        found = capture_model(model, args, kwargs)
    except OpbridgeError:  # the verification says what is wrong with the model, or the file
        return None
    return found if found.decisions else None


def checked_example(caller: str, model: Any, args: Any, kwargs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The example inputs as a tuple and a dict.

    Args:
        caller: The function that the user called, for messages.
        model: The model.
        args: The positional inputs.
        kwargs: The keyword inputs.

    Raises:
        UsageError: The model cannot be called, or the inputs have another type.
    """
    if not callable(model) and not isinstance(model, ExportedProgram):
        raise UsageError(
            f"{caller} expects a torch.nn.Module, a function or an ExportedProgram, got "
            f"{type(model).__name__}. Pass the model that the file was exported from."
        )
    if isinstance(args, torch.Tensor):
        args = (args,)
    if args is not None and not isinstance(args, (tuple, list)):
        raise UsageError(
            f"Expected the example inputs as a tuple or a tensor, got {type(args).__name__}. Write "
            f"{caller}(path, model, (x, y)); pass keyword inputs in kwargs=."
        )
    if kwargs is not None and not isinstance(kwargs, Mapping):
        raise UsageError(f"Expected kwargs= as a dict of inputs by name, got {type(kwargs).__name__}.")
    register_containers((args, kwargs))
    check_caches(tuple(args or ()), dict(kwargs or {}))
    return tuple(args or ()), dict(kwargs or {})
