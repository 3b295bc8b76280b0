"""opbridge's shape inference against ONNX's, on whole models."""

from __future__ import annotations

import onnx
import onnx_ir as ir

from opbridge.onnx import shapes

__all__ = ["assert_shapes_agree"]


def assert_shapes_agree(model: onnx.ModelProto) -> int:
    """Infers the shapes of each node's outputs from the shapes that ONNX infers of its inputs, and compares.

    Two shapes agree where they have the same number of dimensions, and each size that both know is the same.

    Returns:
        The number of outputs whose shape both know.
    """
    opset = next(each.version for each in model.opset_import if each.domain == "")
    stripped = onnx.ModelProto()
    stripped.CopyFrom(model)
    del stripped.graph.value_info[:]
    for value in stripped.graph.output:
        value.type.tensor_type.ClearField("shape")
    inferred = ir.from_proto(onnx.shape_inference.infer_shapes(stripped, data_prop=True))
    compared = 0
    for node in inferred.graph:
        for output, ours in zip(node.outputs, shapes.infer(node, opset), strict=True):
            theirs = shapes.sizes(output)
            if ours is None or theirs is None:
                continue
            compared += 1
            place = f"{node.op_type} {node.name} ({[shapes.sizes(each) for each in node.inputs]}): {ours}, {theirs}"
            assert len(ours) == len(theirs), place
            for left, right in zip(ours, theirs, strict=True):
                assert left == right or not (isinstance(left, int) and isinstance(right, int)), place
    return compared
