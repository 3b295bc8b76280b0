"""The lists of a function, as lists that loops may fill."""

from __future__ import annotations

import pytest

from opbridge.capture.tracer import list_syntax
from opbridge.capture.tracer.symbolic_list import SymbolicList


class _Called(list):
    pass


def _summed(*pieces):
    return _Called(each for piece in pieces for each in piece)


def _run(function, *args):
    """Calls a function whose lists are given to functions that show it."""
    code = list_syntax.with_symbolic_lists(function.__code__)
    assert code is not function.__code__
    names = {
        **function.__globals__,
        list_syntax.LIST: _Called,
        list_syntax.NEW: SymbolicList,
        list_syntax.SUM: _summed,
        list_syntax.ZIP: lambda values: ("unzipped", values),
    }
    return type(function)(code, names, function.__name__, function.__defaults__, function.__closure__)(*args)


def comprehended(values):
    return [each + 1 for each in values]


def starred(values):
    return [0, *values, 1, 2, *(each for each in values)]


def filled(values):
    found, parts = [], {"all": [1], "none": ()}
    for each in values:
        found.append(each)
        parts["all"].append(each)
    first, *others = [3, 4]
    return found, parts["all"], [first, others]


def extended(values):
    found = list()  # noqa: C408  # as models write it
    found.extend(values)
    added = []
    added += values
    return found, added


def unzipped(pairs):
    return zip(*[(a, b) for a, b in pairs])  # noqa: B905


def of_constants(x):
    return x.view([1, 2]).sum([0, 1])


def test_each_kind_of_list():
    assert type(_run(comprehended, [1, 2])) is _Called and _run(comprehended, [1, 2]) == [2, 3]
    assert type(_run(starred, [7, 8])) is _Called and _run(starred, [7, 8]) == [0, 7, 8, 1, 2, 7, 8]
    found, parts, others = _run(filled, [5, 6])
    assert (type(found), type(parts)) == (SymbolicList, SymbolicList)
    assert found == [5, 6] and parts == [1, 5, 6]
    assert type(others) is list and others == [3, [4]]
    assert [type(each) for each in _run(extended, [5, 6])] == [SymbolicList, SymbolicList]
    assert _run(unzipped, [(1, 2)]) == ("unzipped", [(1, 2)])


def test_a_lambda_expression():
    assert type(_run(lambda values: [each + 1 for each in values], [1])) is _Called


@pytest.mark.parametrize("function", [of_constants, len, lambda values: values])
def test_other_functions_stay(function):
    code = getattr(function, "__code__", of_constants.__code__)
    assert list_syntax.with_symbolic_lists(code) is code
