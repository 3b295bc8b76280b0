"""From the arguments of `opbridge.export` to its request: all that is wrong with them is raised here.

1. Keywords of torch.onnx.export that have no effect here pass, and values of theirs that are not supported are refused.
2. Keyword inputs at the end of `args` are taken out; a task makes the inputs and their dynamic shapes.
3. Each group is made, and checks itself: routes, target, output, translations, capture, kernels, verification.
4. The model, its inputs and dynamic shapes are brought into the form that captures read.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO

from opbridge.base.progress import Progress
from opbridge.base.routes import ALLOWED_BY_DEFAULT
from opbridge.capture.config import CaptureConfig
from opbridge.capture.model_inputs import names_of_tensors
from opbridge.capture.resolved_call import resolved_call
from opbridge.errors import UsageError
from opbridge.fit.fused.fusing import find_fusing
from opbridge.fit.target import find_target
from opbridge.kernels.triton.launches import launch_settings
from opbridge.model_support import caches
from opbridge.request import legacy_keywords
from opbridge.request.data import BuildConfig, ExportRequest, Listeners
from opbridge.request.export_types import permitted_routes
from opbridge.request.output_config import output_config
from opbridge.request.traceable import refuse_untraceable
from opbridge.request.verification_config import VerificationConfig
from opbridge.symbolics.registered import PYTHON_OPERATOR, with_registered
from opbridge.tasks import genai_folder, prepare, suggestion
from opbridge.translate.graph_names import GraphNames
from opbridge.translations import unknown_operators
from opbridge.translations.catalogue import default_registry

if TYPE_CHECKING:
    from opbridge.reports.report import Report

__all__ = ["export_request"]


@caches.taking_caches
def export_request(
    model: Any,
    args: Any = (),
    f: str | os.PathLike[str] | BinaryIO | None = None,
    *,
    kwargs: Mapping[str, Any] | None = None,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    dynamic_shapes: Any = None,
    opset_version: int | None = None,
    custom_translation_table: Mapping[Any, Any] | None = None,
    custom_opsets: Mapping[str, int] | None = None,
    external_data: bool | None = None,
    verify: bool = True,
    allow: Sequence[str] = ALLOWED_BY_DEFAULT,
    routes: Mapping[str, str] | None = None,
    operator_export_type: Any = None,
    target: str | None = None,
    provides: str | Sequence[str] = (),
    capture: str = "export",
    progress: Progress | None = None,
    dynamic_axes: Mapping[str, Any] | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    inputs: Any = None,
    task: str | None = None,
    max_captures: int | None = None,
    max_capture_seconds: float | None = None,
    strict: bool = False,
    precision: str | None = None,
    architectures: Sequence[str] = (),
    autotune: Mapping[str, int] | None = None,
    report: str | os.PathLike[str] | Report | None = None,
    genai: bool = False,
    fuse: bool | None = None,
    fold: bool = False,
    legacy: Mapping[str, Any] | None = None,
) -> ExportRequest:
    """The request of an export. The arguments are those of `opbridge.export`, which describes them.

    Nothing that is given is changed.

    Args:
        legacy: Other keywords of torch.onnx.export.

    Raises:
        SaveError: The path cannot be written.
        TypeError: A keyword that nobody has.
        UsageError: Arguments that cannot be used.
    """
    legacy_keywords.check_legacy(legacy or {}, model)
    if not verify:
        _refuse_without_verification(inputs=inputs, rtol=rtol, atol=atol)
    if dynamic_axes and dynamic_shapes is not None:
        raise UsageError("dynamic_axes and dynamic_shapes are mutually exclusive. Leave one of them out.")
    folder = None
    if genai:
        names_given = {"input_names": input_names, "output_names": output_names}
        folder = genai_folder(model, f, task=task, target=target, precision=precision, **names_given)
    fusing = find_fusing(fuse, target, precision, None if folder is None else folder.longest)
    args, kwargs = legacy_keywords.split_inputs(model, args, kwargs)
    notes: tuple[str, ...] = ()
    if task is not None:
        contiguous = fusing is not None and fusing.contiguous is not None
        prepared = prepare(task, model, args, kwargs, dynamic_axes or dynamic_shapes, contiguous=contiguous)
        args, kwargs, dynamic_shapes, notes = (), prepared.kwargs, prepared.dynamic_shapes, prepared.notes
        if inputs is None and verify:
            inputs, notes = prepared.inputs, notes + prepared.covered
    input_names = names_of_tensors(input_names, args, kwargs)
    permitted = permitted_routes(operator_export_type, allow, routes)
    fitted = find_target(target, opset_version, provides)
    output = output_config(f, external_data, precision, folder)
    unknown_operators.refuse(custom_translation_table)
    registry = with_registered(default_registry()).with_user_table(custom_translation_table)
    names, opsets = GraphNames(input_names, output_names), dict(custom_opsets or {})
    building = BuildConfig(registry, fitted, opset_version, permitted, names, opsets, fusing, fold)
    found = registry.find(PYTHON_OPERATOR, fitted.opset, torchlib=False)
    handler = None if found is None else found.function
    capturing = CaptureConfig(capture, max_captures, max_capture_seconds, strict, fitted.opset, handler)
    kernels = launch_settings(architectures, autotune)
    verification = VerificationConfig(rtol=rtol, atol=atol, inputs=inputs, complete=True) if verify else None
    call = resolved_call(model, args, kwargs, dynamic_shapes, dynamic_axes, input_names)
    if capturing.method == "trace":
        refuse_untraceable(call, opset_version)
    if task is None:
        notes = suggestion(call)
    if folder is not None:
        notes += folder.notes
    listeners = Listeners(progress, report)
    return ExportRequest(call, capturing, building, verification, output, kernels, listeners, notes)


def _refuse_without_verification(**options: Any) -> None:
    given = [f"{name}=" for name, value in options.items() if value is not None]
    them = "it" if len(given) == 1 else "them"
    if given:
        raise UsageError(
            f"{' and '.join(given)} would have no effect with verify=False (--no-verify), because only the "
            f"verification uses {them}. Leave one of them out."
        )
