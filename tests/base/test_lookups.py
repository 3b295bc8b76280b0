"""In what an instruction looks something up."""

from __future__ import annotations

import sys

from opbridge.base.python_private.lookups import NotLookedUp, container_at

_TABLE = {1: "one"}


class _Key:
    """A key that notes in what it is looked up."""

    def __init__(self):
        self.found = []

    def __hash__(self):
        frame = sys._getframe(1)
        self.found.append(container_at(frame, frame.f_lasti))
        return 0


class _Holder:
    def __init__(self):
        self.tables = {"a": {2: "two"}, "b": [{3: "three"}]}


def _tables():
    return [{}]


def _looked_up(key, self, local):
    found = [key in _TABLE, key not in self.tables]
    local.get(key, 0)
    self.tables["a"].get(key)
    self.tables["b"][0].pop(key, None)
    local[key] = 1
    {1: 2, "x": 3}.get(key)
    return [*found, local[key], key in {4, 5}]


def _not_looked_up(key):
    hash(key)
    _tables()[0].get(key)
    return (key, 1) in _tables()[0]


def test_what_has_a_name_or_is_a_display_is_known():
    key, holder, local = _Key(), _Holder(), {}
    _looked_up(key, holder, local)
    tables = holder.tables
    assert key.found[:5] == [_TABLE, tables, local, tables["a"], tables["b"][0]]
    assert key.found[0] is _TABLE
    assert key.found[5] is local
    assert key.found[6:] == [{1, "x"}, local, {4, 5}]


def test_what_has_no_name_is_not_known():
    key = _Key()
    _not_looked_up(key)
    assert key.found == [NotLookedUp.NO_LOOKUP, NotLookedUp.UNKNOWN, NotLookedUp.UNKNOWN]


def test_code_without_source_says_nothing():
    key, names = _Key(), {}
    exec("def look(key, table):\n    return table.get(key)", names)
    names["look"](key, {})
    assert key.found == [NotLookedUp.NO_SOURCE]
