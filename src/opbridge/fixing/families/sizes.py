"""Sizes and bounds that are computed from data, where they are dimensions of tensors in truth.

Some tensors are known by their making: a Range counts, ConstantOfShape and Expand repeat one number, CumSum of ones
counts too. The largest element of one that counts, and its place, are the size of the dimension that it counts along.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from opbridge.conversion.step import Step
from opbridge.fixing.site import Refused, Site, repair
from opbridge.rules.looking import Looked

_DEPTH = 48

Place = tuple[ir.Value, int]
"""A dimension of a tensor."""


@dataclass(frozen=True)
class Number:
    """A whole number: a constant, plus multiples of dimensions, each named as the model names its sizes."""

    constant: int
    sizes: tuple[tuple[str, int, Place], ...] = ()

    def plus(self, other: Number, times: int = 1) -> Number:
        """The sum with a multiple of another one."""
        found = {name: (count, place) for name, count, place in self.sizes}
        for name, count, place in other.sizes:
            found[name] = (found.get(name, (0, place))[0] + times * count, place)
        kept = tuple((name, count, place) for name, (count, place) in sorted(found.items()) if count)
        return Number(self.constant + times * other.constant, kept)

    def times(self, factor: int) -> Number:
        """A multiple."""
        return Number(0).plus(self, factor)

    def equals(self, other: Number | None) -> bool:
        """Whether it is another one, whatever the tensors that their dimensions were read from."""
        return other is not None and self.plus(other, -1) == Number(0)

    @property
    def is_constant(self) -> bool:
        """Whether no dimension is in it."""
        return not self.sizes


@dataclass(frozen=True)
class Filled:
    """A tensor of one number throughout; a scalar is one."""

    number: Number


@dataclass(frozen=True)
class Listed:
    """A tensor of one dimension, number by number."""

    numbers: tuple[Number, ...]


@dataclass(frozen=True)
class Counting:
    """A tensor that counts along one dimension, from a number on, and is the same along all others.

    Attributes:
        axis: The dimension, from the back: -1 is the last.
        first: The first number.
        step: What each has more than the one before it.
        count: How many there are.
    """

    axis: int
    first: Number
    step: int
    count: Number

    @property
    def last(self) -> Number:
        """The last number."""
        return self.first.plus(self.count.plus(Number(-1)), self.step)


Known = Filled | Listed | Counting | None


@repair("size-of-data")
def from_a_dimension(site: Site) -> str:
    """The size is taken from the shape of a tensor."""
    node = site.node
    reading = Reading(site.looked)
    changed = []
    origins = []
    for at, value in enumerate(node.inputs):
        if value is None or value.dtype is None or not _comes_from_data(value):
            continue
        known = reading.of(value)
        origins.append(value.name)
        # A Range takes numbers, the others lists of them.
        is_list = node.op_type != "Range"
        if isinstance(known, Filled) and (not is_list or site.looked.shape(value) == [1]):
            numbers: tuple[Number, ...] = (known.number,)
        elif isinstance(known, Listed) and is_list:
            numbers = known.numbers
        else:
            continue
        step = site.step()
        parts = [_built(step, each) for each in numbers]
        made = parts[0] if len(parts) == 1 else step.emit("Concat", *parts, axis=0)
        if not is_list:
            made = step.squeezed(made, [0])
        made = step.cast(made, value.dtype)
        site.put_before(step)
        node.replace_input_with(at, made)
        changed.append(value.name)
    if not changed:
        raise Refused(f"whose size '{origins[0]}' is no dimension of a tensor" if origins else "of such a size")
    return f"computed {' and '.join(map(str, changed))} from the shape of a tensor"


def _comes_from_data(value: ir.Value) -> bool:
    from opbridge.rules.of_patterns import origin

    return origin(value) is not None


def _built(step: Step, number: Number) -> ir.Value:
    """A number as a tensor of one element."""
    total = step.number([number.constant])
    for _, count, (value, axis) in number.sizes:
        size = step.emit("Gather", step.emit("Shape", value), [axis], axis=0)
        part = size if count == 1 else step.emit("Mul", size, [count])
        total = part if number.constant == 0 and number.sizes[0][2] == (value, axis) else step.emit("Add", total, part)
    return total


class Reading:
    """What is known of tensors by their making."""

    def __init__(self, looked: Looked) -> None:
        self._looked = looked
        self._known: dict[ir.Value, Known] = {}

    def of(self, value: ir.Value | None, depth: int = _DEPTH) -> Known:
        """What is known of a tensor."""
        if value is None or not depth:
            return None
        if value not in self._known:
            self._known[value] = None
            self._known[value] = self._of(value, depth - 1)
        return self._known[value]

    def _of(self, value: ir.Value, depth: int) -> Known:
        stored = self._looked.constant(value)
        if stored is not None:
            return _of_array(stored)
        node = value.producer()
        rule = None if node is None or node.domain not in ("", "ai.onnx") else _RULES.get(node.op_type)
        if node is None or rule is None:
            return None
        return rule(self, node, value, depth)

    def truth(self, value: ir.Value | None, depth: int = _DEPTH) -> bool | None:
        """Whether a truth value is true, where the shapes of tensors tell."""
        node = None if value is None else value.producer()
        stored = self._looked.constant(value)
        if stored is not None:
            return bool(stored.ravel()[0]) if stored.size == 1 else None
        if node is None or not depth:
            return None
        if node.op_type in ("Identity", "Squeeze", "Unsqueeze", "Reshape", "Cast"):
            given = node.inputs[0]
            return self.truth(given, depth - 1) if given is not None and given.dtype == ir.DataType.BOOL else None
        if node.op_type == "Not":
            found = self.truth(node.inputs[0], depth - 1)
            return None if found is None else not found
        compare = _COMPARISONS.get(node.op_type)
        if compare is None:
            return None
        one, other = (_single(self.of(each, depth - 1)) for each in node.inputs)
        difference = None if one is None or other is None else one.plus(other, -1)
        return compare(difference.constant) if difference is not None and difference.is_constant else None

    def size(self, value: ir.Value | None, axis: int) -> Number | None:
        """A dimension of a tensor."""
        shape = self._looked.shape(value)
        if value is None or shape is None or not -len(shape) <= axis < len(shape):
            return None
        axis %= len(shape)
        size = shape[axis]
        if isinstance(size, int):
            return Number(size)
        return Number(0, ((size or f"{value.name}[{axis}]", 1, (value, axis)),))

    def rank(self, value: ir.Value | None) -> int | None:
        """The number of dimensions."""
        shape = self._looked.shape(value)
        return None if shape is None else len(shape)

    def axis(self, node: ir.Node, default: int) -> int | None:
        """The axis of a node, from the back."""
        rank, axis = self.rank(node.inputs[0]), node.attributes.get_int("axis", default)
        return None if rank is None else axis - rank if axis >= 0 else axis

    def constants(self, value: ir.Value | None) -> np.ndarray | None:
        """The elements of a constant."""
        return self._looked.constant(value)


_COMPARISONS: dict[str, Callable[[int], bool]] = {
    "Equal": lambda difference: difference == 0,
    "Greater": lambda difference: difference > 0,
    "GreaterOrEqual": lambda difference: difference >= 0,
    "Less": lambda difference: difference < 0,
    "LessOrEqual": lambda difference: difference <= 0,
}


def _of_array(array: np.ndarray) -> Known:
    if not array.size or array.dtype.kind not in "iuf" or not np.all(array == np.trunc(array)):
        return None
    if array.ndim == 1 and array.size <= 16:
        if array.size == 1:
            return Filled(Number(int(array[0])))
        return Listed(tuple(Number(int(each)) for each in array))
    flat = array.ravel()
    if np.all(flat == flat[0]):
        return Filled(Number(int(flat[0])))
    steps = np.diff(array, axis=-1) if array.ndim else array
    if array.ndim and array.shape[-1] > 1 and np.all(steps == steps.ravel()[0]) and np.all(array == array[..., :]):
        if np.all(array.reshape(-1, array.shape[-1]) == array.reshape(-1, array.shape[-1])[0]):
            row = array.reshape(-1, array.shape[-1])[0]
            return Counting(-1, Number(int(row[0])), int(steps.ravel()[0]), Number(array.shape[-1]))
    return None


def _single(known: Known) -> Number | None:
    if isinstance(known, Filled):
        return known.number
    if isinstance(known, Listed) and len(known.numbers) == 1:
        return known.numbers[0]
    return None


_Rule = Callable[[Reading, ir.Node, ir.Value, int], Known]


def _shape(reading: Reading, node: ir.Node, value: ir.Value, depth: int) -> Known:
    rank = reading.rank(node.inputs[0])
    if rank is None:
        return None
    start, end = node.attributes.get_int("start", 0), node.attributes.get_int("end", rank)
    sizes = [reading.size(node.inputs[0], axis) for axis in range(rank)[slice(start, end)]]
    if any(each is None for each in sizes):
        return None
    numbers = tuple(each for each in sizes if each is not None)
    return Filled(numbers[0]) if len(numbers) == 1 else Listed(numbers)


def _gather(reading: Reading, node: ir.Node, value: ir.Value, depth: int) -> Known:
    data, places = reading.of(node.inputs[0], depth), reading.constants(node.inputs[1])
    if isinstance(data, Filled):
        return data
    if places is None:
        return None
    if isinstance(data, Listed) and all(-len(data.numbers) <= each < len(data.numbers) for each in places.ravel()):
        found = tuple(data.numbers[int(each)] for each in places.ravel())
        return Filled(found[0]) if len(found) == 1 else Listed(found)
    if isinstance(data, Counting) and places.size == 1 and reading.axis(node, 0) == data.axis:
        at = int(places.ravel()[0])
        return Filled(data.first.plus(Number(at), data.step) if at >= 0 else data.last.plus(Number(at + 1), data.step))
    return None


def _same(reading: Reading, node: ir.Node, value: ir.Value, depth: int) -> Known:
    """Operators that change at most the type."""
    return reading.of(node.inputs[0], depth)


def _reshaped(reading: Reading, node: ir.Node, value: ir.Value, depth: int) -> Known:
    """Operators that change the dimensions."""
    data = reading.of(node.inputs[0], depth)
    if isinstance(data, Filled):
        return data
    before, after = (reading._looked.shape(each) for each in (node.inputs[0], value))
    if before is None or after is None or data is None:
        return None
    if isinstance(data, Listed):
        return data if len(after) == 1 else None
    kept_sizes = before[data.axis :]
    if kept_sizes == after[data.axis :] and None not in kept_sizes and len(after) >= -data.axis:
        return data
    if node.op_type == "Expand" and data.axis == -1:
        # It stays as it is where the size that it is expanded to is its own.
        wanted = reading.of(node.inputs[1], depth)
        if isinstance(wanted, Listed) and (wanted.numbers[-1].equals(data.count) or wanted.numbers[-1] == Number(1)):
            return data
    if node.op_type in ("Unsqueeze", "Squeeze", "Reshape"):
        # The one dimension that it counts along keeps its place among the others, which have the size 1.
        wide = [axis for axis, each in enumerate(before) if each != 1]
        kept = [axis for axis, each in enumerate(after) if each != 1]
        if wide == [len(before) + data.axis] and len(kept) == 1:
            return Counting(kept[0] - len(after), data.first, data.step, data.count)
    return None


def _sum(reading: Reading, node: ir.Node, value: ir.Value, depth: int) -> Known:
    left, right = (reading.of(each, depth) for each in node.inputs)
    sign = -1 if node.op_type == "Sub" else 1
    one, other = _single(left), _single(right)
    if one is not None and other is not None:
        return Filled(one.plus(other, sign))
    if isinstance(left, Counting) and other is not None:
        return Counting(left.axis, left.first.plus(other, sign), left.step, left.count)
    if isinstance(right, Counting) and one is not None:
        return Counting(right.axis, one.plus(right.first, sign), sign * right.step, right.count)
    return None


def _product(reading: Reading, node: ir.Node, value: ir.Value, depth: int) -> Known:
    left, right = (reading.of(each, depth) for each in node.inputs)
    for given, factor in ((left, _single(right)), (right, _single(left))):
        if factor is None or not factor.is_constant:
            continue
        if (number := _single(given)) is not None:
            return Filled(number.times(factor.constant))
        if isinstance(given, Counting) and factor.constant:
            return Counting(given.axis, given.first.times(factor.constant), given.step * factor.constant, given.count)
    return None


def _range(reading: Reading, node: ir.Node, value: ir.Value, depth: int) -> Known:
    first, end, step = (_single(reading.of(each, depth)) for each in node.inputs)
    if first is None or end is None or step is None or not step.is_constant or abs(step.constant) != 1:
        return None
    return Counting(-1, first, step.constant, end.plus(first, -1).times(step.constant))


def _repeated(reading: Reading, node: ir.Node, value: ir.Value, depth: int) -> Known:
    given = node.attributes.get("value")
    array = np.zeros(1) if given is None else given.as_tensor().numpy()
    return _of_array(np.asarray(array).reshape(1))


def _running_sum(reading: Reading, node: ir.Node, value: ir.Value, depth: int) -> Known:
    data, axis = _single(reading.of(node.inputs[0], depth)), reading.constants(node.inputs[1])
    rank = reading.rank(node.inputs[0])
    if (
        data is None
        or not data.is_constant
        or axis is None
        or rank is None
        or bool(node.attributes.get_int("reverse", 0))
    ):
        return None
    place = int(axis.ravel()[0])
    count = reading.size(node.inputs[0], place)
    first = Number(0) if node.attributes.get_int("exclusive", 0) else data
    return None if count is None else Counting(place % rank - rank, first, data.constant, count)


def _places(reading: Reading, node: ir.Node, value: ir.Value, depth: int) -> Known:
    """NonZero of one number along one dimension."""
    data = _single(reading.of(node.inputs[0], depth))
    count = reading.size(node.inputs[0], 0)
    if data is None or not data.is_constant or not data.constant or count is None or reading.rank(node.inputs[0]) != 1:
        return None
    return Counting(-1, Number(0), 1, count)


def _extreme(reading: Reading, node: ir.Node, value: ir.Value, depth: int) -> Known:
    """ArgMax, ArgMin, TopK of one element, ReduceMax, ReduceMin."""
    data = reading.of(node.inputs[0], depth)
    largest = node.op_type in ("ArgMax", "ReduceMax") or (
        node.op_type == "TopK" and node.attributes.get_int("largest", 1) == 1
    )
    is_place = node.op_type in ("ArgMax", "ArgMin") or (node.op_type == "TopK" and value is node.outputs[1])
    if node.op_type == "TopK":
        count = reading.constants(node.inputs[1])
        if count is None or int(count.ravel()[0]) != 1:
            return None
    if isinstance(data, Listed):
        return None
    if isinstance(data, Filled):
        if not is_place:
            return data
        if not node.attributes.get_int("select_last_index", 0):
            return Filled(Number(0))
        size = reading.size(node.inputs[0], node.attributes.get_int("axis", 0))
        return None if size is None else Filled(size.plus(Number(-1)))
    if data is None:
        return None
    if node.op_type.startswith("Reduce"):
        axes = reading.constants(node.inputs[1]) if len(node.inputs) > 1 else node.attributes.get_ints("axes", None)
        rank = reading.rank(node.inputs[0])
        if rank is None or (axes is None and len(node.inputs) > 1 and node.inputs[1] is not None):
            return None
        if axes is not None and len(axes) and data.axis not in [int(each) % rank - rank for each in axes]:
            return None
    elif reading.axis(node, -1 if node.op_type == "TopK" else 0) != data.axis:
        return None
    at_end = largest == (data.step > 0)
    if is_place:
        return Filled(data.count.plus(Number(-1)) if at_end else Number(0))
    return Filled(data.last if at_end else data.first)


def _concat(reading: Reading, node: ir.Node, value: ir.Value, depth: int) -> Known:
    numbers: list[Number] = []
    for each in node.inputs:
        known, shape = reading.of(each, depth), reading._looked.shape(each)
        if isinstance(known, Listed):
            numbers.extend(known.numbers)
        elif isinstance(known, Filled) and shape is not None and len(shape) == 1 and isinstance(shape[0], int):
            numbers.extend([known.number] * shape[0])
        else:
            return None
    return Filled(numbers[0]) if len(numbers) == 1 else Listed(tuple(numbers))


_RULES: dict[str, _Rule] = {
    "Add": _sum,
    "ArgMax": _extreme,
    "ArgMin": _extreme,
    "Cast": _same,
    "Concat": _concat,
    "ConstantOfShape": _repeated,
    "CumSum": _running_sum,
    "Expand": _reshaped,
    "Gather": _gather,
    "Identity": _same,
    "Mul": _product,
    "NonZero": _places,
    "Range": _range,
    "ReduceMax": _extreme,
    "ReduceMin": _extreme,
    "Reshape": _reshaped,
    "Shape": _shape,
    "Squeeze": _reshaped,
    "Sub": _sum,
    "TopK": _extreme,
    "Unsqueeze": _reshaped,
}
