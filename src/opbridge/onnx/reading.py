"""A model file -> an onnx_ir model."""

from __future__ import annotations

import onnx
import onnx_ir as ir

from opbridge.base.garbage import no_collection
from opbridge.errors import ModelFileError

__all__ = ["load"]


def load(model: str | bytes) -> ir.Model:
    """The model in a file.

    Args:
        model: The path of the file, or its content.

    Raises:
        ModelFileError: It cannot be read. ONNX Runtime may take such a file all the same.
    """
    try:
        with no_collection():
            return ir.load(model) if isinstance(model, str) else ir.from_proto(onnx.ModelProto.FromString(model))
    except Exception as error:  # a damaged file raises anything
        label = model if isinstance(model, str) else "The model in memory"
        said = " ".join(f"{type(error).__name__}: {error}".split())[:500]
        raise ModelFileError(f"{label} cannot be read as an ONNX model ({said}). Export or copy it again.") from error
