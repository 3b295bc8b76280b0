"""Fresh inputs that a model can take wherever it takes the example's.

A model says nothing of what its inputs may hold; the example does. Token ids are below the vocabulary's size because
the example's are, probabilities lie in [0, 1], a mask of ones masks nothing. So every fresh tensor is drawn from what
is seen in the example's tensor, by the first of these rules that fits:

1. *constant*: all elements are equal, or there are none. It stays as it is.
2. *ordered* integers or truth values (position ids, arange, offsets, causal or padding masks). They stay as they are.
3. *two-valued* tensors, or floats with infinities or NaNs (masks). Each row, along the last dimension, is shuffled, so
   that a row keeps its share of each value.
4. *boxes*: floats of shape (N, 4) or (N, 5) whose last columns are corners x1 <= x2, y1 <= y2, as detection operators
   take them. The corners move inwards; the first of five columns (the image's number) stays.
5. *whole* numbers. Integers between the example's least and greatest; distinct where the example's are distinct.
6. *ordered* floats (bin edges, time steps). As rule 7, then sorted along the last dimension in the example's direction.
7. Other floats: the example's own distribution, every value between its least and its greatest. Complex ones: the real
   and the imaginary part, each by these rules.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Container, Mapping
from typing import Any

import torch
from torch.utils import _pytree as pytree

__all__ = ["Kind", "fresh_inputs", "fresh_tensor", "kind_of"]

_MOST_ORDER_STATISTICS = 4096
_LARGEST_DISTINCT_RANGE = 1 << 22
_SHORTEST_SEQUENCE = 3
_SHORTEST_ORDERED_ROW = 4


class Kind(enum.Enum):
    """What the values of an example tensor look like; the rules above."""

    CONSTANT = "constant"
    ORDERED = "ordered"
    SHUFFLED = "two-valued"
    BOXES = "boxes"
    WHOLE = "whole numbers"
    SORTED = "ordered floats"
    REAL = "floats"
    COMPLEX = "complex"

    @property
    def is_kept(self) -> bool:
        """Whether a fresh tensor of the same shape is the example's again."""
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
    """Inputs with the example's structure and fresh tensors in it.

    Args:
        args: The example's positional inputs, nested as the model takes them.
        kwargs: The example's keyword inputs.
        seed: The same seed gives the same values.
        shapes: Other shapes for some of the tensors, by their number among the leaves of `(args, kwargs)`.
        numbers: Other values for some of the Python numbers, likewise.
        kept: The leaves that stay as they are.
    """
    leaves, structure = pytree.tree_flatten((args, dict(kwargs)))
    fresh = []
    for position, leaf in enumerate(leaves):
        if numbers and position in numbers:
            leaf = numbers[position]
        elif isinstance(leaf, torch.Tensor) and position not in kept:
            # A generator for each tensor: what one of them draws does not depend on the others.
            generator = torch.Generator().manual_seed((seed * 1_000_003 + position) % (1 << 63))
            leaf = fresh_tensor(leaf, generator, (shapes or {}).get(position))
        fresh.append(leaf)
    return pytree.tree_unflatten(fresh, structure)


