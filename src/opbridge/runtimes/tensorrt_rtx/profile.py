"""The sizes that an engine is built for: for each dynamic dimension the least, the usual and the most."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from opbridge.base.size_expressions import evaluate
from opbridge.errors import UsageError
from opbridge.runtimes.arguments import NodeArgument

__all__ = ["DEFAULT", "InputSizes", "Range", "parsed", "sizes_of"]

_ITEM = re.compile(r"(?P<name>[^=]+)=(?P<least>\d+)(?::(?P<usual>\d+):(?P<most>\d+))?")
_NAME = re.compile(r"[^\W\d]\w*")


@dataclass(frozen=True)
class Range:
    """The sizes of a dimension, or the values of an input that shapes are computed from.

    Attributes:
        least: The smallest.
        usual: The one that the engine is optimised for.
        most: The largest.
    """

    least: int
    usual: int
    most: int

    def __post_init__(self) -> None:
        if not 0 <= self.least <= self.usual <= self.most:
            raise UsageError(f"The range {self} is invalid; expected min:opt:max with 0 <= min <= opt <= max.")

    def __iter__(self) -> Any:
        return iter((self.least, self.usual, self.most))

    def __str__(self) -> str:
        return f"{self.least}:{self.usual}:{self.most}"


DEFAULT = Range(1, 8, 64)
"""What a dimension has that no range is given for."""

InputSizes = tuple[list[int], list[int], list[int]]
"""An input's shape at the least, the usual and the most."""


def parsed(given: Sequence[str] | Mapping[str, Any]) -> dict[str, Range]:
    """Ranges by the names of dimensions.

    Args:
        given: "n=1:8:32" (min:opt:max) or "n=8", also several separated by commas; or {"n": (1, 8, 32)}, {"n": 8}. A
            dimension without a name is written as "x:0", the input and the axis.

    Raises:
        UsageError: It is none of these.
    """
    if isinstance(given, Mapping):
        return {str(name): _range(name, value) for name, value in given.items()}
    found = {}
    for item in (each.strip() for text in ([given] if isinstance(given, str) else given) for each in text.split(",")):
        match = _ITEM.fullmatch(item)
        if match is None:
            raise UsageError(
                f"Invalid value for --profile: '{item}'. Expected NAME=MIN:OPT:MAX or NAME=SIZE, such as n=1:8:32."
            )
        least, usual, most = match["least"], match["usual"] or match["least"], match["most"] or match["least"]
        found[match["name"].strip()] = Range(int(least), int(usual), int(most))
    return found


def _range(name: Any, value: Any) -> Range:
    numbers = (value,) * 3 if type(value) is int else tuple(value) if isinstance(value, (Range, list, tuple)) else ()
    if len(numbers) != 3 or not all(type(each) is int for each in numbers):
        raise UsageError(f"profile={{{name!r}: {value!r}}} is invalid; expected a size or (min, opt, max).")
    return Range(*numbers)


def sizes_of(inputs: Iterable[NodeArgument], given: Mapping[str, Range]) -> dict[str, InputSizes]:
    """The shapes of the inputs that have dynamic dimensions.

    1. A dimension has the range that is given for its name, or for "x:0", the input and the axis.
    2. One whose name is an expression, such as "past + seq", has what the ranges of its symbols give.
    3. Any other has `DEFAULT`.

    Raises:
        UsageError: A range is given for something that is no dimension of the model.
    """
    found: dict[str, InputSizes] = {}
    used: set[str] = set()
    names: list[str] = []
    for each in inputs:
        ranges = []
        for axis, size in enumerate(each.shape):
            if isinstance(size, int):
                ranges.append(Range(size, size, size))
                continue
            keys = [key for key in (size, f"{each.name}:{axis}") if key]
            names += keys
            ranges.append(_of_dimension(keys, given, used))
        if any(not isinstance(size, int) for size in each.shape):
            least, usual, most = (list(column) for column in zip(*ranges, strict=True))
            found[each.name] = (least, usual, most)
        names.append(each.name)
        used |= {each.name} & given.keys()  # an input that shapes are computed from
    if unknown := given.keys() - used:
        known = ", ".join(dict.fromkeys(name for name in names if name)) or "none"
        raise UsageError(
            f"The profile has a range for '{min(unknown)}', which is not a dynamic dimension of the model. The "
            f"dimensions and inputs that may have one are: {known}."
        )
    return found


def _of_dimension(keys: Sequence[str], given: Mapping[str, Range], used: set[str]) -> Range:
    for key in keys:
        if key in given:
            used.add(key)
            return given[key]
    symbols = _NAME.findall(keys[0])
    if symbols == [keys[0]]:
        return DEFAULT
    used |= set(symbols) & given.keys()
    chosen = [given.get(symbol, DEFAULT) for symbol in symbols]
    try:
        numbers = [evaluate(keys[0], dict(zip(symbols, column, strict=True))) for column in zip(*chosen, strict=True)]
        least, usual, most = sorted(numbers)
        return Range(least, usual, most)
    except (ValueError, UsageError):  # no expression of the names, or none of sizes
        return DEFAULT
