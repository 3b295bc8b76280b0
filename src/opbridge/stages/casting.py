"""The cast of a program to float16 or bfloat16: for its target, compared with the float32 model, and written."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from opbridge.capture.model_inputs import leaf_arrays
from opbridge.errors import PrecisionError
from opbridge.fit.widening import is_refused, takes
from opbridge.onnx import reading
from opbridge.program import Program, target_error
from opbridge.request import ExportRequest
from opbridge.save import writer
from opbridge.save.failed import remove_failed
from opbridge.stages.repairing import counted_findings, is_taken, repair_in_place
from opbridge.stages.running import Stages

if TYPE_CHECKING:
    import onnx_ir as ir

    from opbridge.fixing import Key
    from opbridge.precision import Narrowed

__all__ = ["cast"]


def cast(program: Program, request: ExportRequest, stages: Stages) -> None:
    """Casts a program of float32, fits the cast model to its target, and writes it.

    Raises:
        PrecisionError: The outputs exceed the tolerance, or the target has no such precision.
        TargetError: The target does not take the cast model.
    """
    from opbridge.precision import cast_for, with_kept_file
    from opbridge.precision.formats import find_format

    output, limits = request.output, request.building.target.limits
    path, external_data, precision = output.path, output.external_data, output.precision
    assert precision is not None
    dtype = find_format(precision).dtype
    if limits is not None and not takes(limits, dtype):
        raise PrecisionError(
            f"{output.label} was not cast to {precision}: {limits} is not known to have kernels for it, and ONNX "
            "Runtime casts none of its nodes there. Nothing was written. Use another precision or target."
        )
    of_target = None if limits is None or limits.opsets is None else limits.opsets.newest
    is_compared = request.verification is not None
    given = leaf_arrays(program.capture.args, program.capture.kwargs)
    fits = is_compared and len(given) == len(program.model.graph.inputs)
    made = program.repairs

    undone: dict[Key, str] = {}

    def fit(model: ir.Model) -> dict[str, str] | None:
        if limits is None:
            return {}
        changes = repair_in_place(program, model, limits, output.label, undone)
        if changes is None:
            return None
        program.repairs = (*made, *changes)
        assert program.findings is not None
        return {each.node: each.message for each in program.findings if is_refused(each, limits, dtype)}

    def accept(result: Narrowed) -> None:
        program.narrowed, program.model = result, result.model
        program.model.metadata_props["opbridge.opset"] = str(result.opsets[1])
        if not is_taken(program):
            raise target_error(program, path, external_data)

    with stages.running("cast") as stage, tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "model.onnx"
        writer.save(program.model, source)
        try:
            narrowed = cast_for(
                source,
                precision,
                path,
                inputs=given if fits else None,
                verify=is_compared,
                external_data=external_data,
                progress=stage.detail,
                label=output.label,
                newest=request.building.opset_version or of_target,
                fit=fit,
                accept=accept,
            )
        except PrecisionError as error:
            raise with_kept_file(error, path, precision, external_data) from error
        if path is not None:
            program.path, program.files = path, narrowed.files
            program.model = reading.load(str(path))  # its weights were beside the float32 model
            remove_failed(path)
        else:
            program.model = reading.load(narrowed.to_bytes())
            if output.file is not None:
                output.file.write(program.to_bytes())
        compared = narrowed.compared()
        stage.detail(compared if limits is None else f"{counted_findings(program)}; {compared}")
