"""Fresh inputs with random values, which a model accepts if it accepts the example inputs.

A model does not declare the values that its inputs may have. The example shows them: token ids are less than the size
of the vocabulary, probabilities are in [0, 1], a mask is all ones. So the values of a fresh tensor are drawn according
to the example's tensor, by the first of these rules that applies:

1. *constant*: all elements are equal, or there are none. The tensor is not changed.
2. *padding masks*: rows of ones and then zeros, or zeros and then ones, two-dimensional integers or bools. For every
   second seed all elements are as in a row of the example that is alike throughout, as nothing is padded there, or else
   ones: sequences of one length, which models treat apart. Else the tensor is not changed.
   Other *ordered* integers or bools (position ids, arange, causal masks) are not changed. Ordered offsets and lengths
   are domains, the next rule.
3. A *domain* of `opbridge.verification.domains`: invertible matrices, probabilities, one-hot, unit vectors, offsets,
   lengths.
4. *two-valued* tensors, or floats with infinities or NaNs (masks). Each row, along the last dimension, is shuffled, so
   that it has the same number of each value.
5. *boxes*: floats of shape (N, 4) or (N, 5) whose last columns are corners x1 < x2, y1 < y2, as for detection
   operators. The corners move inwards; the first of five columns (the index of the image) is not changed
   unless the batch is smaller.
6. *whole* numbers. Integers from the example's minimum to its maximum; distinct if the example's are distinct.
7. *ordered* floats (bin edges, time steps). As rule 8, then sorted along the last dimension in the example's direction.
8. Other floats: the empirical distribution of the example, from its minimum to its maximum. Complex tensors: the real
   and the imaginary part, each by these rules.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Container, Mapping, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from opbridge.verification.domains import Domain, domain_of, resized

__all__ = ["Kind", "fresh_inputs", "fresh_tensor", "kind_of"]

_MAX_ORDER_STATISTICS = 4096
_LARGEST_DISTINCT_RANGE = 1 << 22
_SHORTEST_SEQUENCE = 3
_SHORTEST_ORDERED_ROW = 4
_BOX_OF_IMAGE = 5
"""The columns of boxes that have the index of their image before the corners."""


class Kind(enum.Enum):
    """The kinds of values of an example tensor, one for each rule of this module but that of the domains."""

    CONSTANT = "constant"
    ORDERED = "ordered"
    PADDING = "padding mask"
    SHUFFLED = "two-valued"
    BOXES = "boxes"
    WHOLE = "whole numbers"
    SORTED = "ordered floats"
    REAL = "floats"
    COMPLEX = "complex"

    @property
    def is_kept(self) -> bool:
        """Whether a fresh tensor of the same shape has the example's values."""
        return self in (Kind.CONSTANT, Kind.ORDERED)


