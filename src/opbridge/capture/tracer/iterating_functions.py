"""Python's functions that go over a sequence in C: of one of a symbolic length, they are those of `iterating`."""

from __future__ import annotations

import functools
import itertools
import operator
import sys
from collections.abc import Callable, Iterable
from types import GeneratorType
from typing import Any, cast

import torch

from opbridge.capture.tracer import iterating
from opbridge.capture.tracer.comprehensions import list_of
from opbridge.capture.tracer.derived_sequences import Zipped
from opbridge.capture.tracer.list_forms import form_of
from opbridge.capture.tracer.origins import is_the_models
from opbridge.capture.tracer.sized_sequences import SizedSequence
from opbridge.capture.tracer.symbolic_list import chained, is_list, sequence_of
from opbridge.capture.tracer.symbolic_loops import active_loops, asks
from opbridge.capture.tracer.tensor_sequences import Numbers

__all__ = ["ITERATING", "contained", "filtered"]

_reduce = functools.reduce
_accumulate, _chain, _islice = itertools.accumulate, itertools.chain, itertools.islice
_pairwise, _starmap = itertools.pairwise, itertools.starmap
_filter = filter


def _form(values: Any) -> SizedSequence | None:
    """The sequence over which a loop asks before each iteration; None for any other value."""
    form = form_of(values) if is_list(values) or type(values) is tuple else sequence_of(values)
    return form if isinstance(form, SizedSequence) and form.is_indexed and asks(form) else None


def _is_gone_over(values: Any) -> bool:
    """Whether a loop over values asks before each iteration, or may do so in the generator that they are."""
    return _is_generator(values) or _form(values) is not None


def _is_generator(values: Any) -> bool:
    return isinstance(values, GeneratorType) and active_loops() is not None


def _listed(values: Any) -> Any:
    """What a generator yields, as a list that its loop fills; any other value as it is."""
    return list_of(values) if _is_generator(values) else values


def _reduced(function: Any, values: Any, *initial: Any) -> Any:
    """`functools.reduce`."""
    values = _listed(values)
    form = _form(values)
    if form is None:
        return _reduce(function, values, *initial)
    return iterating.reduced(function, form, *initial)


def _accumulated(values: Any, function: Any = None, *, initial: Any = None) -> Iterable[Any]:
    """`itertools.accumulate`."""
    values = _listed(values)
    form = _form(values)
    if form is None:
        return _accumulate(values, function, initial=initial)
    numbers = form.integers()
    if numbers is not None and function is None and initial is None:
        return Numbers(numbers.cumsum(0))
    return iterating.accumulated(form, function or operator.add, *(() if initial is None else (initial,)))


def _chained(*iterables: Any) -> Iterable[Any]:
    """`itertools.chain`."""
    if not any(map(_is_gone_over, iterables)):
        return _chain(*iterables)
    if any(isinstance(each, GeneratorType) for each in iterables):
        return iterating.chained(iterables)
    found: Iterable[Any] = chained(*iterables)
    return found


def _chained_of(iterables: Any) -> Iterable[Any]:
    """`itertools.chain.from_iterable`."""
    return iterating.chained(_listed(iterables)) if _is_gone_over(iterables) else _chain.from_iterable(iterables)


def _sliced(values: Any, *limits: Any) -> Iterable[Any]:
    """`itertools.islice`."""
    form = _form(values)
    return _islice(values, *limits) if form is None else form[slice(*limits)]


def _paired(values: Any) -> Iterable[Any]:
    """`itertools.pairwise`."""
    form = _form(values)
    return _pairwise(values) if form is None else Zipped((form, form[1:]))


def _starred(function: Any, values: Any) -> Iterable[Any]:
    """`itertools.starmap`."""
    return iterating.starred(function, values) if _is_gone_over(values) else _starmap(function, values)


def filtered(function: Any, values: Any) -> Iterable[Any]:
    """`filter`."""
    return iterating.filtered(function, values) if _is_gone_over(values) else _filter(function, values)


_SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool, torch.Tensor)


def contained(value: Any, values: Any) -> bool:
    """`value in values`: of a list or a tuple, a decision for each element that has a symbolic number."""
    if _form(values) is not None:
        return iterating.contains(values, value)
    is_plain = type(values) is not tuple and not is_list(values)
    if is_plain or not (isinstance(value, _SYMBOLIC) or any(isinstance(each, _SYMBOLIC) for each in values)):
        return value in values
    return iterating.contains(values, value)


def _for_the_model(python: Any, following: Callable[..., Any]) -> Callable[..., Any]:
    """A function for the model's code; code of torch and of opbridge that runs meanwhile gets Python's own.

    Args:
        python: Python's function.
        following: The one that follows sequences of a symbolic length.
    """

    def called(*args: Any, **settings: Any) -> Any:
        return (following if is_the_models(sys._getframe(1).f_code) else python)(*args, **settings)

    return called


def _chaining() -> Callable[..., Any]:
    """`itertools.chain`, with its other constructor."""
    found: Any = _for_the_model(_chain, _chained)
    found.from_iterable = _for_the_model(_chain.from_iterable, _chained_of)
    return cast("Callable[..., Any]", found)


ITERATING: tuple[tuple[Any, str, Callable[..., Any]], ...] = (
    (functools, "reduce", _for_the_model(_reduce, _reduced)),
    (itertools, "accumulate", _for_the_model(_accumulate, _accumulated)),
    (itertools, "chain", _chaining()),
    (itertools, "islice", _for_the_model(_islice, _sliced)),
    (itertools, "pairwise", _for_the_model(_pairwise, _paired)),
    (itertools, "starmap", _for_the_model(_starmap, _starred)),
)
"""For each of these functions, where it is, its name, and what takes its place."""
