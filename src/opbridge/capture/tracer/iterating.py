"""`in`, `functools.reduce`, `filter` and functions of `itertools` as loops in Python.

Python's own go over a sequence in C, so that no loop asks whether there is a further element of one of a symbolic
length, and what they ask of each element has one place in the model. The frames of these functions count as the
model's, as those of `filling` do: a decision in them shows what their variables hold. What a function gives is a
generator where Python's gives an iterator. No function here handles an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

__all__ = ["accumulated", "chained", "contains", "filtered", "reduced", "starred"]


def contains(values: Iterable[Any], wanted: Any) -> bool:
    """`wanted in values`, of a list or a tuple."""
    for each in values:  # noqa: SIM110 - `any` goes over them in C
        if each is wanted or each == wanted:
            return True
    return False


def reduced(function: Callable[[Any, Any], Any], values: Any, *initial: Any) -> Any:
    """`functools.reduce`; without an initial value, of a sequence that can be indexed."""
    if initial:
        found, rest = initial[0], values
    else:
        found, rest = values[0], values[1:]
    for each in rest:
        found = function(found, each)
    return found


def accumulated(values: Any, function: Callable[[Any, Any], Any], *initial: Any) -> Iterator[Any]:
    """`itertools.accumulate`; without an initial value, of a sequence that can be indexed."""
    if initial:
        found, rest = initial[0], values
    else:
        found, rest = values[0], values[1:]
    yield found
    for each in rest:
        found = function(found, each)
        yield found


def chained(iterables: Iterable[Iterable[Any]]) -> Iterator[Any]:
    """`itertools.chain.from_iterable`."""
    for iterable in iterables:
        for each in iterable:  # noqa: UP028 - the loop asks before each element, `yield from` does not
            yield each


def filtered(function: Callable[[Any], Any] | None, values: Iterable[Any]) -> Iterator[Any]:
    """`filter`."""
    for each in values:
        if each if function is None else function(each):
            yield each


def starred(function: Callable[..., Any], values: Iterable[Iterable[Any]]) -> Iterator[Any]:
    """`itertools.starmap`."""
    for each in values:
        yield function(*each)