def fresh_tensor(
    example: torch.Tensor, generator: torch.Generator, shape: tuple[int, ...] | None = None
) -> torch.Tensor:
    """A fresh tensor like the example.

    Args:
        example: Any dtype, any device. A sparse or quantized one is returned as it is.
        generator: Where the values are drawn from, on the CPU.
        shape: The shape, of the example's rank; the example's own by default.

    Returns:
        A tensor that shares no memory with the example, of its dtype, on its device; of its memory layout too where the
        shape is the same.
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


def kind_of(example: torch.Tensor) -> Kind:
    """What the values of an example tensor look like; the first rule that fits."""
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
    if not example.is_floating_point() and _is_ordered(values):
        return Kind.ORDERED
    if values.numel() > 2 and bool(((values == least) | (values == greatest)).all()):
        return Kind.SHUFFLED
    if not example.is_floating_point():
        return Kind.SHUFFLED if example.dtype == torch.bool else Kind.WHOLE
    if _is_boxes(values):
        return Kind.BOXES
    if values.shape[-1] >= _SHORTEST_SEQUENCE and _direction(values):
        return Kind.SORTED
    return Kind.WHOLE if bool((values == values.round()).all()) else Kind.REAL


def _draw(example: torch.Tensor, generator: torch.Generator, shape: tuple[int, ...]) -> torch.Tensor:
    """The fresh values, in the example's dtype, on the CPU; perhaps the example's own tensor."""
    kind = kind_of(example)
    if example.is_complex():
        parts = torch.view_as_real(example.resolve_conj()).unbind(-1)
        return torch.view_as_complex(torch.stack([_draw(part, generator, shape) for part in parts], -1).contiguous())
    if kind is Kind.ORDERED:
        return _continued(example, shape)
    values = _stretched(_computable(example), shape)
    if values.numel() == 0 or kind is Kind.CONSTANT:
        return values.to(example.dtype)
    if kind is Kind.SHUFFLED:
        return _shuffled(values, generator).to(example.dtype)
    if kind is Kind.BOXES:
        return _moved_boxes(values, generator).to(example.dtype)
    original = _computable(example)
    if kind is Kind.WHOLE:
        return _whole(original, generator, shape).to(example.dtype)
    drawn = _like_distribution(original, generator, shape)
    if kind is Kind.SORTED:
        drawn = drawn.sort(dim=-1, descending=_direction(original) < 0).values
    # Rounding to the dtype must not leave the example's range either; it cannot, as the ends are numbers of the dtype.
    return drawn.to(example.dtype)


def _computable(tensor: torch.Tensor) -> torch.Tensor:
    """The same values as int64, float64 or float32: not every dtype has a minimum or comes in random."""
    if tensor.is_floating_point():
        return tensor if tensor.dtype in (torch.float32, torch.float64) else tensor.float()
    return tensor.to(torch.int64)


def _all_alike(values: torch.Tensor) -> bool:
    first = values.reshape(-1)[0]
    return bool((values.isnan() if bool(first.isnan()) else values == first).all())


def _steps(values: torch.Tensor) -> tuple[int, int] | None:
    """The dimension along which all elements grow by the same step, and that step."""
    for dim in range(values.dim() - 1, -1, -1):
        if values.shape[dim] >= _SHORTEST_SEQUENCE:
            steps = values.diff(dim=dim)
            step = int(steps.reshape(-1)[0])
            if step != 0 and bool((steps == step).all()):
                return dim, step
    return None


def _direction(values: torch.Tensor) -> int:
    """1 where every row of the last dimension grows or stays, -1 where it falls or stays, 0 otherwise."""
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


def _is_boxes(values: torch.Tensor) -> bool:
    if values.dim() != 2 or values.shape[1] not in (4, 5):
        return False
    left, top, right, bottom = values[:, -4:].unbind(1)
    if values.shape[1] == 5 and not bool((values[:, 0] == values[:, 0].round()).all()):
        return False
    return bool(((left < right) & (top < bottom)).all())


def _stretched(values: torch.Tensor, shape: tuple[int, ...]) -> torch.Tensor:
    """The tensor at another size of its own rank, each element from the nearest place."""
    for dim, size in enumerate(shape):
        if size != values.shape[dim]:
            if values.shape[dim] == 0:
                values = values.new_zeros(())  # nothing to take values from
                return values.expand(shape).clone()
            values = values.index_select(dim, torch.arange(size) * values.shape[dim] // max(size, 1))
    return values


def _continued(example: torch.Tensor, shape: tuple[int, ...]) -> torch.Tensor:
    """Ordered values at another size: a sequence with a constant step goes on with it."""
    found = _steps(_computable(example))
    if found is None or tuple(example.shape) == shape:
        return _stretched(_computable(example), shape).to(example.dtype)
    dim, step = found
    sizes = tuple(example.shape[each] if each == dim else size for each, size in enumerate(shape))
    start = _stretched(_computable(example), sizes).narrow(dim, 0, 1)
    along = [1] * len(shape)
    along[dim] = shape[dim]
    return (start + step * torch.arange(shape[dim]).reshape(along)).to(example.dtype)


def _shuffled(values: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Each row in another order; all elements where the rows are of one element or alike throughout."""
    order = torch.rand(values.shape, generator=generator)
    if values.dim() < 2 or values.shape[-1] == 1 or bool((values == values[..., :1]).all()):
        return values.reshape(-1)[order.reshape(-1).argsort()].reshape(values.shape)
    return values.gather(-1, order.argsort(dim=-1))


def _moved_boxes(values: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Each corner moves towards the box's middle by up to four tenths of the box."""
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
    """Values from the example's empirical distribution, straight lines between its order statistics."""
    flat = values.reshape(-1)
    if flat.numel() > _MOST_ORDER_STATISTICS:
        chosen = torch.randint(flat.numel(), (_MOST_ORDER_STATISTICS,), generator=generator)
        flat = torch.cat([flat[chosen], values.min().reshape(1), values.max().reshape(1)])
    ladder = flat.double().sort().values
    place = torch.rand(shape, generator=generator, dtype=torch.float64) * (ladder.numel() - 1)
    below = place.long().clamp_(max=ladder.numel() - 2)
    return torch.lerp(ladder[below], ladder[below + 1], place - below)
