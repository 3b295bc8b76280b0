"""Two tensors under a tolerance: what PyTorch gave and what a runtime gave."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch

__all__ = ["Comparison", "Tolerance", "compare", "dtype_name", "exact", "rms", "tolerance"]

_CHUNK = 1 << 22
"""Elements that are compared at a time: the arithmetic is done in float64, and should not double a large output."""

_ROUNDING = 4
"""In units of eps: an output with an RMS below that is what rounding leaves of values near 1, and has no digits.

The eps is float32's for narrower dtypes too: they are summed up in float32, and a softmax in float16 has digits.
"""


@dataclass(frozen=True)
class Tolerance:
    """How far two values may lie apart: `|actual - expected| <= absolute + relative * |expected|`.

    Attributes:
        relative: The part that grows with the expected value.
        absolute: The part that every element is allowed.
        origin: Where the two come from, for a person.
    """

    relative: float
    absolute: float
    origin: str

    @property
    def is_exact(self) -> bool:
        return self.relative == 0 and self.absolute == 0

    def __str__(self) -> str:
        return self.origin


_NOT_COMPARED = Tolerance(math.inf, math.inf, "random: not compared")


@dataclass(frozen=True)
class Comparison:
    """One tensor of PyTorch beside the same tensor of a runtime.

    Attributes:
        name: The output's name.
        dtype: PyTorch's dtype, "float32"; a complex tensor is compared as pairs and named by its own dtype.
        shape: PyTorch's shape, of the pairs where the tensor is complex.
        actual_dtype: The runtime's dtype.
        actual_shape: The runtime's shape.
        tolerance: What was allowed.
        absolute: The largest `|actual - expected|`; infinite where one is NaN or infinite and the other is not.
        relative: The largest of these differences over the element's magnitude or the tensor's RMS, whichever is
            greater. Elements near zero would otherwise drown every other.
        index: Where the difference is greatest in units of what is allowed; None where nothing differs at all.
        expected: PyTorch's value there.
        actual: The runtime's value there.
        excess: The difference there, in units of what is allowed.
        elements: How many elements there are.
        outside: How many of them lie outside the tolerance.
        random: The values are random and were not compared.
        reason: What differs beside the values: the shape or the dtype. The values are then not compared.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    actual_dtype: str
    actual_shape: tuple[int, ...]
    tolerance: Tolerance
    absolute: float = 0.0
    relative: float = 0.0
    index: tuple[int, ...] | None = None
    expected: float | int | bool | None = None
    actual: float | int | bool | None = None
    excess: float = 0.0
    elements: int = 0
    outside: int = 0
    random: bool = False
    reason: str | None = None

    @property
    def ok(self) -> bool:
        return self.reason is None and self.outside == 0

    def as_random(self, reason: str | None) -> Comparison:
        """The same for values that turn out to be random: nothing is said of them."""
        return Comparison(
            self.name,
            self.dtype,
            self.shape,
            self.actual_dtype,
            self.actual_shape,
            _NOT_COMPARED,
            elements=self.elements,
            random=True,
            reason=reason,
        )

    def __str__(self) -> str:
        if self.reason is not None:
            return f"'{self.name}': {self.reason}"
        if self.random:
            return f"'{self.name}' ({self._kind}): random, shape and dtype agree"
        if self.ok:
            return f"'{self.name}' ({self._kind}): agrees, absolute {self.absolute:.1e}, relative {self.relative:.1e}"
        return (
            f"'{self.name}' ({self._kind}): {self.brief()} (absolute error {self.absolute:.1e}, relative "
            f"{self.relative:.1e}, allowed {self.tolerance})"
        )

    def brief(self) -> str:
        """How much differs, without what was allowed."""
        if self.reason is not None:
            return self.reason
        place = f" at {list(self.index)}" if self.index else ""
        return (
            f"{self.outside} of {self.elements} elements differ, the worst{place} is {_number(self.actual)} where "
            f"PyTorch gives {_number(self.expected)}"
        )

    @property
    def _kind(self) -> str:
        return f"{self.dtype} {list(self.shape)}"


def dtype_name(dtype: torch.dtype) -> str:
    """ "float32" for torch.float32."""
    return str(dtype).removeprefix("torch.")


