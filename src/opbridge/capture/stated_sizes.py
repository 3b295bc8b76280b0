"""Conditions on dynamic dimensions, as the entries of `dynamic_shapes` that state them."""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from opbridge.base.wording import listed
from opbridge.capture.guards.decisions import decided
from opbridge.capture.guards.expressions import (
    Constant,
    Expression,
    Operation,
    Symbol,
    parsed,
    replaced,
    symbols_in,
    value_at,
    written,
)
from opbridge.capture.related_sizes import sum_of

__all__ = ["Dimension", "statement", "statement_of_multiples"]

_LARGEST_FACTOR = 64


@dataclass(frozen=True)
class Dimension:
    """A dynamic dimension of an input.

    Attributes:
        label: What conditions call it: the user's name, "batch", or its place.
        place: The dimension as a Python expression, "x.shape[0]".
        is_dim: Whether the user gave a Dim, and not a name.
    """

    label: str
    place: str
    is_dim: bool = False


def statement(conditions: Iterable[str], dimensions: Iterable[Dimension]) -> str:
    """What to write so that dynamic shapes allow only sizes for which conditions hold, as an imperative sentence.

    'State "x": {0: Dim("n", min=2)} in dynamic_shapes' or 'Leave dimension 1 of "x" out of dynamic_shapes'. Empty where
    no entry states one of the conditions.

    Args:
        conditions: Conditions by the labels of dimensions: "n >= 2", "w % 8 == 0", "a == b", "n == 3".
        dimensions: The dynamic dimensions of all inputs.
    """
    known = list(dimensions)
    entries: dict[str, dict[str, str]] = {}
    left_out: dict[str, None] = {}
    for condition in conditions:
        label, value = _value(condition, known)
        places = [each for each in known if each.label == label]
        if not places:
            return ""
        for each in places:
            tensor, index = _split(each.place)
            if not value:
                left_out[f"dimension {index} of {tensor}"] = None
            else:
                entries.setdefault(tensor, {})[index] = value
    return _said(entries, left_out)


def statement_of_multiples(conditions: Sequence[str], dimensions: Iterable[Dimension]) -> str:
    """The same where conditions hold for multiples of numbers alone: 'State "x": {2: "24*h"} in dynamic_shapes'.

    The factors are the smallest for which the conditions hold, as `guards.decisions` decides it. Empty where there are
    none.

    Args:
        conditions: Conditions by the labels of dimensions, such as "(8*h) // 12 * 12 == 8*h".
        dimensions: The dynamic dimensions of all inputs.
    """
    known = {each: form for each in dimensions if (form := _multiple_of(each.label)) is not None}
    factors = _factors(conditions, {name for _, name in known.values()})
    entries: dict[str, dict[str, str]] = {}
    for each, (times, name) in known.items():
        if (factor := factors.get(name, 1)) > 1:
            tensor, index = _split(each.place)
            value = f"{factor * times}*{name}"
            entries.setdefault(tensor, {})[index] = value if each.is_dim else f'"{value}"'
    return _said(entries, {}) if entries else ""


def _multiple_of(label: str) -> tuple[int, str] | None:
    """The factor and the name of a label such as "8*h" or "h"."""
    found = re.fullmatch(r"\(?(?:(\d+)\*)?([A-Za-z_]\w*)\)?", label)
    return None if found is None else (int(found[1] or 1), found[2])


def _factors(conditions: Sequence[str], names: Collection[str]) -> dict[str, int]:
    """The smallest factors of sizes with which conditions hold; none where they are not found."""
    asked = [name for name in dict.fromkeys(itertools.chain(*map(symbols_in, conditions))) if name in names]
    trees = [tree for condition in conditions if (tree := parsed(condition)) is not None]
    if not asked or len(trees) < len(conditions):
        return {}

    def hold(factors: Mapping[str, int]) -> bool:
        sizes: dict[Expression, Expression] = {
            Symbol(name): Operation("*", (Constant(factor), Symbol(name))) for name, factor in factors.items()
        }
        texts = [written(replaced(tree, sizes)) for tree in trees]
        ones = dict.fromkeys(asked, 1)
        return all(value_at(text, ones) is True and decided(text, {}) for text in texts)

    common = next((each for each in range(2, _LARGEST_FACTOR + 1) if hold(dict.fromkeys(asked, each))), None)
    if common is None:
        return {}
    found = dict.fromkeys(asked, common)
    for name in asked:
        divisors = [each for each in range(1, common + 1) if common % each == 0]
        found[name] = next(each for each in divisors if hold({**found, name: each}))
    return found


def _said(entries: Mapping[str, Mapping[str, str]], left_out: Mapping[str, None]) -> str:
    """The sentence that says which entries to write, and which dimensions to leave out."""
    clauses = []
    if entries:
        written = (
            f"{tensor}: {{{', '.join(f'{index}: {value}' for index, value in dims.items())}}}"
            for tensor, dims in entries.items()
        )
        clauses.append(f"state {', '.join(written)} in dynamic_shapes")
    if left_out:
        clauses.append(f"leave {listed(list(left_out), 4)} out of dynamic_shapes")
    said = " and ".join(clauses)
    return said[:1].upper() + said[1:]


def _value(condition: str, known: list[Dimension]) -> tuple[str, str]:
    """The label that a condition is about, and what to give for it; "" is to leave it out."""
    label, comparison, number = _parts(condition)
    of_label = [each for each in known if each.label == label]
    name = label if label.isidentifier() else re.sub(r"\W+", "_", label).strip("_")
    if comparison in ("<=", ">=") and number.isdigit():
        return label, f'Dim("{name}", {"max" if comparison == "<=" else "min"}={number})'
    if comparison == "%":
        is_dim = any(each.is_dim for each in of_label) or not label.isidentifier()
        return label, f'{number}*Dim("{name}")' if is_dim else f'"{number}*{name}"'
    if comparison == "==" and number.isdigit():
        return label, ""
    if comparison == "==" and number.isidentifier() and any(each.label == number for each in known):
        is_dim = any(each.is_dim for each in known if each.label == number)
        return number, label if is_dim else f'"{label}"'
    if (found := sum_of(condition, [each.label for each in known if each.label.isidentifier()])) is not None:
        return found[0], f'"{found[1]}"'
    return "", ""


def _parts(condition: str) -> tuple[str, str, str]:
    """The label, the comparison and the number or label of a condition."""
    if found := re.fullmatch(r"\(?(.+?)\)? % (\d+) == 0", condition):
        return found[1], "%", found[2]
    if found := re.fullmatch(r"(\S+) (<=|>=|==) (\S+)", condition):
        return found[1], found[2], found[3]
    return "", "", ""


def _split(place: str) -> tuple[str, str]:
    """A place as the key of a tensor in dynamic shapes, and the number of the dimension."""
    tensor, _, index = place.rpartition(".shape[")
    return f'"{tensor}"' if tensor.isidentifier() else tensor, index.rstrip("]")
