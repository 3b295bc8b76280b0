"""Models whose inputs or outputs are of bfloat16, which NumPy and so ONNX Runtime's Python interface do not have."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx

__all__ = ["has_bfloat16", "in_float32", "narrowed"]

_BFLOAT16, _FLOAT = onnx.TensorProto.BFLOAT16, onnx.TensorProto.FLOAT
_SUFFIX = "_given_in_float32"


def has_bfloat16(session: Any) -> bool:
    """Whether an input or an output of a session is of bfloat16."""
    return any(each.type == "tensor(bfloat16)" for each in (*session.get_inputs(), *session.get_outputs()))


def in_float32(content: str | bytes | Path | onnx.ModelProto) -> bytes:
    """The model with inputs and outputs of float32 in the place of bfloat16, cast at its ends.

    Args:
        content: The file, its content, or the model.
    """
    model = onnx.ModelProto()
    if isinstance(content, onnx.ModelProto):
        model.CopyFrom(content)
    elif isinstance(content, bytes):
        model.ParseFromString(content)
    else:
        model = onnx.load(content)
    nodes = list(model.graph.node)
    first, last = [], []
    for value in model.graph.input:
        if value.type.tensor_type.elem_type == _BFLOAT16:
            first.append(onnx.helper.make_node("Cast", [value.name + _SUFFIX], [value.name], to=_BFLOAT16))
            value.name, value.type.tensor_type.elem_type = value.name + _SUFFIX, _FLOAT
    for value in model.graph.output:
        if value.type.tensor_type.elem_type == _BFLOAT16:
            last.append(onnx.helper.make_node("Cast", [value.name], [value.name + _SUFFIX], to=_FLOAT))
            value.name, value.type.tensor_type.elem_type = value.name + _SUFFIX, _FLOAT
    del model.graph.node[:]
    model.graph.node.extend([*first, *nodes, *last])
    return model.SerializeToString()


class _Narrowed:
    """A session of such a model, whose results are of bfloat16 again: rounding is that of bfloat16."""

    def __init__(self, session: Any) -> None:
        self._session = session
        self.get_inputs: Callable[[], Any] = session.get_inputs
        self.get_outputs: Callable[[], Any] = session.get_outputs

    def run(self, names: Sequence[str] | None, feeds: Mapping[str, Any]) -> list[Any]:
        """The outputs."""
        found = self._session.run(names, feeds)
        names = [each.name for each in self.get_outputs()] if names is None else names
        return [
            np.asarray(value).astype(ml_dtypes.bfloat16) if name.endswith(_SUFFIX) else value
            for name, value in zip(names, found, strict=True)
        ]

    def close(self) -> None:
        """Ends the session's process, where it has one."""
        if hasattr(self._session, "close"):
            self._session.close()


def narrowed(session: Any) -> Any:
    """A session of what `in_float32` gives, with results of bfloat16."""
    return _Narrowed(session)