def fresh_inputs(
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    seed: int,
    *,
    shapes: Mapping[int, tuple[int, ...]] | None = None,
    numbers: Mapping[int, int] | None = None,
    kept: Container[int] = (),
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Inputs with the structure of the example inputs and fresh tensors.

    Args:
        args: The example's positional inputs, nested as the model takes them.
        kwargs: The example's keyword inputs.
        seed: The same seed gives the same values.
        shapes: New shapes of tensors, by their position among the leaves of `(args, kwargs)`.
        numbers: New values of Python numbers, by their position.
        kept: The positions of leaves that are not changed.
    """
    leaves, structure = pytree.tree_flatten((args, dict(kwargs)))
    fresh = []
    for position, leaf in enumerate(leaves):
        if numbers and position in numbers:
            leaf = numbers[position]
        elif isinstance(leaf, torch.Tensor) and position not in kept:
            # One generator for each tensor, so that its values do not depend on the other tensors.
            generator = torch.Generator().manual_seed((seed * 1_000_003 + position) % (1 << 63))
            shape = (shapes or {}).get(position)
            leaf = fresh_tensor(_within_sizes(leaf, leaves, shapes) if shapes else leaf, generator, shape)
        fresh.append(leaf)
    return pytree.tree_unflatten(fresh, structure)


def fresh_tensor(
    example: torch.Tensor, generator: torch.Generator, shape: tuple[int, ...] | None = None
) -> torch.Tensor:
    """A fresh tensor like the example.

    Args:
        example: A tensor of any dtype on any device. A sparse or quantized one is returned itself.
        generator: A generator for the CPU.
        shape: The shape, of the same rank; None: the example's.

    Returns:
        A tensor of the example's dtype on its device that shares no memory with it; with its strides if the shape is
        the same.
    """
    if example.layout != torch.strided or example.is_quantized:
        return example
    source = example.detach().cpu()
    wanted = tuple(source.shape) if shape is None else tuple(shape)
    values = _draw(source, generator, wanted)
    if wanted == tuple(example.shape):
        result = torch.empty_like(example, requires_grad=False)
        return result.copy_(values)
    return values.to(example.device, copy=True)


def kind_of(example: torch.Tensor) -> Kind | Domain:
    """The kind of an example tensor, or its domain, by the first rule that applies."""
    if example.numel() == 0:
        return Kind.CONSTANT
    if example.is_complex():
        parts = torch.view_as_real(example.resolve_conj())
        return Kind.CONSTANT if all(kind_of(part).is_kept for part in parts.unbind(-1)) else Kind.COMPLEX
    values = _computable(example)
    if values.is_floating_point() and not bool(values.isfinite().all()):
        return Kind.CONSTANT if _all_alike(values) else Kind.SHUFFLED
    least, greatest = values.min(), values.max()
    if bool(least == greatest):
        return Kind.CONSTANT
    if not example.is_floating_point() and _is_count(values):
        return Kind.ORDERED
    domain = None if example.dtype == torch.bool else domain_of(values)
    if domain is not None:
        return domain
    if not example.is_floating_point() and _is_ordered(values):
        return Kind.PADDING if _is_padding(values) else Kind.ORDERED
    if values.numel() > 2 and bool(((values == least) | (values == greatest)).all()):
        return Kind.SHUFFLED
    if not example.is_floating_point():
        return Kind.SHUFFLED if example.dtype == torch.bool else Kind.WHOLE
    if _is_boxes(values):
        return Kind.BOXES
    if values.shape[-1] >= _SHORTEST_SEQUENCE and _direction(values):
        return Kind.SORTED
    return Kind.WHOLE if bool((values == values.round()).all()) else Kind.REAL


def _within_sizes(example: torch.Tensor, leaves: Sequence[Any], shapes: Mapping[int, tuple[int, ...]]) -> torch.Tensor:
    """Offsets or lengths, scaled as the dimension is that they are places in: the smallest that holds them all.

    The images of boxes are among those that there are.
    """
    if example.dim() == 2 and example.shape[1] == _BOX_OF_IMAGE and kind_of(example) is Kind.BOXES:
        return _of_images(example, leaves, shapes)
    if example.dim() != 1 or example.is_floating_point() or example.numel() < 2 or example.dtype == torch.bool:
        return example
    if not isinstance(kind_of(example), Domain) or (greatest := int(example.max())) < 1:
        return example
    tensors = [(position, leaf) for position, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
    sizes = [
        pair
        for position, leaf in tensors
        if leaf is not example
        for pair in zip(leaf.shape, shapes.get(position, leaf.shape), strict=True)
        if pair[0] >= greatest
    ]
    before, now = min(sizes, key=lambda pair: (pair[0], pair[0] == pair[1]), default=(1, 1))
    if before == now:
        return example
    scaled = example * now // before
    return scaled.clamp(min=1) if int(example.min()) > 0 else scaled


def _of_images(boxes: torch.Tensor, leaves: Sequence[Any], shapes: Mapping[int, tuple[int, ...]]) -> torch.Tensor:
    """Boxes with the index of an image in their first column, which is below the smallest batch that holds them all."""
    counts = [
        (leaf.shape[0], shapes.get(position, leaf.shape)[0])
        for position, leaf in enumerate(leaves)
        if isinstance(leaf, torch.Tensor) and leaf is not boxes and leaf.dim() > 2 and leaf.shape[0] > boxes[:, 0].max()
    ]
    before, now = min(counts, default=(0, 0))
    if now >= before:
        return boxes
    return torch.cat([boxes[:, :1].clamp(max=max(now - 1, 0)), boxes[:, 1:]], 1)


def _draw(example: torch.Tensor, generator: torch.Generator, shape: tuple[int, ...]) -> torch.Tensor:
    """The fresh values in the example's dtype, on the CPU. They may share memory with the example."""
    kind = kind_of(example)
    if example.is_complex():
        parts = torch.view_as_real(example.resolve_conj()).unbind(-1)
        return torch.view_as_complex(torch.stack([_draw(part, generator, shape) for part in parts], -1).contiguous())
    if isinstance(kind, Domain) and 0 not in shape and not (kind.is_matrix and shape[-1] != shape[-2]):
        return kind.draw(_computable(example), generator, shape, _like_distribution).to(example.dtype)
    if kind is Kind.PADDING and generator.initial_seed() % 2 == 0:
        return torch.full(shape, _unpadded(example), dtype=example.dtype)
    if kind in (Kind.ORDERED, Kind.PADDING):
        return _resized_sequence(example, shape)
    values = resized(_computable(example), shape)
    if values.numel() == 0 or kind is Kind.CONSTANT:
        return values.to(example.dtype)
    if kind is Kind.SHUFFLED:
        return _shuffled(values, generator).to(example.dtype)
    # Rows of another length are no boxes: random numbers can look like some.
    if kind is Kind.BOXES and shape[-1] == example.shape[-1]:
        return _moved_boxes(values, generator).to(example.dtype)
    original = _computable(example)
    if kind is Kind.WHOLE:
        return _whole(original, generator, shape).to(example.dtype)
    drawn = _like_distribution(original, generator, shape)
    if kind is Kind.SORTED:
        drawn = drawn.sort(dim=-1, descending=_direction(original) < 0).values
    # Rounding to the dtype stays within the example's range, as its bounds are numbers of the dtype.
    return drawn.to(example.dtype)


def _computable(tensor: torch.Tensor) -> torch.Tensor:
    """The values as int64, float64 or float32, as torch lacks operators for some other dtypes."""
    if tensor.is_floating_point():
        return tensor if tensor.dtype in (torch.float32, torch.float64) else tensor.float()
    return tensor.to(torch.int64)


def _all_alike(values: torch.Tensor) -> bool:
    first = values.reshape(-1)[0]
    return bool((values.isnan() if bool(first.isnan()) else values == first).all())


def _steps(values: torch.Tensor) -> tuple[int, int] | None:
    """The last dimension along which all elements increase by the same step, and the step; None if there is none."""
    for dim in range(values.dim() - 1, -1, -1):
        if values.shape[dim] >= _SHORTEST_SEQUENCE:
            steps = values.diff(dim=dim)
            step = int(steps.reshape(-1)[0])
            if step != 0 and bool((steps == step).all()):
                return dim, step
    return None


def _is_count(values: torch.Tensor) -> bool:
    """Whether elements increase by one step; by one itself where they start at 0, as offsets of equal parts do too."""
    found = _steps(values)
    return found is not None and (values.dim() > 1 or found[1] == 1 or int(values[0]) != 0)


def _direction(values: torch.Tensor) -> int:
    """1 if every row of the last dimension is non-decreasing, -1 if non-increasing, 0 otherwise."""
    if values.dim() == 0:
        return 0
    steps = values.diff(dim=-1)
    if steps.numel() == 0 or not bool(steps.any()):
        return 0
    if bool((steps >= 0).all()):
        return 1
    return -1 if bool((steps <= 0).all()) else 0


def _is_ordered(values: torch.Tensor) -> bool:
    if values.dim() == 0:
        return False
    return _steps(values) is not None or (values.shape[-1] >= _SHORTEST_ORDERED_ROW and _direction(values) != 0)


def _is_padding(values: torch.Tensor) -> bool:
    """Whether ordered integers are a padding mask: rows of ones and zeros, but no triangle, as a causal mask is."""
    if values.dim() != 2 or values.unique().tolist() != [0, 1] or _direction(values) == 0:
        return False
    is_square = values.shape[0] == values.shape[1]
    return not (is_square and (torch.equal(values, values.tril()) or torch.equal(values, values.triu())))


def _unpadded(example: torch.Tensor) -> int:
    """What a padding mask has where nothing is padded: what a row of the example has throughout, or else 1."""
    rows = _computable(example)
    alike = rows[(rows == rows[:, :1]).all(-1), 0].unique().tolist()
    return int(alike[0]) if len(alike) == 1 else 1


def _is_boxes(values: torch.Tensor) -> bool:
    if values.dim() != 2 or values.shape[1] not in (4, _BOX_OF_IMAGE):
        return False
    left, top, right, bottom = values[:, -4:].unbind(1)
    if values.shape[1] == _BOX_OF_IMAGE and not bool((values[:, 0] == values[:, 0].round()).all()):
        return False
    return bool(((left < right) & (top < bottom)).all())


def _resized_sequence(example: torch.Tensor, shape: tuple[int, ...]) -> torch.Tensor:
    """Ordered values in another shape: a sequence with a constant step is continued."""
    found = _steps(_computable(example))
    if found is None or tuple(example.shape) == shape:
        return resized(_computable(example), shape).to(example.dtype)
    dim, step = found
    sizes = tuple(example.shape[each] if each == dim else size for each, size in enumerate(shape))
    start = resized(_computable(example), sizes).narrow(dim, 0, 1)
    along = [1] * len(shape)
    along[dim] = shape[dim]
    return (start + step * torch.arange(shape[dim]).reshape(along)).to(example.dtype)


def _shuffled(values: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Each row shuffled; all elements together if each row has one element, or equal elements only."""
    order = torch.rand(values.shape, generator=generator)
    if values.dim() < 2 or values.shape[-1] == 1 or bool((values == values[..., :1]).all()):
        return values.reshape(-1)[order.reshape(-1).argsort()].reshape(values.shape)
    return values.gather(-1, order.argsort(dim=-1))


def _moved_boxes(values: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Boxes whose corners are moved towards the centre, by up to 0.4 of the box's size."""
    corners = values[:, -4:]
    low, high = corners[:, :2], corners[:, 2:]
    shares = torch.rand(corners.shape, generator=generator, dtype=values.dtype) * 0.4
    moved = torch.cat([low + shares[:, :2] * (high - low), high - shares[:, 2:] * (high - low)], dim=1)
    return torch.cat([values[:, :-4], moved], dim=1)


def _whole(values: torch.Tensor, generator: torch.Generator, shape: tuple[int, ...]) -> torch.Tensor:
    least, greatest, count = int(values.min()), int(values.max()), math.prod(shape)
    span = greatest - least + 1
    is_distinct = count <= span <= _LARGEST_DISTINCT_RANGE and values.unique().numel() == values.numel()
    if is_distinct:
        return (least + torch.randperm(span, generator=generator)[:count]).reshape(shape)
    if span >= 1 << 63:  # nearly all of int64: the sum below would overflow
        return values.reshape(-1)[torch.randint(values.numel(), (count,), generator=generator)].reshape(shape)
    return least + torch.randint(span, shape, generator=generator)


def _like_distribution(values: torch.Tensor, generator: torch.Generator, shape: tuple[int, ...]) -> torch.Tensor:
    """Values from the example's empirical distribution, interpolated linearly between its order statistics."""
    flat = values.reshape(-1)
    if flat.numel() > _MAX_ORDER_STATISTICS:
        chosen = torch.randint(flat.numel(), (_MAX_ORDER_STATISTICS,), generator=generator)
        flat = torch.cat([flat[chosen], values.min().reshape(1), values.max().reshape(1)])
    ordered = flat.double().sort().values
    place = torch.rand(shape, generator=generator, dtype=torch.float64) * (ordered.numel() - 1)
    below = place.long().clamp_(max=ordered.numel() - 2)
    return torch.lerp(ordered[below], ordered[below + 1], place - below)
