"""Relations between dynamic dimensions that the model requires and the example inputs fulfil.

A cache is often exported with a name for each size, `past`, `seq` and, for the attention mask over both, `total`. The
model requires that `total == past + seq`, and runs for no other sizes; the three names are one contract.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from opbridge.base.sources import Source
from opbridge.capture.derived_sizes import DerivedSize
from opbridge.capture.dynamic_shapes import Shapes
from opbridge.capture.guards.expressions import symbols_in
from opbridge.capture.guards.linear import compared_sum
from opbridge.capture.size_constraints import Condition

__all__ = ["Relation", "relation_of", "restated", "sum_of"]


@dataclass(frozen=True)
class Relation:
    """A dynamic dimension that is a sum of others.

    Attributes:
        name: The user's name of the dimension, "total".
        text: The sum, "past + seq".
        condition: What the model requires, "past + seq <= total".
        source: The line that requires it, where that is known.
    """

    name: str
    text: str
    condition: str
    source: Source | None

    def note(self) -> str:
        """The relation for a person."""
        where = f" ({self.source})" if self.source else ""
        return (
            f"the dynamic dimension '{self.name}' is {self.text}, and is named so in the file: the model requires "
            f"{self.condition}{where}, and it holds for the example inputs; strict=True makes this an error"
        )


def relation_of(demands: Iterable[Condition], of_operators: Collection[str], shapes: Shapes) -> Relation | None:
    """The first relation that a model requires of dimensions with names, and that the example fulfils; None if none.

    1. What the model requires is a comparison of linear expressions of names, `past + seq <= total`, whose sides are
       equal for the example.
    2. That two sizes are equal may be a coincidence, as in a square image. It counts only where an operator requires
       it, which would fail otherwise; where Python asks, the model has another branch.
    3. One of the names can be computed from the others. The user has not limited its range, nor used it in another
       name. If there are several, the one whose sum subtracts least is taken, then the one that is named last.

    Args:
        demands: What the model requires of the sizes, by the names of the dimensions.
        of_operators: Those that operators require.
        shapes: The dynamic shapes.
    """
    if shapes.needs_torch_export or shapes.verify is not None:
        return None
    roots = {axis.name: axis for axis in shapes.axes.values() if axis.name and axis.derived is None}
    for text, source in demands:
        terms = _linear(text, list(roots))
        is_of_operator = text in of_operators and " == " in text
        if terms is None or len(terms) < (3 if is_of_operator else 4):
            continue
        if terms[""] + sum(count * roots[name].size for name, count in terms.items() if name):
            continue
        found = _sum_of(terms, [name for name in roots if name in terms and _is_free(name, shapes)])
        if found is not None:
            return Relation(*found, text, source)
    return None


def sum_of(condition: str, names: Sequence[str]) -> tuple[str, str] | None:
    """A name, and the sum that it has to be for a condition, "past + seq == total"; None where it is no such condition.

    Args:
        condition: What a model requires.
        names: The names of dimensions, in order.
    """
    terms = _linear(condition, names)
    return None if terms is None or len(terms) < 4 else _sum_of(terms, [name for name in names if name in terms])


def _sum_of(terms: Mapping[str, int], names: Iterable[str]) -> tuple[str, str] | None:
    """One of some names, with the sum that it is where a linear expression is 0; None where none is one."""
    sums = [(name, found) for name in names if (found := _solved(terms, name)) is not None]
    return min(reversed(sums), key=lambda each: each[1].count(" - ")) if sums else None


def restated(shapes: Shapes, relation: Relation) -> Shapes:
    """The same dynamic shapes with a relation stated."""
    terms = symbols_in(relation.text)
    roots = {axis.name: axis for axis in shapes.axes.values() if axis.derived is None}
    axes = dict(shapes.axes)
    for key, axis in axes.items():
        if axis.name != relation.name:
            continue
        if relation.text in roots:
            same = roots[relation.text]
            axes[key] = dataclasses.replace(same, place=axis.place, size=axis.size, may_be_empty=axis.may_be_empty)
        else:
            axes[key] = dataclasses.replace(
                axis,
                name=relation.text,
                low=None,
                checked=False,
                derived=DerivedSize.of_terms(relation.text, terms),
            )
    return dataclasses.replace(shapes, axes=axes)


def _is_free(name: str, shapes: Shapes) -> bool:
    """Whether a dimension may be replaced by a sum: it has no range, and no other is computed from it."""
    for axis in shapes.axes.values():
        if axis.name == name:
            if (axis.low or 0) > 1 or axis.high is not None:
                return False
        elif name in axis.terms or (axis.derived is not None and axis.root == name):
            return False
    return True


def _linear(condition: str, names: Sequence[str]) -> dict[str, int] | None:
    """The difference of the sides of a condition: the coefficient of each name, and the constant by "".

    None where a side is not linear, or the condition is no comparison, or has other names.
    """
    terms = compared_sum(condition)
    return terms if terms is not None and len(terms) > 1 and set(names) >= terms.keys() - {""} else None


def _solved(terms: Mapping[str, int], name: str) -> str | None:
    """The sum that a name stands for where a linear expression is 0, "past + 2*seq - 1"; None where it is no sum."""
    if abs(terms.get(name, 0)) != 1:
        return None
    factor = -terms[name]
    others = sorted((each, factor * count) for each, count in terms.items() if each not in ("", name))
    others.sort(key=lambda each: each[1] < 0)
    if others[0][1] < 0:
        return None
    text = ""
    for each, count in others:
        sign = "" if not text else " + " if count > 0 else " - "
        text += f"{sign}{'' if abs(count) == 1 else f'{abs(count)}*'}{each}"
    constant = factor * terms.get("", 0)
    if constant:
        text += f" {'+' if constant > 0 else '-'} {abs(constant)}"
    return text