def exact(dtype: torch.dtype) -> Tolerance:
    """No difference is allowed at all."""
    return Tolerance(0.0, 0.0, f"{dtype_name(dtype)}: equal")


def tolerance(
    expected: torch.Tensor,
    *,
    precision: torch.dtype | None = None,
    scale: float = 1.0,
    rtol: float | None = None,
    atol: float | None = None,
) -> Tolerance:
    """What a runtime may differ by from PyTorch.

    1. `rtol` and `atol` are taken where they are given; one of them alone makes the other 0.
    2. Integers and truth values have to be equal.
    3. For floats, `relative` is the square root of eps (the distance from 1 to the next number): half of the digits
       that the dtype has. The dtype is the output's own, or `precision` where that is coarser.
    4. `absolute` is the same times the RMS of the expected output, infinities and NaNs left out: a small element
       beside large ones is judged on the scale of the computation that it comes from.
    5. Where the whole output is no larger than what rounding leaves of values of size `scale`, such as the mean of
       something that was just normalised, it has no digits to compare, and `absolute` is that rounding.

    Args:
        expected: PyTorch's output, of any dtype and shape.
        precision: The coarsest dtype that the values passed through on their way.
        scale: The size of the values that the output was computed from.
        rtol: Replaces `relative`.
        atol: Replaces `absolute`.
    """
    return _tolerance(expected.dtype, rms(expected), precision, scale, rtol, atol)


def compare(
    name: str,
    expected: torch.Tensor,
    actual: torch.Tensor,
    *,
    precision: torch.dtype | None = None,
    scale: float = 1.0,
    rtol: float | None = None,
    atol: float | None = None,
    random: bool = False,
) -> Comparison:
    """Compares a runtime's tensor with PyTorch's.

    1. Shape and dtype have to be equal. A complex tensor is real with a trailing dimension of 2 in the runtime.
    2. NaNs have to stand at the same places, infinities too and with the same sign.
    3. Every other element has to lie within `tolerance`.

    Args:
        name: The output's name, for the report.
        expected: PyTorch's tensor, on any device.
        actual: The runtime's tensor.
        precision: As for `tolerance`.
        scale: As for `tolerance`.
        rtol: As for `tolerance`.
        atol: As for `tolerance`.
        random: The model draws these values at random: only shape and dtype are compared.
    """
    dtype = dtype_name(expected.dtype)
    original, expected, actual = expected.dtype, _real(expected), _real(actual)
    shape, actual_shape, actual_dtype = tuple(expected.shape), tuple(actual.shape), dtype_name(actual.dtype)
    reason = None
    if shape != actual_shape:
        reason = f"its shape is {list(actual_shape)} where PyTorch gives {list(shape)}"
    elif expected.dtype != actual.dtype:
        reason = f"its dtype is {actual_dtype} where PyTorch gives {dtype_name(expected.dtype)}"
    if reason is not None or random:
        allowed = _NOT_COMPARED if random else exact(original)
        elements = expected.numel()
        return Comparison(
            name, dtype, shape, actual_dtype, actual_shape, allowed, elements=elements, random=random, reason=reason
        )
    size = rms(expected)
    allowed = _tolerance(original, size, precision, scale, rtol, atol)
    worst = _Worst()
    for start, left, right in _chunks(expected, actual):
        worst.add(start, left, right, allowed, size)
    index, values = worst.place, (None, None)
    if index is not None:
        values = (expected.reshape(-1)[index].item(), actual.reshape(-1)[index].item())
    return Comparison(
        name,
        dtype,
        shape,
        actual_dtype,
        actual_shape,
        allowed,
        absolute=worst.absolute,
        relative=worst.relative,
        index=None if index is None else _unravel(index, shape),
        expected=values[0],
        actual=values[1],
        excess=worst.excess,
        elements=expected.numel(),
        outside=worst.outside,
    )


