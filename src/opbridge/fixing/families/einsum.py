"""Einsum as MatMul, Mul, Transpose, Reshape and ReduceSum."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir

from opbridge.conversion.step import Step
from opbridge.fixing.site import Refused, Site, repair

_OTHERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


@repair("missing-operator", "no-kernel", "einsum-form", "partly-supported", operators=["Einsum"])
def write_out(site: Site) -> str:
    """The inputs are contracted one after the other, each pair by one MatMul or Mul."""
    step = site.step()
    inputs = [each for each in step.node.inputs if each is not None]
    terms, result = _terms(str(step.get("equation")), [step.rank(each) for each in inputs])
    parts = []
    for at, (value, labels) in enumerate(zip(inputs, terms, strict=True)):
        part = _without_repeated(step, _Part(value, labels))
        later = {label for each in (*terms[:at], *terms[at + 1 :]) for label in each}
        parts.append(_summed(step, part, {*result, *later}))
    left = parts[0]
    for at, right in enumerate(parts[1:], 1):
        later = {label for each in parts[at + 1 :] for label in each.labels}
        left = _contracted(step, left, right, {*result, *later})
    left = _summed(step, left, set(result))
    site.put(step, _in_order(step, left, result).value)
    return "replaced Einsum by MatMul, Mul, Transpose and Reshape"


@dataclass
class _Part:
    """A tensor with a label for each dimension."""

    value: ir.Value
    labels: str


def _terms(equation: str, ranks: list[int]) -> tuple[list[str], str]:
    """The labels of each input and of the result; dimensions of an ellipsis have capital letters that are free."""
    given, arrow, result = equation.replace(" ", "").partition("->")
    terms = given.split(",")
    if len(terms) != len(ranks):
        raise Refused("whose equation has a different number of terms than inputs")
    counts = [rank - len(term.replace("...", "")) for term, rank in zip(terms, ranks, strict=True)]
    most = max((count for term, count in zip(terms, counts, strict=True) if "..." in term), default=0)
    free = "".join(each for each in _OTHERS if each not in equation)[:most]
    if len(free) < most or any(count and "..." not in term for term, count in zip(terms, counts, strict=True)):
        raise Refused("whose equation does not match the ranks of the inputs")
    named = [
        term.replace("...", free[len(free) - count :] if count else "")
        for term, count in zip(terms, counts, strict=True)
    ]
    if not arrow:
        every = "".join(term.replace("...", "") for term in terms)
        result = ("..." if most else "") + "".join(sorted(each for each in set(every) if every.count(each) == 1))
    return named, result.replace("...", free)


def _without_repeated(step: Step, part: _Part) -> _Part:
    """The diagonal along dimensions of one label."""
    for label in dict.fromkeys(part.labels):
        while part.labels.count(label) > 1:
            first = part.labels.index(label)
            second = part.labels.index(label, first + 1)
            part = _diagonal(step, part, first, second)
    return part


def _diagonal(step: Step, part: _Part, first: int, second: int) -> _Part:
    size = step.size(part.value, first)
    if isinstance(size, int):
        mask = step.number(np.eye(size, dtype=bool))
    else:
        places = step.emit("Range", 0, step.squeezed(size, [0]), 1)
        mask = step.emit("Equal", step.unsqueezed(places, [1]), step.unsqueezed(places, [0]))
    others = [axis for axis in range(len(part.labels)) if axis not in (first, second)]
    if others:
        mask = step.unsqueezed(mask, others)
    zero = step.number(0, step.dtype(part.value))
    kept = step.emit("Where", mask, part.value, zero)
    return _Part(step.reduced("ReduceSum", kept, [second], 0), part.labels[:second] + part.labels[second + 1 :])


def _summed(step: Step, part: _Part, wanted: set[str]) -> _Part:
    """The sums over labels that nothing else has."""
    axes = [axis for axis, label in enumerate(part.labels) if label not in wanted]
    if not axes:
        return part
    return _Part(
        step.reduced("ReduceSum", part.value, axes, 0), "".join(each for each in part.labels if each in wanted)
    )


def _in_order(step: Step, part: _Part, labels: str) -> _Part:
    """The tensor with its dimensions in another order."""
    if part.labels == labels:
        return part
    order = [part.labels.index(each) for each in labels]
    return _Part(step.emit("Transpose", part.value, perm=order), labels)


def _contracted(step: Step, left: _Part, right: _Part, wanted: set[str]) -> _Part:
    """Two tensors, multiplied, and summed over what they share and nothing else needs."""
    shared = [each for each in left.labels if each in right.labels]
    summed = "".join(each for each in shared if each not in wanted)
    batch = "".join(each for each in shared if each in wanted)
    rows = "".join(each for each in left.labels if each not in right.labels)
    columns = "".join(each for each in right.labels if each not in left.labels)
    for label in shared:
        _check_sizes(step, left, right, label, label in summed)
    if not summed:
        one = _spread(step, left, batch + rows + columns)
        other = _spread(step, right, batch + rows + columns)
        return _Part(step.emit("Mul", one, other), batch + rows + columns)
    one = _joined(step, _in_order(step, left, batch + rows + summed), batch, rows, summed)
    other = _joined(step, _in_order(step, right, batch + summed + columns), batch, summed, columns)
    product = step.emit("MatMul", one, other)
    rank = len(batch)
    if len(rows) == len(columns) == 1:
        return _Part(product, batch + rows + columns)
    if len(rows) + len(columns) == 1:
        return _Part(step.squeezed(product, [rank if not rows else rank + 1]), batch + rows + columns)
    sizes: list[Any] = [_larger(step, left, right, each) for each in batch]
    sizes += [step.size(left.value, left.labels.index(each)) for each in rows]
    sizes += [step.size(right.value, right.labels.index(each)) for each in columns]
    return _Part(_reshaped(step, product, sizes), batch + rows + columns)


def _check_sizes(step: Step, left: _Part, right: _Part, label: str, is_summed: bool) -> None:
    one, other = (step.size(each.value, each.labels.index(label)) for each in (left, right))
    if isinstance(one, int) and isinstance(other, int) and one != other and (is_summed or 1 not in (one, other)):
        raise Refused(f"of sizes {one} and {other} for '{label}'")


def _larger(step: Step, left: _Part, right: _Part, label: str) -> Any:
    """The size of a label that both have, of which one may be broadcast."""
    sizes = [step.size(each.value, each.labels.index(label)) for each in (left, right)]
    return sizes[1] if sizes[0] == 1 else sizes[0]


def _spread(step: Step, part: _Part, labels: str) -> ir.Value:
    """The tensor with dimensions of size 1 for the labels that it does not have."""
    ordered = _in_order(step, part, "".join(each for each in labels if each in part.labels))
    axes = [axis for axis, label in enumerate(labels) if label not in part.labels]
    return step.unsqueezed(ordered.value, axes) if axes else ordered.value


def _joined(step: Step, part: _Part, batch: str, rows: str, columns: str) -> ir.Value:
    """The tensor as matrices: the dimensions of rows are one, and those of columns."""
    if len(rows) == len(columns) == 1:
        return part.value
    rank = len(batch)
    if len(rows) + len(columns) == 1:
        return step.unsqueezed(part.value, [rank if not rows else rank + 1])
    sizes: list[Any] = [step.size(part.value, at) for at in range(rank)]
    sizes.append(step.product([step.size(part.value, rank + at) for at in range(len(rows))]))
    sizes.append(step.product([step.size(part.value, rank + len(rows) + at) for at in range(len(columns))]))
    return _reshaped(step, part.value, sizes)


def _reshaped(step: Step, value: ir.Value, sizes: list[Any]) -> ir.Value:
    made: ir.Value = step.emit("Reshape", value, step.sizes(*sizes))
    return made
