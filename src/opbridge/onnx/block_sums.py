"""The sum of sliding blocks, which Col2Im gives, in operators that every runtime has.

Along one dimension, the elements of one place in all blocks stand `stride` apart in the result: they are spread with
zeros between them, moved by the place's distance from the begin of the block, and added. The dimensions follow one
another. No element is multiplied, so that infinities and nans stay where they are. In a ConvTranspose they do not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

__all__ = ["summed_blocks"]


def summed_blocks(
    emit: Callable[..., Any],
    reshape: Callable[[Any, list[Any]], Any],
    columns: Any,
    counts: Sequence[Any],
    *,
    block: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
) -> Any:
    """The images that blocks add up to, with their padding and what of it no block reaches, some zeros more at the end.

    Args:
        emit: Builds a standard operator in a form that opsets 11 to 17 share, from its name, inputs and attributes.
        reshape: Gives a value other sizes after the first two, the batch and the channels.
        columns: The blocks, of shape (batch, channels * elements of a block, blocks).
        counts: How many blocks there are along each dimension.
        block: The sizes of a block.
        strides: The distance between blocks, along each dimension.
        dilations: The distance between the elements of a block, along each dimension.

    Returns:
        For each dimension, at least as many elements as the image has with its padding.
    """
    rank = len(block)
    if any(stride > 1 for stride in strides):
        apart = reshape(columns, [*block, *(size for count in counts for size in (count, 1))])
        zeros = [0] * (2 + rank) + [size for stride in strides for size in (0, stride - 1)]
        spread = emit("Pad", apart, [0] * len(zeros) + zeros)
        value = reshape(spread, [*block, *(count * stride for count, stride in zip(counts, strides, strict=True))])
    else:
        value = reshape(columns, [*block, *counts])
    for axis in reversed(range(rank)):
        parts = []
        for place in range(block[axis]):
            begin, end = [0] * (2 + axis + rank), [0] * (2 + axis + rank)
            begin[2 + 2 * axis] = place * dilations[axis]
            end[2 + 2 * axis] = (block[axis] - 1 - place) * dilations[axis]
            part = emit("Gather", value, place, axis=2 + axis)
            parts.append(emit("Pad", part, begin + end) if block[axis] > 1 else part)
        value = parts[0]
        for part in parts[1:]:
            value = emit("Add", value, part)
    return value