class _Worst:
    """The largest differences found so far."""

    def __init__(self) -> None:
        self.absolute = self.relative = self.excess = 0.0
        self.outside = 0
        self.place: int | None = None

    def add(self, start: int, expected: torch.Tensor, actual: torch.Tensor, allowed: Tolerance, size: float) -> None:
        """Takes one stretch of the flattened tensors into account."""
        same = expected == actual
        if expected.is_floating_point():
            same |= expected.isnan() & actual.isnan()
        if bool(same.all()):
            return
        left, right = expected.double(), actual.double()
        error = (right - left).abs().nan_to_num(nan=math.inf, posinf=math.inf)
        if not expected.is_floating_point():
            error.clamp_(min=1)  # neighbouring int64 values can be equal as float64
        error.masked_fill_(same, 0)
        limit = allowed.absolute + allowed.relative * left.abs()
        limit.masked_fill_(error.isinf(), 0)  # an infinity allows nothing beside itself
        outside = error > limit
        excess = torch.where(error == 0, 0.0, error / limit)
        magnitude = left.abs().clamp_(min=size).nan_to_num(nan=size)
        relative = torch.where(error == 0, 0.0, error / magnitude)
        self.absolute = max(self.absolute, float(error.max()))
        self.relative = max(self.relative, float(relative.max()))
        self.outside += int(outside.sum())
        # Where several are infinitely far off, the first of the largest in numbers says most.
        place = int(torch.where(excess == excess.max(), error, -1.0).argmax())
        if self.place is None or float(excess[place]) > self.excess:
            self.place, self.excess = start + place, float(excess[place])


def _tolerance(
    dtype: torch.dtype,
    size: float,
    precision: torch.dtype | None,
    scale: float,
    rtol: float | None,
    atol: float | None,
) -> Tolerance:
    if rtol is not None or atol is not None:
        relative, absolute = rtol or 0.0, atol or 0.0
        return Tolerance(relative, absolute, f"given: relative {relative:.1e}, absolute {absolute:.1e}")
    if not (dtype.is_floating_point or dtype.is_complex):
        return exact(dtype)
    own = torch.finfo(dtype).eps
    eps, name = own, dtype_name(dtype)
    if precision is not None and torch.finfo(precision).eps > own:
        eps = torch.finfo(precision).eps
        name = f"{dtype_name(precision)} (which this {name} was computed in)"
    relative = math.sqrt(eps)
    rounding = _ROUNDING * min(eps, torch.finfo(torch.float32).eps) * scale
    if size <= rounding:
        return Tolerance(relative, rounding, f"{name}: {rounding:.1e}, rounding: the output is no larger than that")
    return Tolerance(relative, relative * size, f"{name}: {relative:.1e} = sqrt(eps), scaled by the RMS of the output")


def _real(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor on the CPU, without autograd; a complex one as pairs."""
    tensor = tensor.detach().cpu()
    return torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor


def _comparable(tensor: torch.Tensor) -> torch.Tensor:
    """The same values in a dtype that torch computes with: float8 and the wide unsigned integers have few operators."""
    if tensor.is_floating_point():
        return tensor if tensor.dtype == torch.float64 else tensor.float()
    if tensor.dtype == torch.uint64:
        return tensor.view(torch.int64)
    return tensor.to(torch.int64) if tensor.dtype in (torch.uint16, torch.uint32) else tensor


def _chunks(*tensors: torch.Tensor) -> Iterator[tuple[int, *tuple[torch.Tensor, ...]]]:
    flat = [tensor.reshape(-1) for tensor in tensors]
    for start in range(0, flat[0].numel(), _CHUNK):
        yield (start, *(_comparable(tensor[start : start + _CHUNK]) for tensor in flat))


def rms(tensor: torch.Tensor) -> float:
    """The root of the mean square of a float tensor's finite values, complex ones as pairs; 0 where there is none."""
    tensor = _real(tensor)
    if not tensor.is_floating_point():
        return 0.0
    total, count = 0.0, 0
    for _, part in _chunks(tensor):
        finite = part[part.isfinite()].double()
        total += float((finite * finite).sum())
        count += finite.numel()
    return math.sqrt(total / count) if count else 0.0


def _unravel(flat: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    index = []
    for size in reversed(shape):
        flat, position = divmod(flat, size)
        index.append(position)
    return tuple(reversed(index))


def _number(value: float | int | bool | None) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
