"""The comparison of two tensors with a tolerance: one of PyTorch, one of a runtime."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch

__all__ = [
    "SPREAD",
    "Comparison",
    "Tolerance",
    "compare",
    "dtype_name",
    "exact",
    "has_finite_numbers",
    "incomparable",
    "rms",
    "tolerance",
]

_CHUNK = 1 << 22
"""How many elements are compared at a time. They are converted to float64, which needs too much memory for all."""

_ROUNDING = 4
"""The rounding error of values near 1, in units of eps: an output with a smaller RMS has no significant digits.

The eps is at most that of float32, as narrower dtypes are accumulated in float32: a softmax in float16 is significant.
"""


SPREAD = tuple(10 ** (half / 2) for half in range(-14, 5))
"""The bounds of `Comparison.spread`: ratios of difference to tolerance, two to a power of ten; 1 is what is allowed."""


@dataclass(frozen=True)
class Tolerance:
    """A tolerance: `|actual - expected| <= absolute + relative * |expected|`.

    Attributes:
        relative: The relative tolerance.
        absolute: The absolute tolerance.
        origin: How the two were determined, for messages.
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
    """The comparison of a tensor of PyTorch with that of a runtime.

    Attributes:
        name: The output's name.
        dtype: PyTorch's dtype, "float32"; for a complex tensor, which is compared as pairs, the complex dtype.
        shape: PyTorch's shape, of the pairs where the tensor is complex.
        actual_dtype: The runtime's dtype.
        actual_shape: The runtime's shape.
        tolerance: The tolerance.
        absolute: The largest `|actual - expected|`; infinite if one is NaN or infinite and the other is not.
        relative: The largest of these differences divided by the element's magnitude or the tensor's RMS, whichever is
            larger, so that elements near zero do not dominate.
        index: The index of the element with the largest ratio of difference to tolerance; None if nothing differs.
        expected: PyTorch's value there.
        actual: The runtime's value there.
        excess: The ratio of difference to tolerance there.
        elements: The number of elements.
        outside: The number of elements outside the tolerance.
        random: Whether the values are random, and were not compared.
        reason: A difference in shape or dtype; the values were not compared then.
        forgiven: Whether the elements outside the tolerance are right nevertheless.
        remark: Why they are, or what else is known of the difference.
        noisy: Whether PyTorch's own values have no digits: inputs that differ by one rounding give others.
        by_chance: Whether errors against float64 are beyond PyTorch's by so little that more of its runs may show them.
        spread: How many elements differ by how much of what is allowed: those that are equal, and then by `SPREAD`.
        nans: The number of elements that are NaN in PyTorch, of which only the place is compared.
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
    forgiven: bool = False
    remark: str = ""
    noisy: bool = False
    by_chance: bool = False
    spread: tuple[int, ...] = ()
    nans: int = 0

    @property
    def has_numbers(self) -> bool:
        """Whether there is anything to compare: PyTorch's tensor is neither empty nor NaN throughout."""
        return self.elements > self.nans

    @property
    def ok(self) -> bool:
        return self.reason is None and (self.outside == 0 or self.forgiven)

    def as_random(self, reason: str | None) -> Comparison:
        """The comparison of the same tensors if their values are random and therefore not compared."""
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
        return self.text()

    def text(self, other: str = "PyTorch") -> str:
        """The comparison in one line.

        Args:
            other: The name of the side whose values are expected.
        """
        if self.reason is not None:
            return f"'{self.name}': {self.reason}"
        if self.random:
            return f"'{self.name}' ({self._kind}): random, shape and dtype agree"
        if self.forgiven:
            return f"'{self.name}' ({self._kind}): {self.remark}"
        if self.ok:
            return f"'{self.name}' ({self._kind}): agrees, absolute {self.absolute:.1e}, relative {self.relative:.1e}"
        return (
            f"'{self.name}' ({self._kind}): {self.brief(other)} (absolute error {self.absolute:.1e}, relative "
            f"{self.relative:.1e}, allowed {self.tolerance})" + (f"; {self.remark}" if self.remark else "")
        )

    def brief(self, other: str = "PyTorch") -> str:
        """The difference, without the tolerance.

        Args:
            other: As for `text`.
        """
        if self.reason is not None:
            return self.reason
        place = f" at {list(self.index)}" if self.index else ""
        return (
            f"{self.outside} of {self.elements} elements differ; the largest difference{place} is "
            f"{_number(self.actual)}, {other} {_number(self.expected)}"
        )

    @property
    def _kind(self) -> str:
        return f"{self.dtype} {list(self.shape)}"


def incomparable(name: str, reason: str) -> Comparison:
    """The comparison of an output of a file that PyTorch has no tensor for, and why."""
    return Comparison(name, "", (), "", (), Tolerance(0.0, 0.0, "not compared"), reason=reason)


def dtype_name(dtype: torch.dtype) -> str:
    """ "float32" for torch.float32."""
    return str(dtype).removeprefix("torch.")


def exact(dtype: torch.dtype) -> Tolerance:
    """The tolerance that allows no difference."""
    return Tolerance(0.0, 0.0, f"{dtype_name(dtype)}: equal")


