"""A model file -> an onnx_ir model."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterator

import onnx
import onnx_ir as ir

from opbridge.base.garbage import no_collection
from opbridge.errors import ModelFileError
from opbridge.onnx import clashes

__all__ = ["CLASHES", "load", "load_with_clashes"]

CLASHES = "opbridge.clashes"
"""Where a model that was read says which names several values had: a list, in `ir.Model.meta`."""


def load(model: str | bytes) -> ir.Model:
    """The model in a file.

    Args:
        model: The path of the file, or its content.

    Raises:
        ModelFileError: It cannot be read. ONNX Runtime may take such a file all the same.
    """
    try:
        with no_collection(), _quiet():
            return ir.load(model) if isinstance(model, str) else ir.from_proto(onnx.ModelProto.FromString(model))
    except Exception as error:  # a damaged file raises anything
        raise _refusal(model, error) from error


def load_with_clashes(model: str | bytes) -> ir.Model:
    """The model in a file, where several values may have one name: the later ones are renamed, and named in its meta.

    Args:
        model: The path of the file, or its content.

    Raises:
        ModelFileError: It cannot be read.
    """
    try:
        return load(model)
    except ModelFileError:
        try:
            with no_collection(), _quiet():
                path = model if isinstance(model, str) else ""
                proto = onnx.load(path, load_external_data=False) if path else onnx.ModelProto.FromString(model)
                names = clashes.rename(proto)
                if not names:
                    raise
                renamed = ir.from_proto(proto)
                if path:
                    ir.external_data.set_base_dir(renamed.graph, os.path.dirname(path))
        except ModelFileError:
            raise
        except Exception as error:  # as above
            raise _refusal(model, error) from error
        renamed.meta[CLASHES] = names
        return renamed


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without the warnings of onnx_ir, which hold names as the file has them; the rules say what is wrong."""
    logger = logging.getLogger("onnx_ir")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(before)


def _refusal(model: str | bytes, error: Exception) -> ModelFileError:
    label = model if isinstance(model, str) else "The model in memory"
    inner: BaseException = error
    while inner.__cause__ is not None:  # onnx_ir says the field only, and its cause what is wrong
        inner = inner.__cause__
    said = " ".join(f"{type(inner).__name__}: {inner}".split())[:500]
    return ModelFileError(f"{label} cannot be read as an ONNX model ({said}). Export or copy it again.")
