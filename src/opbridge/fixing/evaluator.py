"""The original by ONNX's reference evaluator, where ONNX Runtime refuses it and runs what it was repaired to."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from opbridge.errors import OpbridgeError
from opbridge.fixing.families.types import wanted_type
from opbridge.onnx import reading
from opbridge.rules.looking import Looked
from opbridge.rules.node_types import mixed_inputs
from opbridge.runtimes.onnxruntime import open_session
from opbridge.side_by_side import SideBySide, in_float32, narrowed
from opbridge.side_by_side.running import compare_sessions

__all__ = ["compare_with_evaluator"]

_BFLOAT16 = onnx.TensorProto.BFLOAT16
_MOST_BYTES = 1 << 26
"""It is for small models: it runs in Python, and in this process."""


class _Evaluated:
    """The evaluator in the form of a session, whose outputs have the types that the model says."""

    def __init__(self, evaluator: Any, like: Any, model: onnx.ModelProto) -> None:
        self._evaluator, self._like = evaluator, like
        said = [(each.name, each.type.tensor_type.elem_type) for each in model.graph.output]
        self._names = [name for name, _ in said]
        self._types = {name: ir.DataType(dtype).numpy() for name, dtype in said if dtype}

    def get_inputs(self) -> Any:
        """The inputs of the repaired model, which are the same."""
        return self._like.get_inputs()

    def get_outputs(self) -> Any:
        """Its outputs."""
        return self._like.get_outputs()

    def run(self, names: Sequence[str] | None, feeds: Mapping[str, Any]) -> Any:
        """The outputs."""
        wanted = self._names if names is None else list(names)
        found = self._evaluator.run(wanted, dict(feeds))
        return [self._typed(name, each) for name, each in zip(wanted, found, strict=True)]

    def _typed(self, name: str, value: Any) -> Any:
        dtype = self._types.get(name)
        return value.astype(dtype) if isinstance(value, np.ndarray) and dtype not in (None, value.dtype) else value


def compare_with_evaluator(
    original: str | bytes, new: str | Path | bytes, inputs: Sequence[np.ndarray] | None = None
) -> SideBySide | None:
    """As `side_by_side.compare`; None where the evaluator does not take the original, or the new model does not load.

    Operators whose inputs differ in type are computed in the type that PyTorch promotes them to.

    Args:
        original: The file, or its content.
        new: The file, or its content.
        inputs: The inputs, in the order of the model's; None: random ones.
    """
    from onnx.reference import ReferenceEvaluator

    if (len(original) if isinstance(original, bytes) else os.path.getsize(original)) > _MOST_BYTES:
        return None
    try:
        model = onnx.ModelProto.FromString(original) if isinstance(original, bytes) else onnx.load(original)
        wide = any(each.type.tensor_type.elem_type == _BFLOAT16 for each in (*model.graph.input, *model.graph.output))
        evaluated = onnx.ModelProto.FromString(in_float32(model)) if wide else model
        promoting = _promoting(original)
        evaluator = ReferenceEvaluator(evaluated, new_ops=promoting)
    except Exception:  # it raises anything for a model that it does not take
        return None
    try:
        given = in_float32(new) if wide else new if isinstance(new, bytes) else str(new)
        second = open_session(given, True, optimised=False)
    except OpbridgeError:
        return None
    first: Any = _Evaluated(evaluator, second, evaluated)
    sessions = (narrowed(first), narrowed(second)) if wide else (first, second)
    found = compare_sessions(*sessions, inputs)
    if found.rejected:
        return found
    note = "ONNX Runtime does not run the original model; the ONNX reference evaluator was used for it instead"
    note += ", with inputs of different types promoted as in PyTorch." if promoting else "."
    return dataclasses.replace(found, note=f"{note} {found.note}".rstrip())


def _promoting(model: str | bytes) -> list[type[Any]]:
    """The evaluator's operators of a model, for one in which some have inputs that differ in type; else none."""
    looked = Looked(reading.load_with_clashes(model))
    standard = [each for each in looked.nodes if each.domain in ("", "ai.onnx") and each not in looked.malformed]
    if not any(mixed_inputs(each.op_type, looked.opset, looked.types_of_inputs(each)) for each in standard):
        return []
    made = (_promoting_operator(name, looked.opset) for name in sorted({each.op_type for each in standard}))
    return [each for each in made if each is not None]


def _promoting_operator(op_type: str, opset: int) -> type[Any] | None:
    """An operator of the evaluator that computes inputs of one type variable in one type."""
    from onnx.reference.ops import load_op

    try:
        base = load_op("", op_type, opset)
    except Exception:  # it has no such operator, or only as a function of others
        return None
    if not isinstance(base, type):
        return None
    plain: Any = base

    def run(self: Any, *inputs: Any, **options: Any) -> Any:
        given = list(inputs)
        types = [ir.DataType.from_numpy(each.dtype) if isinstance(each, np.ndarray) else None for each in given]
        for places in mixed_inputs(op_type, opset, types):
            dtype = wanted_type(op_type, [(each, given[at].ndim == 0) for at, each in places.items()])
            for at in places:
                given[at] = given[at] if dtype is None else given[at].astype(dtype.numpy())
        return plain.run(self, *given, **options)

    schema = onnx.defs.get_schema(op_type, opset, "")
    return type(op_type, (base,), {"run": run, "op_domain": "", "op_schema": schema})
