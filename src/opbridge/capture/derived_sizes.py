"""Sizes of dimensions that are computed from those of others, as Dims and names say: `2 * batch`, "past + sequence"."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["DerivedSize", "is_sum", "names_in"]

_SEARCHED = 4096
_WORD = re.compile(r"[^\W\d]\w*")


@dataclass(frozen=True)
class DerivedSize:
    """How the size of a dimension is computed.

    Attributes:
        compute: Computes it: from the size of `root`, or from those of `terms`, by name.
        root: The name of the dimension that it is computed from, "batch"; None where these are `terms`.
        root_range: The smallest and largest size of `root`.
        terms: The names of the dimensions that it is computed from, where these may be several: "past + sequence".
    """

    compute: Callable[[Any], Any]
    root: str | None = None
    root_range: tuple[int | None, int | None] = (None, None)
    terms: tuple[str, ...] = ()

    @classmethod
    def of_root(cls, text: str, root: str) -> DerivedSize:
        """What a name such as "8*h" says, where no dimension has the size `h`."""
        return cls(functools.partial(_size_of_one, text, root), root)

    @classmethod
    def of_terms(cls, text: str, terms: tuple[str, ...]) -> DerivedSize:
        """What a name such as "past + 2*sequence - 1" says, by the dimensions in it."""
        return cls(functools.partial(_size_of, text), terms=terms)

    def root_example(self, size: int) -> int | None:
        """The size of `root` in an example where this one is known; None where there is none."""
        return next((each for each in range(size + _SEARCHED) if self.compute(each) == size), None)


def is_sum(name: str) -> bool:
    """Whether the name of a dimension is an expression: "past + sequence"."""
    return re.fullmatch(r"\s*\w+(\s*[+*-]\s*\w+)+\s*", name) is not None


def names_in(name: str) -> tuple[str, ...]:
    """The names in an expression, each once."""
    return tuple(dict.fromkeys(_WORD.findall(name)))


def _size_of_one(text: str, name: str, value: Any) -> Any:
    return _size_of(text, {name: value})


def _size_of(text: str, sizes: Mapping[str, Any]) -> Any:
    """The value of a sum or product of names and numbers: "past + sequence", "past + 2*sequence - 1".

    Args:
        text: The expression.
        sizes: The values of the names: ints, or symbolic ones.
    """
    total: Any = 0
    for sign, product in re.findall(r"([+-]?)\s*(\w+(?:\s*\*\s*\w+)*)", text):
        value: Any = 1
        for factor in product.split("*"):
            value = value * (int(factor) if factor.strip().isdigit() else sizes[factor.strip()])
        total = total - value if sign == "-" else total + value
    return total
