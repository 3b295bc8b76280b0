"""The file of a model that failed its verification: `model.failed.onnx` beside `model.onnx`."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import onnx_ir as ir

from opbridge.save import writer

__all__ = ["failed_path", "keep_failed", "remove_failed"]

_MARK = "opbridge.failed"
"""The metadata of such a file, so that no other file of this name is ever removed."""


def failed_path(path: Path) -> Path:
    """ "model.failed.onnx" for "model.onnx"."""
    return path.with_name(f"{path.stem}.failed{path.suffix}")


def keep_failed(model: ir.Model, path: Path, summary: str, *, external_data: bool | None = None) -> Path:
    """Writes a model that failed its verification; what stands at its own path is not touched.

    Args:
        model: The model. Its metadata are as before afterwards.
        path: The path that the model was meant for.
        summary: What the verification found; it is stored in the file.
        external_data: As for `opbridge.save.writer.save`.

    Returns:
        The path of the file.

    Raises:
        SaveError: It cannot be written.
    """
    failed = failed_path(path)
    model.metadata_props[_MARK] = summary
    try:
        writer.save(model, failed, external_data=external_data)
    finally:
        del model.metadata_props[_MARK]
    return failed


def remove_failed(path: Path) -> None:
    """Removes what `keep_failed` wrote for an earlier export to the same path, and its external data."""
    failed = failed_path(path)
    weights = failed.with_name(failed.name + ".data")
    if not (failed.is_file() and os.access(failed, os.R_OK) and writer.mentions(failed, _MARK)):
        return
    uses_weights = weights.is_file() and writer.mentions(failed, weights.name)
    for file in (failed, weights) if uses_weights else (failed,):
        with contextlib.suppress(OSError):
            file.unlink()
