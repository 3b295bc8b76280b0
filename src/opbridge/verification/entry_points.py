"""`opbridge.verify`, for a file and for a program."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import onnx_ir as ir
import torch
from torch.export import ExportedProgram

from opbridge.capture import Capture
from opbridge.capture import capture as take_capture
from opbridge.capture.model_inputs import register_containers
from opbridge.errors import CaptureError, ModelFileError, UsageError
from opbridge.plan.data import Plan
from opbridge.runtimes.onnxruntime import session
from opbridge.verification.report import Run, Verification
from opbridge.verification.runtime_failure import locate_failure
from opbridge.verification.verifier import Options, Verifier, runtime_label

if TYPE_CHECKING:
    import onnxruntime

__all__ = ["Exported", "verify", "verify_program"]


@runtime_checkable
class Exported(Protocol):
    """What a verification needs of an `opbridge.Program`, which is above it: a program holds its verification."""

    model: ir.Model
    plan: Plan
    capture: Capture
    path: Path | None

    def session(self, **options: Any) -> onnxruntime.InferenceSession:
        """A session of ONNX Runtime with the model."""

    def aten_operators(self) -> tuple[str, ...]:
        """The operators that the model hands to PyTorch."""


def verify(
    path_or_program: str | os.PathLike[str] | Exported,
    model: Any = None,
    args: Any = None,
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    samples: int = 2,
    seed: int = 0,
    rtol: float | None = None,
    atol: float | None = None,
    aten: Sequence[str] = (),
) -> Verification:
    """Compares an ONNX file, or a program, with the PyTorch model that it was made from.

    1. Both run on the example inputs, on fresh random ones like them (see `opbridge.verification.fresh_inputs`), and
       on others of other sizes where the file's dimensions are dynamic.
    2. The model runs as it is, without gradients; its buffers and torch's generators are put back afterwards.
    3. Each output is compared in shape, dtype and every value (see `opbridge.verification.compare`). Outputs that
       differ from one eager run to the next are random: their values are not compared.
    4. Fresh inputs on which the model itself raises are left out, and said.
    5. Where the two differ, the first operator that differs is looked for (see
       `opbridge.verification.first_difference`).

    Args:
        path_or_program: The file, whoever exported it, or what `opbridge.export` returned.
        model: A module, a function or an ExportedProgram; a program has its own.
        args: Example inputs: a tuple, or one tensor; a program has its own.
        kwargs: Example keyword inputs.
        dynamic_shapes: What the file was exported with. Without it, a file's own dimensions say which may vary, and
            sizes from 1 on are tried.
        samples: How many sets of fresh inputs to try.
        seed: What they are drawn from.
        rtol: The relative difference allowed, instead of one by dtype.
        atol: The absolute difference allowed, instead of one by dtype.
        aten: For a file with nodes that PyTorch runs, operators that may run beside those that may in any case, as
            `opbridge.session` takes them; a program's own need not be named.

    Returns:
        The comparison; `ok` is false where the two do not agree.

    Raises:
        ModelFileError: the file is missing or damaged, or ONNX Runtime refuses it.
        UsageError: arguments of the wrong kind, inputs that do not fit the file, or on which the model itself raises.
        CaptureError: `dynamic_shapes` is given, and the model cannot be captured with it.
    """
    options = Options(samples, seed, rtol, atol, (aten,) if isinstance(aten, str) else tuple(aten))
    if isinstance(path_or_program, (str, os.PathLike)):
        return _verify_file(path_or_program, model, args, kwargs, dynamic_shapes, options)
    return _verify_program(path_or_program, model, args, kwargs, options)


def verify_program(program: Exported, **options: Any) -> Verification:
    """`verify` for a program on its own example inputs, as `export` calls it.

    Args:
        program: What was exported.
        **options: `samples`, `seed`, `rtol`, `atol` and `aten` of `verify`.
    """
    return verify(program, **options)


def _verify_file(
    path: str | os.PathLike[str],
    model: Any,
    args: Any,
    kwargs: Mapping[str, Any] | None,
    dynamic_shapes: Any,
    options: Options,
) -> Verification:
    """`opbridge.verify` for a file, of which only the file is known."""
    start = time.perf_counter()
    args, kwargs = _checked(model, args, kwargs)
    name = os.fsdecode(path)
    loaded = session(name, aten=options.aten, loaded=True)
    capture = None
    if dynamic_shapes is not None:
        # A model that was traced may be one that torch.export cannot capture; the file knows its dimensions too.
        with contextlib.suppress(CaptureError):
            capture = take_capture(model, args, kwargs, dynamic_shapes=dynamic_shapes)
    return Verifier(name, loaded, lambda: ir.load(name), model, args, kwargs, capture, None, options).run(start)


def _verify_program(
    program: Exported, model: Any, args: Any, kwargs: Mapping[str, Any] | None, options: Options
) -> Verification:
    """`opbridge.verify` for a program, which knows its model, its inputs and which of their dimensions may vary.

    A program that ONNX Runtime refuses to load is a mismatch, and raises nothing.
    """
    if not isinstance(program, Exported):
        raise UsageError(
            f"opbridge.verify takes an ONNX file or a Program, not a {type(program).__name__}. Give the path of the "
            "file, or what opbridge.export returned."
        )
    start = time.perf_counter()
    capture = program.capture
    if model is None:
        model = capture.model if capture.model is not None else capture.exported_program
    if args is None and kwargs is None:
        args, kwargs = capture.args, capture.kwargs
    args, kwargs = _checked(model, args, kwargs)
    name = str(program.path) if program.path is not None else "the exported model"
    try:
        options = dataclasses.replace(options, aten=(*options.aten, *program.aten_operators()))
        loaded = program.session(aten=options.aten)
    except ModelFileError as error:
        run = Run("example", "loading", failure=locate_failure(str(error), program.model))
        return Verification(name, runtime_label(), (run,), seconds=time.perf_counter() - start)
    graph = None if program.plan.flow is None else (program.plan.program, program.plan.flow)
    return Verifier(name, loaded, lambda: program.model, model, args, kwargs, capture, graph, options).run(start)


def _checked(model: Any, args: Any, kwargs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The example inputs in their usual form."""
    if not callable(model) and not isinstance(model, ExportedProgram):
        raise UsageError(
            "opbridge.verify compares with a torch.nn.Module, a function or an ExportedProgram, not with a "
            f"{type(model).__name__}. Give the model that the file was exported from."
        )
    if isinstance(args, torch.Tensor):
        args = (args,)
    if args is not None and not isinstance(args, (tuple, list)):
        raise UsageError(
            f"The example inputs are a tuple, or one tensor, not a {type(args).__name__}. Write opbridge.verify(path, "
            "model, (x, y)); inputs passed by name go into kwargs=."
        )
    if kwargs is not None and not isinstance(kwargs, Mapping):
        raise UsageError(f"kwargs= is a dict of inputs passed by name, not a {type(kwargs).__name__}.")
    register_containers((args, kwargs))
    return tuple(args or ()), dict(kwargs or {})
