"""What a reported problem is, and how its models are written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

__all__ = ["Problem", "model"]


@dataclass(frozen=True)
class Problem:
    """A problem that somebody reported.

    Attributes:
        identifier: Its place in the list of reports: "T3".
        what: What it is, in a few words.
        target: The target that it is reported of, with the release: "tensorrt:10.1".
        rule: The rule that has to find it.
        model: A model that has it.
        clean: Models of the same operators that the target takes.
        repairable: Whether `opbridge fix` has to repair it.
        until: The newest release of the target for which it is known; "": it is known to the newest.
        refused_by_rtx: Where TensorRT-RTX 1.7.1 refuses the model, "parse" or "build"; "": it builds it.
        kind: "limit" of the target, "fault" of a release, or "model" that is wrong or unusual itself.
    """

    identifier: str
    what: str
    target: str
    rule: str
    model: onnx.ModelProto
    clean: tuple[onnx.ModelProto, ...]
    repairable: bool = False
    kind: str = "limit"
    until: str = ""
    refused_by_rtx: str = ""


def model(
    graph: str,
    opset: int = 17,
    ir_version: int = 8,
    constants: Mapping[str, Any] | None = None,
    shapes: Mapping[str, tuple[int, list[int | str]]] | None = None,
    domain: str = "",
) -> onnx.ModelProto:
    """A model in ONNX's own syntax: "(float[n] x) => (float[n] y) { y = Relu (x) }".

    Args:
        graph: The graph without its name.
        opset: The opset of ONNX's operators.
        ir_version: The version of the format.
        constants: Initializers by their names.
        shapes: What the file says of inner values: element type and shape by name.
        domain: A further domain to import.
    """
    imports = f'"" : {opset}' + (f', "{domain}" : 1' if domain else "")
    made = onnx.parser.parse_model(f"<ir_version: {ir_version}, opset_import: [{imports}]> g {graph}")
    for name, value in (constants or {}).items():
        made.graph.initializer.append(numpy_helper.from_array(np.asarray(value), name))
    for name, (dtype, shape) in (shapes or {}).items():
        made.graph.value_info.append(onnx.helper.make_tensor_value_info(name, dtype, shape))
    return made
