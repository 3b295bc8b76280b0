"""Conditions on sizes as a person writes them, over the names of dimensions."""

from __future__ import annotations

import re
from collections.abc import Mapping

__all__ = ["readable", "renamed", "with_numbers"]

_SYMBOL = re.compile(r"\b[a-z]+\d+\b")
_TERM = r"(?:\w+|\(\(-\d+\)\*\w+\))"


def readable(expression: str, names: Mapping[str, str]) -> str:
    """A condition over symbols as one over names of dimensions, without parentheses that it does not need.

    Args:
        expression: The condition.
        names: The name of each symbol; one without stays.
    """
    text = re.sub(r"^\(([^()]*)\) (==|!=|<=|>=|<|>) ", r"\1 \2 ", expression)
    text = _balanced(re.sub(r" (==|!=|<=|>=|<|>) \(([^()]*(?:\([^()]*\)[^()]*)*)\)$", r" \1 \2", text))
    return renamed(text, {symbol: _operand(name) for symbol, name in names.items()})


def renamed(expression: str, names: Mapping[str, str]) -> str:
    """A condition over symbols as one over names."""
    return _SYMBOL.sub(lambda found: names.get(found[0], found[0]), expression)


def with_numbers(condition: str, sizes: Mapping[str, int]) -> str:
    """A condition over names as one in which they are replaced by their sizes."""
    if not sizes:
        return condition
    longest_first = "|".join(map(re.escape, sorted(sizes, key=len, reverse=True)))
    names = re.compile(rf"(?<![\w.])(?:{longest_first})(?![\w.\[])")
    return names.sub(lambda found: str(sizes[found[0]]), condition)


def _balanced(text: str) -> str:
    """A condition as a person writes it: "a + ((-1)*b) <= 0" is "a <= b", and "n == 8*(n // 8)" is "n % 8 == 0"."""
    if multiple := re.fullmatch(r"(\w+) (==|!=) (\d+)\*\(\1 // \3\)", text):
        return f"{multiple[1]} % {multiple[3]} {multiple[2]} 0"
    found = re.fullmatch(rf"({_TERM}(?: \+ {_TERM})*) (==|!=|<=|>=|<|>) 0", text)
    if found is None:
        return text
    left, right = [], []
    for term in found[1].split(" + "):
        if negative := re.fullmatch(r"\(\(-(\d+)\)\*(\w+)\)", term):
            right.append(negative[2] if negative[1] == "1" else f"{negative[1]}*{negative[2]}")
        else:
            left.append(term)
    return f"{' + '.join(left)} {found[2]} {' + '.join(right)}" if left and right else text


def _operand(name: str) -> str:
    return f"({name})" if re.search(r"[-+*/ ]", name) else name
