"""The file of a model that failed its verification: `model.failed.onnx` beside `model.onnx`."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

import onnx_ir as ir

from opbridge.save import writer
from opbridge.save.data_names import data_files, mentions, plain_name

__all__ = ["failed_path", "keep_failed", "keep_failed_set", "remove_failed", "remove_failed_set"]

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
    _keep({failed: model}, plain_name(failed), summary, external_data)
    return failed


def keep_failed_set(
    models: Mapping[Path, ir.Model], weights: Path, summary: str, *, external_data: bool | None = None
) -> list[Path]:
    """Writes models that failed their verification as a set, each as `keep_failed` does, their external data likewise.

    Args:
        models: The models, by the paths that they were meant for.
        weights: What the names of their external data are made from.
        summary: What the verification found; it is stored in the files.
        external_data: As for `opbridge.save.writer.staged_set`.

    Returns:
        The paths of the models' files.

    Raises:
        SaveError: They cannot be written.
    """
    failed = {failed_path(path): model for path, model in models.items()}
    _keep(failed, failed_path(weights), summary, external_data)
    return list(failed)


def remove_failed(path: Path) -> None:
    """Removes what `keep_failed` wrote for an earlier export to the same path, and its external data."""
    failed = failed_path(path)
    _remove([failed], plain_name(failed))


def remove_failed_set(paths: Iterable[Path], weights: Path) -> None:
    """Removes what `keep_failed_set` wrote for an earlier export to the same paths."""
    _remove([failed_path(path) for path in paths], failed_path(weights))


def _keep(models: Mapping[Path, ir.Model], weights: Path, summary: str, external_data: bool | None) -> None:
    try:
        for model in models.values():
            model.metadata_props[_MARK] = summary
        with writer.staged_set(models, weights, external_data=external_data) as files:
            files.commit()
    finally:
        for model in models.values():
            model.metadata_props.pop(_MARK, None)


def _remove(failed: Iterable[Path], weights: Path) -> None:
    marked = [each for each in failed if _is_marked(each)]
    data = [each for each in (*data_files(weights), weights) if any(mentions(model, each.name) for model in marked)]
    for file in (*marked, *filter(Path.is_file, data)):
        with contextlib.suppress(OSError):
            file.unlink()


def _is_marked(failed: Path) -> bool:
    return failed.is_file() and os.access(failed, os.R_OK) and mentions(failed, _MARK)
