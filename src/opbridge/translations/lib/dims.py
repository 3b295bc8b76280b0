"""Sizes of dimensions, some known at export and some only when the model runs, and arithmetic with them."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import onnx_ir as ir
from onnxscript import opset18 as op

from opbridge.base.size_expressions import evaluate
from opbridge.errors import TranslationError

__all__ = [
    "Dim",
    "all_known",
    "as_dims",
    "axes_of",
    "axis_of",
    "dim_of",
    "dims_of",
    "element_count",
    "is_counted",
    "is_static",
    "maximum",
    "may_be_empty",
    "minimum",
    "per_dim",
    "positions",
    "product",
    "shape_of",
]


class Dim:
    """A size: a number that is known at export, or an int64 scalar of the graph.

    Arithmetic with numbers and other sizes gives a number where both are known, and builds nodes where one is not.
    `//` rounds down; of a size that is not known, neither the dividend nor the divisor may be negative.

    `==` asks whether two sizes are known to be equal: the same number, or the same value of the graph. Sizes are put
    in order by `<` and the like only where both are known.

    Attributes:
        value: An int, or the int64 scalar of the graph: what ONNX's operators take.
    """

    __slots__ = ("value",)
    value: Any

    def __init__(self, value: Any) -> None:
        """A size from a number, a value of the graph or another size."""
        if type(value) is int:  # nearly always; isinstance is slow for onnx_ir's classes, which implement protocols
            self.value = value
        elif isinstance(value, Dim):
            self.value = value.value
        else:
            self.value = value if isinstance(value, ir.Value) else operator.index(value)

    @property
    def is_known(self) -> bool:
        return isinstance(self.value, int)

    @property
    def known(self) -> int | None:
        """The number, None where only a run tells it."""
        return self.value if self.is_known else None

    def __index__(self) -> int:
        """The number, for `range`, `int` and numpy.

        Raises:
            TranslationError: only a run of the model tells it.
        """
        if not self.is_known:
            raise TranslationError("A dynamic size is required as a number at export. Make the dimension static.")
        return self.value

    def __repr__(self) -> str:
        return f"Dim({self.value})" if self.is_known else f"Dim('{self.value.name}')"

    def __add__(self, other: Any) -> Dim:
        return _sum(self, Dim(other))

    def __radd__(self, other: Any) -> Dim:
        return _sum(Dim(other), self)

    def __sub__(self, other: Any) -> Dim:
        return _difference(self, Dim(other))

    def __rsub__(self, other: Any) -> Dim:
        return _difference(Dim(other), self)

    def __mul__(self, other: Any) -> Dim:
        return _product(self, Dim(other))

    def __rmul__(self, other: Any) -> Dim:
        return _product(Dim(other), self)

    def __floordiv__(self, other: Any) -> Dim:
        return _quotient(self, Dim(other))

    def __rfloordiv__(self, other: Any) -> Dim:
        return _quotient(Dim(other), self)

    def __mod__(self, other: Any) -> Dim:
        return _computed(operator.mod, op.Mod, self, Dim(other))

    def __rmod__(self, other: Any) -> Dim:
        return Dim(other) % self

    def __neg__(self) -> Dim:
        return 0 - self

    def __eq__(self, other: object) -> bool:
        """Whether the two are known to be equal."""
        if not isinstance(other, (int, Dim, ir.Value)):
            return NotImplemented
        other = Dim(other)
        return self.value is other.value or (self.is_known and other.is_known and self.value == other.value)

    def __hash__(self) -> int:
        return hash(self.value)

    def __lt__(self, other: Any) -> bool:
        return operator.index(self) < operator.index(other)

    def __le__(self, other: Any) -> bool:
        return operator.index(self) <= operator.index(other)

    def __gt__(self, other: Any) -> bool:
        return operator.index(self) > operator.index(other)

    def __ge__(self, other: Any) -> bool:
        return operator.index(self) >= operator.index(other)


def _computed(of_numbers: Callable[..., int], of_values: Callable[..., Any], *dims: Dim) -> Dim:
    """A number where all sizes are known, else what ONNX's operator makes of them."""
    return Dim((of_numbers if all_known(*dims) else of_values)(*(dim.value for dim in dims)))


def _sum(left: Dim, right: Dim) -> Dim:
    if left == 0:
        return right
    return left if right == 0 else _computed(operator.add, op.Add, left, right)


def _difference(left: Dim, right: Dim) -> Dim:
    return left if right == 0 else _computed(operator.sub, op.Sub, left, right)


def _product(left: Dim, right: Dim) -> Dim:
    if left == 0 or right == 1:
        return left
    return right if right == 0 or left == 1 else _computed(operator.mul, op.Mul, left, right)


def _quotient(left: Dim, right: Dim) -> Dim:
    return left if right == 1 else _computed(operator.floordiv, op.Div, left, right)


# Sizes of values and of arguments


