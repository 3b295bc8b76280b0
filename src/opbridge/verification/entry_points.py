"""`opbridge.verify`, for a file and for a program. torch is imported when they are called."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, overload

from opbridge.verification.report import Verification

if TYPE_CHECKING:
    from opbridge.reports.report import Report
    from opbridge.request import VerificationConfig
    from opbridge.request.verification_request import VerificationRequest
    from opbridge.runtimes.limits import Limits
    from opbridge.verification.dispatch import Exported
    from opbridge.verification.several import Verifications

__all__ = ["verify", "verify_program"]


@overload
def verify(
    path_or_program: str | os.PathLike[str] | Exported,
    model: Any = None,
    args: Any = None,
    kwargs: Mapping[str, Any] | None = None,
    *,
    runtime: str = "onnxruntime",
    **options: Any,
) -> Verification: ...


@overload
def verify(
    path_or_program: str | os.PathLike[str] | Exported,
    model: Any = None,
    args: Any = None,
    kwargs: Mapping[str, Any] | None = None,
    *,
    runtime: list[str] | tuple[str, ...],
    **options: Any,
) -> Verifications: ...


def verify(  # type: ignore[misc]  # the overloads leave out what does not decide the result
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
    kernels: Sequence[str | os.PathLike[str]] = (),
    inputs: Any = None,
    isolated: bool | Limits = False,
    task: str | None = None,
    runtime: str | list[str] | tuple[str, ...] = "onnxruntime",
    profile: Mapping[str, Any] | None = None,
    report: str | os.PathLike[str] | Report | None = None,
) -> Verification | Verifications:
    """Compares an ONNX file or a program with its PyTorch model.

    1. Both run on the example inputs, on fresh random ones like them (see `opbridge.verification.fresh_inputs`), and
       on others of other sizes where the file's dimensions are dynamic.
    2. The model runs as it is, without gradients; its buffers and torch's generators are put back afterwards.
    3. Each output is compared in shape, dtype and every value (see `opbridge.verification.compare`). If they differ
       by more than the tolerance, both are compared with the model in float64 (see
       `opbridge.verification.float64`). Outputs
       that differ from one eager run to the next are random: their values are not compared.
    4. Random inputs for which the model itself fails are left out and reported.
    5. If they differ, the first operator that differs is located (see
       `opbridge.verification.first_difference`).

    Args:
        path_or_program: The path of an ONNX file, or the Program that `opbridge.export` returned.
        model: A module, a function or an ExportedProgram; a program has its own.
        args: Example inputs: a tuple, or one tensor; a program has its own.
        kwargs: Example keyword inputs.
        dynamic_shapes: The dynamic_shapes of the export. Without it, the dynamic dimensions of the file are used,
            with sizes from 1.
        samples: The number of sets of random inputs.
        seed: The seed of the random inputs.
        rtol: The relative difference allowed, instead of one by dtype.
        atol: The absolute difference allowed, instead of one by dtype.
        aten: For a file with nodes that PyTorch runs, operators that may run beside those that may in any case, as
            `opbridge.session` takes them; a program's own need not be named.
        kernels: The paths of libraries with kernels that the file requires, beside those that were loaded with
            `opbridge.load`.
        inputs: Your own inputs, which take the place of fresh values and of other sizes: a list of tuples, tensors or
            dicts by name, a function of the run's number (from 1 to `samples`) that returns one, or paths of `.npz` or
            `.npy` files (see `opbridge.verification.given_inputs`).
        task: What the file was exported for, as in `opbridge.export`: it makes the example, the dynamic shapes and,
            where there are none, `inputs`.
        runtime: The name of the runtime: "onnxruntime", "cuda" ("cuda:1" for the second GPU), "openvino", "web",
            "browser", "webgpu", "mnn", "ncnn", "tensorrt-rtx" or "reference"; or several, each of which is compared, in
            a list. TensorRT-RTX builds the file; without a GPU that it supports, it is not run, and `verdict` is
            "built, not run". On CUDA the notes say which nodes ran on the CPU; without a GPU they say which would.
        profile: For TensorRT-RTX, by the names of dynamic dimensions a size, or (min, opt, max). Without it,
            the bounds that dynamic_shapes state, or 1 to 64.
        report: A page of HTML to write: the file as a picture, with the first operator that differs, and the errors
            as plots.

    Returns:
        The comparison, or, for a list of runtimes, one for each of them; `ok` is false where PyTorch and one of them
        do not agree. A runtime of a list that refuses the file does not agree.

    Raises:
        ModelFileError: the file is missing or damaged, or the one runtime refuses it.
        UsageError: arguments of the wrong kind, inputs that do not fit the file, or on which the model itself raises.
        CaptureError: `dynamic_shapes` is given, and the model cannot be captured with it.
    """
    given = dict(locals())
    from opbridge.kernels import library
    from opbridge.reports.report import reporting
    from opbridge.request.verification_request import verification_request
    from opbridge.verification import dispatch, several

    request = verification_request(**given)
    for each in request.kernels:
        library.remember(library.open_library(each))
    with reporting(request.report, "verify", request.label) as told:
        found: Verification | Verifications
        if request.is_in_several:
            found = several.verify_in_each(request)
        else:
            found = dispatch.verify_in(request, request.configs[0])
        if request.report is not None:
            _tell(told, request, found)
    return found


def _tell(told: Report, request: VerificationRequest, found: Verification | Verifications) -> None:
    """Tells a report what was compared, and how."""
    from opbridge.onnx import reading
    from opbridge.reports.of_file import picture_of_model

    each = (found,) if isinstance(found, Verification) else found.each
    told.verifications = [one.to_json() for one in each]
    model = None if request.is_file else request.subject.model
    told.draw = lambda: picture_of_model(reading.load(request.label) if model is None else model)


def verify_program(
    program: Exported, config: VerificationConfig | None = None, subject: str | None = None
) -> Verification:
    """`verify` for a program on its own example inputs, as `export` calls it.

    Args:
        program: What was exported.
        config: How it is verified; None: as `verify` does by default.
        subject: What the program is called in the report; None: the path that it was saved to.
    """
    from opbridge.request import VerificationConfig
    from opbridge.verification import dispatch

    return dispatch.verify_program(program, None, None, None, config or VerificationConfig(), subject)
