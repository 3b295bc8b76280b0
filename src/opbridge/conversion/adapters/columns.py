"""Sliding blocks that add up to images."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import onnx_ir as ir

from opbridge.conversion.step import Step, lower
from opbridge.onnx.block_sums import summed_blocks


@lower(18, "Col2Im", says="composed of Pad and Add")
def _col2im_18(step: Step) -> Sequence[ir.Value]:
    image, block = step.known(1, "the sizes of the image"), step.known(2, "the sizes of the block")
    assert image is not None and block is not None
    rank = len(block)
    strides = step.integers("strides") or [1] * rank
    dilations = step.integers("dilations") or [1] * rank
    pads = step.integers("pads") or [0] * (2 * rank)
    padded = [image[axis] + pads[axis] + pads[rank + axis] for axis in range(rank)]
    counts = [(padded[axis] - dilations[axis] * (block[axis] - 1) - 1) // strides[axis] + 1 for axis in range(rank)]
    sizes = step.shape(step.data)
    size = None if sizes is None else sizes[1]
    # One of the first two sizes may be left to Reshape; 0 is the size that there is.
    first = [-1, size // math.prod(block)] if isinstance(size, int) else [0, -1]

    def reshape(value: Any, sizes: list[Any]) -> Any:
        return step.emit("Reshape", value, [*first, *sizes])

    given: dict[str, Any] = {"block": block, "strides": strides, "dilations": dilations}
    summed = summed_blocks(step.emit, reshape, step.data, counts, **given)
    ends = [pads[axis] + image[axis] for axis in range(rank)]
    return [step.emit("Slice", summed, pads[:rank], ends, [2 + axis for axis in range(rank)])]