def tolerance(
    expected: torch.Tensor,
    *,
    precision: torch.dtype | None = None,
    scale: float = 1.0,
    rtol: float | None = None,
    atol: float | None = None,
) -> Tolerance:
    """The tolerance for an output of a runtime.

    1. `rtol` and `atol` are used if they are given; if only one is, the other is 0.
    2. Integers and bools have to be equal.
    3. For floats, `relative` is the square root of eps (the distance from 1 to the next number): half of the digits
       of the dtype. The dtype is that of the output, or `precision` if its eps is larger.
    4. `absolute` is `relative` times the RMS of the finite expected values: small elements are compared on the scale of
       the computation that they come from.
    5. If the RMS is not larger than the rounding error of values of size `scale`, as for the mean of normalised values,
       the output has no significant digits, and `absolute` is that rounding error.

    Args:
        expected: PyTorch's output, of any dtype and shape.
        precision: The dtype of the lowest precision that the values were computed in.
        scale: The RMS of the values that the output was computed from.
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

    1. Shape and dtype have to be equal. A complex tensor has a trailing dimension of 2 in the runtime.
    2. NaNs have to be at the same positions, and infinities too, with the same sign.
    3. Every other element has to lie within `tolerance`.

    Args:
        name: The output's name in the report.
        expected: PyTorch's tensor, on any device.
        actual: The runtime's tensor.
        precision: As for `tolerance`.
        scale: As for `tolerance`.
        rtol: As for `tolerance`.
        atol: As for `tolerance`.
        random: Whether the values are random: only shape and dtype are compared then.
    """
    dtype = dtype_name(expected.dtype)
    original, expected, actual = expected.dtype, _real(expected), _real(actual)
    shape, actual_shape, actual_dtype = tuple(expected.shape), tuple(actual.shape), dtype_name(actual.dtype)
    reason = None
    if shape != actual_shape:
        reason = f"its shape is {list(actual_shape)}, but PyTorch returns {list(shape)}"
    elif expected.dtype != actual.dtype:
        reason = f"its dtype is {actual_dtype}, but PyTorch returns {dtype_name(expected.dtype)}"
    size = rms(expected)
    allowed = _NOT_COMPARED if random else _tolerance(original, size, precision, scale, rtol, atol)
    if reason is not None or random:
        elements = expected.numel()
        return Comparison(
            name, dtype, shape, actual_dtype, actual_shape, allowed, elements=elements, random=random, reason=reason
        )
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
        spread=worst.spread(expected.numel()),
        nans=worst.nans,
    )


class _Worst:
    """The largest differences found so far."""

    def __init__(self) -> None:
        self.absolute = self.relative = self.excess = 0.0
        self.outside = self.nans = 0
        self.place: int | None = None
        self._counts = torch.zeros(len(SPREAD) + 1, dtype=torch.int64)

    def spread(self, elements: int) -> tuple[int, ...]:
        """How many of all elements are equal, and how many differ by how much, by `SPREAD`."""
        return (elements - int(self._counts.sum()), *self._counts.tolist())

    def add(self, start: int, expected: torch.Tensor, actual: torch.Tensor, allowed: Tolerance, size: float) -> None:
        """Adds a chunk of the flattened tensors, which begins at element `start`."""
        same = expected == actual
        if expected.is_floating_point():
            is_nan = expected.isnan()
            self.nans += int(is_nan.sum())
            same |= is_nan & actual.isnan()
        if bool(same.all()):
            return
        left, right = expected.double(), actual.double()
        error = (right - left).abs().nan_to_num(nan=math.inf, posinf=math.inf)
        if not expected.is_floating_point():
            error.clamp_(min=1)  # neighbouring int64 values can be equal as float64
        error.masked_fill_(same, 0)
        limit = allowed.absolute + allowed.relative * left.abs()
        limit.masked_fill_(error.isinf(), 0)  # an infinity has to be equal
        outside = error > limit
        excess = torch.where(error == 0, 0.0, error / limit)
        magnitude = left.abs().clamp_(min=size).nan_to_num(nan=size)
        relative = torch.where(error == 0, 0.0, error / magnitude)
        self.absolute = max(self.absolute, float(error.max()))
        self.relative = max(self.relative, float(relative.max()))
        self.outside += int(outside.sum())
        differing = torch.bucketize(excess[error > 0], torch.tensor(SPREAD, dtype=excess.dtype))
        self._counts += torch.bincount(differing, minlength=len(SPREAD) + 1)
        # Among infinite ratios, the one with the largest difference is reported.
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
        return Tolerance(relative, rounding, f"{name}: {rounding:.1e}, rounding error")
    return Tolerance(relative, relative * size, f"{name}: {relative:.1e} = sqrt(eps), scaled by the RMS of the output")


def _real(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor on the CPU, without autograd; a complex one as pairs."""
    tensor = tensor.detach().cpu()
    return torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor


def _comparable(tensor: torch.Tensor) -> torch.Tensor:
    """The values in a dtype that torch has all operators for, unlike float8 and the wider unsigned integers."""
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


def has_finite_numbers(tensor: torch.Tensor) -> bool:
    """Whether a tensor has elements, and all of them are finite."""
    return tensor.numel() > 0 and all(bool(part.isfinite().all()) for _, part in _chunks(_real(tensor)))


def _unravel(flat: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    index = []
    for size in reversed(shape):
        flat, position = divmod(flat, size)
        index.append(position)
    return tuple(reversed(index))


def _number(value: float | int | bool | None) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
