"""Where functions are found, under whatever name."""

from __future__ import annotations

import sys
import types

import pytest
import torch

from opbridge.model_support.holders import in_modules, in_objects


def one():
    return 1


def other():
    return 2


class Holding:
    kept = one
    static = staticmethod(other)
    of_class = classmethod(other)
    result = one()


@pytest.fixture
def module(monkeypatch):
    """Makes a module that has been imported."""

    def make(path, **values):
        made = types.ModuleType(path)
        vars(made).update(values)
        monkeypatch.setitem(sys.modules, path, made)
        return made

    return make


def test_a_module_that_has_imported_a_function_under_another_name(module):
    made = module("written_now", first=one, second=one, number=1, tensor=torch.ones(2))
    here = sys.modules[__name__]
    assert {*in_modules([one])} == {(made, "first", one), (made, "second", one), (here, "one", one)}
    assert {*in_modules([one, other])} == {*in_modules([one])} | {(here, "other", other)}
    assert not [*in_modules([])]


def test_a_module_that_changes(module):
    """One that is not installed is searched each time, and an installed one when it has more values or fewer."""
    written = module("written_now", first=one, second=2)
    installed = module("installed", __file__="/lib/site-packages/installed.py", first=one)

    def found(place):
        return {name for each, name, _ in in_modules([one]) if each is place}

    assert found(written) == found(installed) == {"first"}
    written.second = installed.second = one
    written.first = installed.first = other
    assert found(written) == found(installed) == {"second"}
    del installed.second
    assert found(installed) == set()


def test_what_is_no_module(module, monkeypatch):
    monkeypatch.setitem(sys.modules, "no_module", types.SimpleNamespace(first=one))
    monkeypatch.setitem(sys.modules, "nothing", None)
    assert [name for _, name, _ in in_modules([one])] == ["one"]


def test_classes_and_objects():
    held = types.SimpleNamespace(function=one, number=1, functions=[other])
    assert [*in_objects([one, other], [Holding, held])] == [
        (Holding, "kept", one),
        (Holding, "static", other),
        (held, "function", one),
    ]
    assert not [*in_objects([torch.relu], [Holding, held])]
