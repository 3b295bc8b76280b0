"""Sizes that a capture leaves out although they were asked for: whether the model takes them, and the file is wrong.

A dimension that was given a name alone is to have any size. Where the capture is the model only for some sizes, as
`n <= 9`, that may be a limit of the model itself, such as the length of a table, which raises beyond it; or a branch
that the example decided, and the file computes something else there. A run at such a size tells.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from opbridge.base.torch_private import torch_sizes
from opbridge.capture.size_constraints import holds_for_all

if TYPE_CHECKING:
    from opbridge.capture import Capture
    from opbridge.verification.dynamic_sizes import DynamicSizes

__all__ = ["Uncovered", "is_small", "uncovered_sizes"]

_MULTIPLE = re.compile(r"\w+ % \d+ == 0")
_MOST = 4
_SEARCHED = 64
# Inputs of more elements than this, and than several times those of the example, are not tried.
_ELEMENTS, _TIMES = 1 << 18, 16


@dataclass(frozen=True)
class Uncovered:
    """Sizes for which a condition of the capture does not hold.

    Attributes:
        sizes: The size of each symbol.
        condition: The condition, by the names of the dimensions; joined with those that the same line has for other
            dimensions where they have to be multiples, as height and width.
        place: The line that causes it, "model.py:12"; empty where that is not known.
    """

    sizes: dict[str, int]
    condition: str
    place: str


def uncovered_sizes(capture: Capture, sizes: DynamicSizes) -> Iterator[Uncovered]:
    """Sizes to try, one for each of the first conditions of a capture.

    1. A condition counts where all of its dimensions were to be dynamic, whatever their sizes: a name alone, or
       Dim.DYNAMIC. The ranges of a Dim are the user's, and Dim.AUTO leaves it to the capture.
    2. That a size is at least 2 has a run of its own.

    Args:
        capture: The capture.
        sizes: Its dynamic dimensions.
    """
    symbols = dict(_symbols(capture))
    found = 0
    for number, (condition, place) in enumerate(capture.demands):
        if re.fullmatch(r"\S+ >= 2", condition):
            continue
        expression, used = _in_symbols(condition, symbols)
        if expression is None or not used or not used <= sizes.example.keys():
            continue
        chosen = _broken(expression, sorted(used), sizes)
        if chosen is not None and is_small(chosen, sizes):
            found += 1
            alike = [other for other, at in capture.demands[number:] if at == place and _MULTIPLE.fullmatch(other)]
            yield Uncovered(chosen, " and ".join(alike) if condition in alike else condition, place)
        if found == _MOST:
            return


def is_small(chosen: dict[str, int], sizes: DynamicSizes) -> bool:
    """Whether inputs of these sizes have few enough elements for a run."""

    def elements(of: dict[str, int]) -> int:
        return sum(map(math.prod, sizes.shapes(of).values()))

    return elements(chosen) <= max(_ELEMENTS, _TIMES * elements(sizes.example))


def _symbols(capture: Capture) -> Iterator[tuple[str, str]]:
    """The names in conditions, with their symbols, of the dimensions that were to have any size."""
    for asked in capture.asked:
        leaf = capture.graph.inputs[asked.leaf]
        size = None if leaf.node is None else leaf.node.meta["val"].shape[asked.axis]
        if torch_sizes.is_symbol(size) and not asked.is_automatic and not asked.is_checked:
            yield asked.name or asked.place, str(size)


def _in_symbols(condition: str, symbols: dict[str, str]) -> tuple[str | None, set[str]]:
    """A condition over symbols, and which; None where it has names of other dimensions."""
    used: set[str] = set()

    def symbol(name: re.Match[str]) -> str:
        used.add(symbols[name[0]])
        return symbols[name[0]]

    names = "|".join(re.escape(name) for name in sorted(symbols, key=len, reverse=True))
    if not names:
        return None, used
    expression = re.sub(rf"(?<![\w.])(?:{names})(?![\w.\[])", symbol, condition)
    try:
        code = compile(expression, "<condition>", "eval")
    except SyntaxError:
        return None, used
    known = used | {"math", "floor", "ceil", "trunc", "max", "min", "abs", "int", "round", "torch", "sym_float"}
    return (expression, used) if set(code.co_names) <= known | {"sqrt", "_sym_sqrt"} else (None, used)


def _broken(expression: str, used: list[str], sizes: DynamicSizes) -> dict[str, int] | None:
    """The example's sizes but for one, with which the condition does not hold."""
    bound = re.fullmatch(r"\w+ <= (\d+)", expression)
    for symbol in used:
        example = sizes.example[symbol]
        larger = [int(bound[1]) + 1] if bound else range(example + 1, example + _SEARCHED)
        for size in (*larger, *range(example - 1, 0, -1)):
            chosen = {**sizes.example, symbol: size}
            if not holds_for_all(expression, tuple(used), {each: (chosen[each], chosen[each]) for each in used}):
                return chosen
    return None
