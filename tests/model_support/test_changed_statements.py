"""Functions with other statements in the place of some of theirs."""

from __future__ import annotations

import types

import pytest

from opbridge.model_support.transformers.changed_statements import with_statements

_CHANGES = {
    "found = [each + 1 for each in values]": "found = [each + 10 for each in values]",
    "if found:\n    return found": "if len(found) > 1:\n    return found",
}


def both(values):
    found = [
        each + 1  # a comment is no part of a statement
        for each in values
    ]
    if values:
        if found:
            return found
    return "none"


def one(values):
    found = [each + 1 for each in values]
    return found


def twice(values):
    found = [each + 1 for each in values]
    if found:
        return found
    found = [each + 1 for each in values]
    return found


def test_all_statements_are_changed_where_they_stand():
    code = with_statements(_CHANGES)(both)
    changed = types.FunctionType(code, both.__globals__, both.__name__)
    assert changed([1, 2]) == [11, 12]
    assert changed([1]) == changed([]) == "none"
    assert both([1]) == [2]
    assert code.co_firstlineno == both.__code__.co_firstlineno


@pytest.mark.parametrize("function", [one, twice])
def test_a_function_without_each_of_them_once_stays(function):
    assert with_statements(_CHANGES)(function) is None


def test_a_statement_is_found_by_how_it_begins():
    code = with_statements({"if values:": "return 'changed'"})(both)
    assert types.FunctionType(code, both.__globals__)([1]) == "changed"
    assert with_statements({"if values:": "return 'changed'"})(twice) is None
