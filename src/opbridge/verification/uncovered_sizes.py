"""Sizes that a capture leaves out although they were asked for: whether the model takes them, and the file is wrong.

A dimension that was given a name alone is to have any size. Where the capture is the model only for some sizes, as
`n <= 9`, that may be a limit of the model itself, such as the length of a table, which raises beyond it; or a branch
that the example decided, and the file computes something else there. A run at such a size tells.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from opbridge.base.torch_private import torch_sizes
from opbridge.capture.guards.expressions import holds_at
from opbridge.capture.stated_sizes import Dimension, statement
from opbridge.verification.largest_results import are_results_small

if TYPE_CHECKING:
    from opbridge.capture import Capture
    from opbridge.verification.dynamic_sizes import DynamicSizes

__all__ = ["Uncovered", "is_small", "uncovered_sizes"]

_MULTIPLE = re.compile(r"\w+ % \d+ == 0")
_MOST = 12
_FAR = 16
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
        stated: What to write so that only sizes are asked for with which it holds; see `opbridge.capture.stated_sizes`.
    """

    sizes: dict[str, int]
    condition: str
    place: str
    stated: str = ""


def uncovered_sizes(capture: Capture, sizes: DynamicSizes) -> Iterator[Uncovered]:
    """Sizes to try, one for each of the first conditions of a capture.

    1. A condition counts where all of its dimensions were to be dynamic, whatever their sizes: a name alone, or
       Dim.DYNAMIC. The ranges of a Dim are the user's, and Dim.AUTO leaves it to the capture.
    2. That a size is at least 2 has a run of its own.
    3. Sizes for which only this condition does not hold come before others, which the model may refuse.
    4. Beyond a largest size two are tried, the next one and one that is much larger: torch keeps the smallest of
       several limits, which may make no difference where a further one does.

    Args:
        capture: The capture.
        sizes: Its dynamic dimensions.
    """
    symbols = dict(_symbols(capture))
    conditions: list[tuple[str, tuple[str, ...], str, str]] = []
    for condition, place in capture.demands:
        if re.fullmatch(r"\S+ >= 2", condition):
            continue
        expression, used = _in_symbols(condition, symbols)
        if expression is not None and used and used <= sizes.example.keys():
            conditions.append((expression, tuple(sorted(used)), condition, place))
    dimensions = [Dimension(each.name or each.place, each.place, each.is_checked) for each in capture.asked]
    tried: list[dict[str, int]] = []
    for number, (expression, dims, condition, place) in enumerate(conditions):
        others = [(other, of) for other, of, *_ in conditions if other != expression]
        alike = [text for _, _, text, at in conditions[number:] if at == place and _MULTIPLE.fullmatch(text)]
        for chosen in _broken(expression, dims, sizes, others):
            if chosen not in tried and is_small(chosen, sizes) and are_results_small(capture, chosen, sizes.example):
                tried.append(chosen)
                joined = alike if condition in alike else [condition]
                yield Uncovered(chosen, " and ".join(joined), place, statement(joined, dimensions))
        if len(tried) >= _MOST:
            return


def is_small(chosen: dict[str, int], sizes: DynamicSizes) -> bool:
    """Whether there are inputs of these sizes, with few enough elements for a run."""
    return sizes.exist(chosen) and sizes.elements(chosen) <= max(_ELEMENTS, _TIMES * sizes.elements(sizes.example))


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


def _broken(
    expression: str, used: tuple[str, ...], sizes: DynamicSizes, others: Sequence[tuple[str, tuple[str, ...]]]
) -> list[dict[str, int]]:
    """The example's sizes but for one, with which the condition does not hold, and all others do where that is so."""
    bound = re.fullmatch(r"\w+ <= (\d+)", expression)
    if bound is not None:
        beyond = int(bound[1]) + 1
        return [{**sizes.example, used[0]: size} for size in (beyond, _FAR * beyond)]
    first: list[dict[str, int]] = []
    for symbol in used:
        example = sizes.example[symbol]
        for size in (*range(example + 1, example + _SEARCHED), *range(example - 1, 0, -1)):
            chosen = {**sizes.example, symbol: size}
            if _holds(expression, used, chosen):
                continue
            if all(_holds(other, of, chosen) for other, of in others):
                return [chosen]
            first = first or [chosen]
    return first


def _holds(expression: str, used: tuple[str, ...], sizes: Mapping[str, int]) -> bool:
    return holds_at(expression, {each: sizes[each] for each in used})
