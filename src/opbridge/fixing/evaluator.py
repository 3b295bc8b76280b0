"""The original by ONNX's reference evaluator, where ONNX Runtime refuses it and runs what it was repaired to."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import onnx

from opbridge.errors import OpbridgeError
from opbridge.runtimes.onnxruntime import open_session
from opbridge.side_by_side import SideBySide, in_float32, narrowed
from opbridge.side_by_side.running import compare_sessions

__all__ = ["compare_with_evaluator"]

_BFLOAT16 = onnx.TensorProto.BFLOAT16
_MOST_BYTES = 1 << 26
"""It is for small models: it runs in Python, and in this process."""


class _Evaluated:
    """The evaluator in the form of a session."""

    def __init__(self, evaluator: Any, like: Any) -> None:
        self._evaluator, self._like = evaluator, like

    def get_inputs(self) -> Any:
        """The inputs of the repaired model, which are the same."""
        return self._like.get_inputs()

    def get_outputs(self) -> Any:
        """Its outputs."""
        return self._like.get_outputs()

    def run(self, names: Sequence[str] | None, feeds: Mapping[str, Any]) -> Any:
        """The outputs."""
        return self._evaluator.run(None if names is None else list(names), dict(feeds))


def compare_with_evaluator(original: str | bytes, new: str | Path | bytes) -> SideBySide | None:
    """As `side_by_side.compare`; None where the evaluator does not take the original, or the new model does not load.

    Args:
        original: The file, or its content.
        new: The file, or its content.
    """
    from onnx.reference import ReferenceEvaluator

    if (len(original) if isinstance(original, bytes) else os.path.getsize(original)) > _MOST_BYTES:
        return None
    try:
        model = onnx.ModelProto.FromString(original) if isinstance(original, bytes) else onnx.load(original)
        wide = any(each.type.tensor_type.elem_type == _BFLOAT16 for each in (*model.graph.input, *model.graph.output))
        evaluator = ReferenceEvaluator(onnx.ModelProto.FromString(in_float32(model)) if wide else model)
    except Exception:  # it raises anything for a model that it does not take
        return None
    try:
        given = in_float32(new) if wide else new if isinstance(new, bytes) else str(new)
        second = open_session(given, True, optimised=False)
    except OpbridgeError:
        return None
    first: Any = _Evaluated(evaluator, second)
    found = compare_sessions(narrowed(first), narrowed(second)) if wide else compare_sessions(first, second)
    note = "ONNX Runtime cannot load the original model; the ONNX reference evaluator was used for it instead."
    return dataclasses.replace(found, note=f"{note} {found.note}".rstrip())
