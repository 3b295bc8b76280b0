"""Which dimensions of a model's inputs vary over its calls, and what they are called."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import torch

__all__ = ["Dimension", "varying"]

_OF_IMAGES = {4: {2: "height", 3: "width"}, 5: {2: "frames", 3: "height", 4: "width"}}
_SQUARE = ("height", "width")


@dataclass(frozen=True)
class Dimension:
    """Dimensions that vary in step: of one size in each call, and not of the same in all.

    Attributes:
        name: What they are called: "batch", "x_dim_1".
        places: The number of the input among the leaves, and the axis, of each.
        sizes: Its size in each of the distinct shapes.
    """

    name: str
    places: tuple[tuple[int, int], ...]
    sizes: tuple[int, ...]


def varying(
    names: Sequence[str], tensors: Sequence[object], shapes: Sequence[Sequence[tuple[int, ...] | None]]
) -> list[Dimension]:
    """The dimensions that vary.

    1. Dimensions with the same sizes in every call are one, also those of several inputs.
    2. Those of images, videos and sequences are called "height", "width", "frames" and "length", height and width that
       vary in step "size"; the first of a tensor of two or more "batch".
    3. Where a name does not fit, or another dimension has it, it is made of the input's: "x_dim_1".

    Args:
        names: The place of each leaf of the inputs.
        tensors: The leaves of one call.
        shapes: For each call, the shape of each leaf; None for one that is no tensor.
    """
    found: dict[tuple[int, ...], list[tuple[int, int]]] = {}
    for leaf, tensor in enumerate(tensors):
        for axis in range(tensor.dim() if isinstance(tensor, torch.Tensor) else 0):
            sizes = tuple(_size(call[leaf], axis) for call in shapes)
            if len(set(sizes)) > 1:
                found.setdefault(sizes, []).append((leaf, axis))
    dimensions: list[Dimension] = []
    for sizes, places in found.items():
        taken = {each.name for each in dimensions}
        name = next((each for each in _candidates(places, tensors) if each not in taken), None)
        if name is None:
            leaf, axis = places[0]
            name = f"{re.sub(r'[^0-9A-Za-z]+', '_', names[leaf]).strip('_')}_dim_{axis}"
        dimensions.append(Dimension(name, tuple(places), sizes))
    return dimensions


def _size(shape: tuple[int, ...] | None, axis: int) -> int:
    assert shape is not None  # calls of one signature have tensors in the same places
    return shape[axis]


def _candidates(places: Sequence[tuple[int, int]], tensors: Sequence[object]) -> list[str]:
    """The usual names for dimensions at these places, the best first."""
    of_images, of_batches, of_sequences = [], [], []
    for leaf, axis in places:
        tensor = tensors[leaf]
        assert isinstance(tensor, torch.Tensor)
        if axis == 0:
            of_batches += ["batch"] if tensor.dim() > 1 else []
        elif tensor.is_floating_point() and axis in _OF_IMAGES.get(tensor.dim(), ()):
            of_images.append(_OF_IMAGES[tensor.dim()][axis])
        elif axis == 1 and tensor.dim() in (2, 3):
            of_sequences.append("length")
    if set(_SQUARE) <= set(of_images):
        return ["size"]
    return of_images or of_batches[:1] or of_sequences
