"""A file in another format, decided by running it, compared and written."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import onnx

from opbridge.conversion.converting import is_external
from opbridge.errors import PrecisionError, SaveError, UsageError
from opbridge.precision.formats import find_format
from opbridge.precision.report import Narrowed
from opbridge.precision.steps import Fit, Unsupported, Work
from opbridge.rules.measured import Inputs
from opbridge.runtimes.onnxruntime.model_file import checked_model
from opbridge.save import writer
from opbridge.save.failed import keep_failed

__all__ = ["cast", "cast_for", "with_kept_file"]

_ROUNDS = 3
"""The most choices of nodes. Another one follows where the file exceeds the tolerance and its simulation does not."""
_MARGIN = 0.9
"""Of the tolerance, what the next choice aims at in the file."""


def cast(
    model: str | os.PathLike[str] | bytes | onnx.ModelProto,
    to: str = "float16",
    output: str | os.PathLike[str] | None = None,
    *,
    inputs: Inputs | None = None,
    keep_io: bool = False,
    keep: Sequence[str] = (),
    tolerance: float | None = None,
    verify: bool = True,
    external_data: bool | None = None,
    progress: Callable[[str], None] | None = None,
) -> Narrowed:
    """Casts the float32 tensors of a model to float16 or bfloat16, and compares the results.

    The float32 model runs on the inputs first. Nodes stay in float32 where values or constants are beyond the format,
    and where rounding changes their results too much. A simulation that rounds every value then measures the error of
    the model; while that exceeds the tolerance, the node that costs most is put back to float32. The cast model itself
    is compared at the end, and no file is written if it exceeds the tolerance.

    Args:
        model: The path of an ONNX file, or its content.
        to: "float16" or "bfloat16".
        output: The path of the file to write; it may be the original's. None: nothing is written.
        inputs: Arrays to run the model on, by the names of the inputs or in order, or an .npz file of them. None:
            random inputs of several sizes.
        keep_io: Whether the inputs and outputs of the model stay float32, with a Cast each.
        keep: Nodes that stay in float32: names of nodes or values, operators, or shell patterns of them.
        tolerance: The largest error of an output, as the RMS of the difference relative to the RMS of the output. None:
            1e-2 for float16 and 5e-2 for bfloat16.
        verify: Whether the model is run and compared. Without it, the choice is made by the constants and the
            operators.
        external_data: Whether weights go to a file beside the model; None: where the original's do, or where one file
            cannot hold them.
        progress: Is called with what is being done.

    Returns:
        The model, the nodes that stay with the reasons, and the comparison.

    Raises:
        ModelFileError: The file cannot be read as an ONNX model.
        PrecisionError: There is nothing to cast, the model does not run on the inputs, or the cast model exceeds the
            tolerance.
        SaveError: The file cannot be written.
        UsageError: There is no such format, `keep` matches nothing, or the inputs do not fit.
    """
    return cast_for(
        model,
        to,
        output,
        inputs=inputs,
        keep_io=keep_io,
        keep=keep,
        tolerance=tolerance,
        verify=verify,
        external_data=external_data,
        progress=progress,
    )


def cast_for(
    model: str | os.PathLike[str] | bytes | onnx.ModelProto,
    to: str,
    output: str | os.PathLike[str] | None,
    *,
    inputs: Inputs | None = None,
    keep_io: bool = False,
    keep: Sequence[str] = (),
    tolerance: float | None = None,
    verify: bool = True,
    external_data: bool | None = None,
    progress: Callable[[str], None] | None = None,
    label: str = "",
    newest: int | None = None,
    fit: Fit = lambda model: {},
    accept: Callable[[Narrowed], None] = lambda result: None,
) -> Narrowed:
    """Casts a model as `cast` does, for something that is to run it.

    The other arguments are those of `cast`, which raises the same errors.

    Args:
        label: What the model is called in messages; "": its path.
        newest: The newest opset that the model may be raised to, so that its operators take the format.
        fit: Rewrites a cast model in place, before it is compared, and says which nodes have to stay in float32 all the
            same: by their names, or those of their first outputs, the reasons. None: it failed half-way, and the model
            is made again for another attempt.
        accept: Is called with the compared model before its file is put in its place. What it raises keeps the file
            from being written.
    """
    format_ = find_format(to)
    if tolerance is not None and not tolerance > 0:
        raise UsageError(f"Invalid value tolerance={tolerance}; expected a number above 0.")
    content, path = checked_model(model.SerializeToString() if isinstance(model, onnx.ModelProto) else model)
    label = label or path
    work = Work(content, label, format_, tolerance or format_.tolerance, progress or _silent, fit, newest)
    with contextlib.closing(work), contextlib.ExitStack() as places:
        work.read()
        if external_data is None:
            external_data = is_external(work.model) or None
        if verify:
            work.run(inputs, keep_io)
        work.choose(keep)
        files = None

        def write() -> Path:
            nonlocal files
            assert output is not None
            places.close()  # what was written before
            files = places.enter_context(writer.staged(result.model, output, external_data=external_data))
            return files.path

        attempt, aim = 0, work.tolerance
        while attempt < _ROUNDS:
            work.search(aim)
            try:
                result = work.rewritten(keep_io)
                work.compare(result, None if output is None else write)
            except Unsupported as unsupported:
                if not work.keep_unsupported(unsupported):
                    raise PrecisionError(str(unsupported), unsupported.result) from unsupported
                continue
            if result.ok:
                break
            attempt += 1
            assert result.error is not None
            aim *= max(0.5, _MARGIN * work.tolerance / result.error)
        if not result.ok:
            raise PrecisionError(
                f"{label} was not cast to {to}: {result.compared()} Nothing was written. Raise the "
                "tolerance, or keep more nodes in float32 (keep=, --keep).",
                result,
            )
        accept(result)
        if files is not None:
            result.files = files.commit()
    return result


def with_kept_file(
    error: PrecisionError, path: Path | None, precision: str, external_data: bool | None
) -> PrecisionError:
    """The error for a model whose cast exceeds the tolerance, and whose file it keeps under another name."""
    result = error.result
    if path is None or result is None or result.ok:
        return error
    stands = f"{path} is unchanged" if os.path.lexists(path) else f"{path} was not written"
    try:
        kept = keep_failed(result.model, path, result.compared(), external_data=external_data)
    except SaveError as failure:
        saved = f"The cast model could not be saved ({failure})"
    else:
        saved = f"The cast model was saved as {kept} for inspection"
    return PrecisionError(
        f"{path} was not cast to {precision}: {result.compared()} {saved}; {stands}. Export without precision= "
        "(--precision), and cast the file with 'opbridge cast', which takes --keep and --tolerance.",
        result,
    )


def _silent(text: str) -> None:
    """Says nothing."""
