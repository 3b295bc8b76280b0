"""Models of a few nodes, written in ONNX's own syntax."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import numpy_helper

__all__ = ["IMAGE", "model_of"]

IMAGE = "float[1, 3, 8, 8] x"
"""An input that is an image."""


def model_of(body, *, opset=20, constants=(), inputs="float[N, 4] x", outputs="y", domain=""):
    """A model of a body in ONNX's own syntax, with initializers by their names.

    Args:
        body: The nodes.
        opset: The opset of ONNX's operators.
        constants: Names and what they hold.
        inputs: The inputs, as in "float[2, 3] x, int64[1] k".
        outputs: The names of the outputs, whose types are not said.
        domain: A further domain to import.
    """
    imports = f'"" : {opset}' + (f', "{domain}" : 1' if domain else "")
    ends = ", ".join(f"float {each}" for each in outputs.split())
    model = onnx.parser.parse_model(f"<ir_version: 9, opset_import: [{imports}]> g ({inputs}) => ({ends}) {{ {body} }}")
    for value in model.graph.output:
        value.type.Clear()
    model.graph.initializer.extend(
        numpy_helper.from_array(np.asarray(found), name) for name, found in dict(constants).items()
    )
    return model
