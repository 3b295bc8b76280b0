"""The original and the repaired model, built by TensorRT-RTX where that is a target and installed."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import onnx_ir as ir

from opbridge.errors import ModelFileError
from opbridge.runtimes import tensorrt_rtx
from opbridge.save import writer
from opbridge.targets import Target

__all__ = ["Engines", "built"]


@dataclass(frozen=True)
class Engines:
    """What came of building both models.

    Attributes:
        runtime: The runtime with its version.
        before: Why the original is rejected; "": it is built.
        after: Why the repaired model is rejected; "": it is built.
    """

    runtime: str
    before: str
    after: str

    def summary(self) -> str:
        """What came of it, in one or two sentences."""
        if not self.after:
            return f"{self.runtime} builds the model{', and rejected the original' if self.before else ''}."
        return (
            f"{self.runtime} rejects the {'model' if self.before else 'repaired model, not the original'}. {self.after}"
        )

    def document(self) -> dict[str, Any]:
        """The same as plain data."""
        return {"runtime": self.runtime, "before": self.before, "after": self.after}


def built(targets: Sequence[Target], original: str | bytes, fixed: ir.Model | None) -> Engines | None:
    """Builds both models, each in a process of its own; None where TensorRT-RTX is no target, or not installed.

    Args:
        targets: The targets.
        original: The file, or its content.
        fixed: The repaired model; None: nothing was repaired.
    """
    version = tensorrt_rtx.version()
    if not version or not any(each.name == tensorrt_rtx.NAME for each in targets):
        return None
    with tempfile.TemporaryDirectory() as folder:
        path = original if isinstance(original, str) else os.path.join(folder, "original.onnx")
        if isinstance(original, bytes):
            with open(path, "wb") as file:
                file.write(original)
        before = after = _refusal(path)
        if fixed is not None:
            path = os.path.join(folder, "fixed.onnx")
            writer.save(fixed, path)
            after = _refusal(path)
    return Engines(f"{tensorrt_rtx.TITLE} {version}", before, after)


def _refusal(path: str) -> str:
    """Why a file is rejected; "": it is built."""
    from opbridge.runtimes.tensorrt_rtx.engines import build_engine

    try:
        build_engine(path)
    except ModelFileError as error:
        return str(error)
    return ""
