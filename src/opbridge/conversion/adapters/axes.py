"""Axes, parts and amounts: attributes in older forms, inputs in newer ones; and axes counted from the back."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from opbridge.conversion.step import Step, lower, raised

_REDUCE = ("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin")
_REDUCE_18 = (*_REDUCE, "ReduceProd", "ReduceSumSquare")
_UNCHANGED_WITHOUT_AXES = frozenset({"ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum"})

_AS_ATTRIBUTE = "axes are an attribute"
_AS_INPUT = "axes are an input"
_FROM_FRONT = "axes are counted from the front"


@lower(18, *_REDUCE_18, says=_AS_ATTRIBUTE)
@lower(13, "ReduceSum", says=_AS_ATTRIBUTE)
def _reduce(step: Step) -> Sequence[ir.Value] | None:
    axes = step.known(1, "axes")
    nothing = bool(step.get("noop_with_empty_axes", 0))
    if not axes and nothing:
        if step.node.op_type not in _UNCHANGED_WITHOUT_AXES:
            step.refuse("without axes and with noop_with_empty_axes")
        return [step.emit("Identity", step.data)]
    step.put(step.data)
    step.set(axes=axes or None, noop_with_empty_axes=None)
    return None


@raised(18, *_REDUCE_18, says=_AS_INPUT)
@raised(13, "ReduceSum", "Squeeze", "Unsqueeze", says=_AS_INPUT)
def _axes_as_input(step: Step) -> None:
    axes = step.integers("axes")
    step.set(axes=None)
    if axes is not None:
        step.put(step.data, step.number(np.asarray(axes, np.int64)))


@lower(13, "Squeeze", "Unsqueeze", says=_AS_ATTRIBUTE)
def _squeeze(step: Step) -> None:
    axes = step.known(1, "axes")
    step.put(step.data)
    step.set(axes=axes)


def _positive(axes: list[int], rank: int) -> list[int]:
    return [axis + rank if axis < 0 else axis for axis in axes]


@lower(11, *_REDUCE_18, "ReduceSum", "Squeeze", says=_FROM_FRONT)
def _axes_11(step: Step) -> None:
    axes = step.integers("axes")
    if axes is not None and min(axes, default=0) < 0:
        step.set(axes=_positive(axes, step.rank()))


@lower(11, "Unsqueeze", says=_FROM_FRONT)
def _unsqueeze_11(step: Step) -> None:
    axes = step.integers("axes") or []
    if min(axes, default=0) < 0:
        step.set(axes=_positive(axes, step.rank() + len(axes)))


@lower(11, "ArgMax", "ArgMin", "Concat", "Flatten", "Split", "Compress", says=_FROM_FRONT)
def _axis_11(step: Step) -> None:
    axis = step.get("axis")
    if axis is not None and axis < 0:
        step.set(axis=axis + step.rank())


@lower(13, "Split", says="parts are an attribute")
def _split_13(step: Step) -> None:
    parts = step.known(1, "the sizes of its parts")
    step.put(step.data)
    step.set(split=parts)


@raised(13, "Split", says="parts are an input")
def _split_to_13(step: Step) -> None:
    parts = step.integers("split")
    step.set(split=None)
    if parts is not None:
        step.put(step.data, step.number(np.asarray(parts, np.int64)))


@lower(18, "Split", says="parts are given by their sizes")
def _split_18(step: Step) -> None:
    count = step.get("num_outputs")
    step.set(num_outputs=None)
    if count is None or step.input(1) is not None:
        return
    axis = int(step.get("axis", 0))
    size = step.size(step.data, axis % step.rank() if axis < 0 else axis)
    if isinstance(size, int):
        part = -(-size // count)
        if size % count:
            parts = [min(part, max(size - part * at, 0)) for at in range(count)]
            step.put(step.data, step.number(np.asarray(parts, np.int64)))
        return
    part_ = step.emit("Div", step.emit("Add", size, [count - 1]), [count])
    last = step.emit("Sub", size, step.emit("Mul", part_, [count - 1]))
    step.put(step.data, step.emit("Concat", *[part_] * (count - 1), last, axis=0))


@raised(18, "Split", says="the number of parts is given")
def _split_to_18(step: Step) -> None:
    if step.input(1) is None:
        step.set(num_outputs=len(step.node.outputs))


@lower(11, "Slice", says=_FROM_FRONT)
def _slice_11(step: Step) -> None:
    axes = step.constant(3)
    if axes is not None and (axes < 0).any():
        counted = np.where(axes < 0, axes + step.rank(), axes).astype(axes.dtype)
        step.put(*step.node.inputs[:3], step.number(counted, counted.dtype), step.input(4))


@lower(10, "Slice", says="bounds are attributes")
def _slice_10(step: Step) -> None:
    starts, ends = step.known(1, "starts"), step.known(2, "ends")
    axes, steps = step.known(3, "axes"), step.known(4, "steps")
    if any(each != 1 for each in steps or ()):
        step.refuse("with steps other than 1")
    step.put(step.data)
    step.set(starts=starts, ends=ends, axes=axes)


@raised(10, "Slice", says="bounds are inputs")
def _slice_to_10(step: Step) -> None:
    given = [step.integers(name) for name in ("starts", "ends", "axes")]
    step.set(starts=None, ends=None, axes=None)
    step.put(step.data, *(None if each is None else step.number(np.asarray(each, np.int64)) for each in given))


@lower(19, "Pad", says="")
def _pad_19(step: Step) -> None:
    if step.get("mode", "constant") == "wrap":
        step.refuse("with mode=wrap")


@lower(18, "Pad", says="amounts are given for all axes")
def _pad_18(step: Step) -> None:
    axes = step.known(3, "axes")
    if axes is None:
        return
    rank = step.rank()
    axes = _positive(axes, rank)
    amounts = step.constant(1)
    pads = step.input(1)
    assert pads is not None
    if amounts is not None:
        every = np.zeros(2 * rank, np.int64)
        for at, axis in enumerate(axes):
            every[axis], every[axis + rank] = amounts[at], amounts[at + len(axes)]
        step.put(step.data, step.number(every), step.input(2))
        return
    zero = step.number([0])
    own = {}
    for at, axis in enumerate(axes):
        own[axis], own[axis + rank] = (step.sliced(pads, each, each + 1, 0) for each in (at, at + len(axes)))
    step.put(step.data, step.emit("Concat", *(own.get(at, zero) for at in range(2 * rank)), axis=0), step.input(2))


@lower(11, "Pad", says="amounts are attributes")
def _pad_11(step: Step) -> None:
    pads = step.known(1, "amounts")
    value = 0.0
    if step.input(2) is not None:
        found = step.constant(2)
        if found is None:
            step.refuse("with a value computed at run time")
        value = float(found.ravel()[0])
    step.put(step.data)
    step.set(pads=pads, value=value)


@raised(11, "Pad", says="amounts are inputs")
def _pad_to_11(step: Step) -> None:
    pads, value = step.integers("pads") or [], float(step.get("value", 0.0))
    step.set(pads=None, value=None)
    amount = step.number(value, step.dtype(step.data)) if value else None
    step.put(step.data, step.number(np.asarray(pads, np.int64)), amount)


@lower(11, "TopK", says="the largest elements, sorted")
def _top_k_11(step: Step) -> Sequence[ir.Value] | None:
    largest = step.get("largest", 1)
    step.set(largest=None, sorted=None)
    if largest:
        return None
    dtype = step.dtype(step.data)
    if dtype.is_integer():
        step.refuse("of the smallest integers")
    values, indices = step.emit("TopK", step.emit("Neg", step.data), step.input(1), outputs=2, axis=step.get("axis"))
    return [step.emit("Neg", values), indices]


@lower(10, "TopK", says="k is an attribute")
def _top_k_10(step: Step) -> None:
    k = step.known(1, "k")
    step.put(step.data)
    step.set(k=(k or [0])[0])


@raised(10, "TopK", says="k is an input")
def _top_k_to_10(step: Step) -> None:
    k = int(step.get("k"))
    step.set(k=None)
    step.put(step.data, step.number([k]))