def dim_of(x: Any, axis: int) -> Dim:
    """A value's size along an axis, which may be counted from the end."""
    axis = axis + len(x.shape) if axis < 0 else axis
    dim = x.shape[axis]
    return Dim(dim if isinstance(dim, int) else op.Gather(op.Shape(x), axis))


def dims_of(x: Any) -> list[Dim]:
    """All sizes of a value."""
    return [dim_of(x, axis) for axis in range(len(x.shape))]


def as_dims(sizes: Iterable[Any]) -> list[Dim]:
    """An argument of sizes, such as torch's `SymInt[] size`."""
    return [Dim(size) for size in sizes]


def all_known(*sizes: Any) -> bool:
    """Whether all sizes are known at export."""
    return all(Dim(size).is_known for size in sizes)


def is_static(x: Any) -> bool:
    """Whether all sizes of a value are known at export."""
    return x.shape is not None and all(isinstance(dim, int) for dim in x.shape)


_UNBACKED = re.compile(r"\bu\d+\b")


def may_be_empty(x: Any, axes: Iterable[int] | None = None) -> bool:
    """Whether one of the axes is empty, or may be: one that is counted when the model runs, as the rows are that a mask
    selects, or one that is shorter than an input by a number, as `x[5:-5]` is.

    A size of which nothing is known counts as one that may be 0. One that a convolution or a pool divides does not:
    they raise an error where nothing is left.

    torch.export takes it for granted that no dynamic size of an input is 0.
    """
    dims = [x.shape[axis] for axis in (range(len(x.shape)) if axes is None else axes)]
    return any(dim == 0 if isinstance(dim, int) else dim.value is None or _may_be_zero(dim.value) for dim in dims)


_NAME = re.compile(r"\b[A-Za-z_]\w*\b(?!\()")


def _may_be_zero(size: str) -> bool:
    if _UNBACKED.search(size):
        return True
    if " - " not in size or "//" in size:
        return False
    try:
        return evaluate(size, dict.fromkeys(_NAME.findall(size), 1)) <= 0  # for the smallest sizes of inputs
    except ValueError:
        return False


_COUNTING = frozenset({"Constant", "Shape", "Size"})
_ARITHMETIC = frozenset({"Add", "Cast", "Div", "Gather", "Max", "Min", "Mod", "Mul", "Reshape", "Squeeze", "Sub"})


def is_counted(value: Any) -> bool:
    """Whether an integer of the graph is computed from the shapes of tensors alone, and not from their values."""
    producer = value.producer()
    if producer is None:
        return value.const_value is not None
    if producer.op_type in _COUNTING:
        return True
    return producer.op_type in _ARITHMETIC and all(map(is_counted, producer.inputs))


# Several sizes


def minimum(left: Any, right: Any) -> Dim:
    """The smaller of two sizes."""
    return _computed(min, op.Min, Dim(left), Dim(right))


def maximum(left: Any, right: Any) -> Dim:
    """The larger of two sizes."""
    return _computed(max, op.Max, Dim(left), Dim(right))


def product(sizes: Iterable[Any]) -> Dim:
    """The product of sizes; the known ones are multiplied first."""
    dims = as_dims(sizes)
    known = Dim(math.prod(dim.value for dim in dims if dim.is_known))
    unknown = [dim for dim in dims if not dim.is_known]
    return math.prod(unknown, start=Dim(1)) * known


def element_count(x: Any, axes: Iterable[int] | None = None) -> Dim:
    """The number of elements over some axes, all of them by default."""
    if axes is None and not is_static(x) and 0 not in x.shape:
        return Dim(op.Size(x))
    return product(dim_of(x, axis) for axis in (range(len(x.shape)) if axes is None else axes))


def shape_of(sizes: Iterable[Any]) -> Any:
    """Sizes as ONNX's operators take a shape: a list of numbers and scalars, which becomes one int64 vector."""
    shape = [Dim(size).value for size in sizes]
    return shape if shape else op.Constant(value=ir.tensor([], dtype=ir.DataType.INT64))


def positions(count: Any) -> Any:
    """0 to count - 1, the positions along a dimension of that size: int64, of shape (count,)."""
    return op.Range(0, Dim(count).value, 1)


def per_dim(given: Any, count: int) -> list[Any]:
    """An argument such as a stride or a padding, one for each of `count` dimensions; torch lets one stand for all."""
    items = list(given) if isinstance(given, (list, tuple)) else [given]
    return items * count if len(items) == 1 else items


# Axes


def axis_of(dim: int, rank: int) -> int:
    """A dimension counted from the front. A scalar has one dimension, as torch sees it."""
    return dim + max(rank, 1) if dim < 0 else dim


def axes_of(dims: Any, rank: int) -> list[int]:
    """Dimensions counted from the front; one number stands for itself."""
    listed: Sequence[int] = dims if isinstance(dims, (list, tuple)) else [dims]
    return [axis_of(dim, rank) for dim in listed]
