"""A session of this process or of one of its own."""

from __future__ import annotations

from typing import Any

from opbridge.runtimes.limits import Limits
from opbridge.runtimes.onnxruntime.isolated import isolated_session
from opbridge.runtimes.onnxruntime.loading import session

__all__ = ["open_session"]


def open_session(model: Any, isolated: bool | Limits = False, *, quiet: bool = False, **options: Any) -> Any:
    """Loads a model.

    Args:
        model: The path of an ONNX file, or the content of one.
        isolated: Whether the model runs in a process of its own, or with which limits it does.
        quiet: Whether what a process of its own prints is dropped.
        **options: As for `session`.

    Raises:
        ModelFileError: The file is missing or damaged, or ONNX Runtime refuses it.
        UsageError: An argument has the wrong type, or does not go to another process.
    """
    if isolated is False:
        return session(model, **options)
    return isolated_session(model, isolated, quiet=quiet, **options)
