"""Col2Im as a ConvTranspose whose weights put each element in its place."""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir

from opbridge.fixing.site import Refused, Site, repair


@repair("missing-operator", "no-kernel", operators=["Col2Im"])
def as_convolution(site: Site) -> str:
    """Each element of a block is a channel; its weights are 1 at its place in the block, and 0 elsewhere."""
    step = site.step()
    image, block = step.known(1, "sizes of the image"), step.known(2, "sizes of the block")
    if image is None or block is None or len(image) > 3:
        raise Refused("of more than three dimensions")
    if step.dtype(step.data) not in (ir.DataType.FLOAT, ir.DataType.FLOAT16):
        raise Refused("of types other than float32 and float16")
    rank = len(image)
    strides = step.integers("strides") or [1] * rank
    dilations = step.integers("dilations") or [1] * rank
    pads = step.integers("pads") or [0] * (2 * rank)
    counts, further = [], []
    for axis in range(rank):
        span = image[axis] + pads[axis] + pads[rank + axis] - dilations[axis] * (block[axis] - 1) - 1
        if span < 0:
            raise Refused("of blocks larger than the image")
        counts.append(span // strides[axis] + 1)
        further.append(span % strides[axis])
    within = math.prod(block)
    channels = step.shape(step.data)
    size = None if channels is None else channels[1]
    if not isinstance(size, int) or size % within:
        raise Refused("of a dynamic number of channels")
    dtype = step.dtype(step.data)
    weights = step.number(np.eye(within).reshape(within, 1, *block), dtype)
    columns = step.emit("Reshape", step.data, step.number([-1, within, *counts]))
    if any(further) and any(extra >= max(a, b) for extra, a, b in zip(further, strides, dilations, strict=True)):
        raise Refused("whose blocks skip too much of the image")
    folded = step.emit(
        "ConvTranspose",
        columns,
        weights,
        strides=strides,
        dilations=dilations,
        pads=pads,
        output_padding=further if any(further) else None,
    )
    result = step.emit("Reshape", folded, step.number([-1, size // within, *image]))
    site.put(step, result)
    return "replaced Col2Im by ConvTranspose"
