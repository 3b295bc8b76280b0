"""Overlap of rotated boxes, by opbridge's kernel."""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir
from onnxscript import opset18 as op

from opbridge.translations.lib.dtypes import const
from opbridge.translations.lib.kernel_nodes import kernel
from opbridge.translations.registry import builtin


@builtin("torchvision::box_iou_rotated")
def box_iou_rotated(boxes1, boxes2):
    """box_iou_rotated(Tensor boxes1, Tensor boxes2) -> Tensor"""
    # torchvision's angles are in degrees and counted counter-clockwise, the kernel's in radians.
    units = const(np.array([1.0, 1.0, 1.0, 1.0, math.pi / 180.0]), boxes1.dtype)
    overlap = kernel("box_iou_rotated", [op.Mul(boxes1, units), op.Mul(boxes2, units)], aligned=0, clockwise=0)
    overlap.type = ir.TensorType(boxes1.dtype)
    return overlap
