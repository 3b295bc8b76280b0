"""Replacements while a model is captured."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib
import sys
import types

import pytest
import torch

from opbridge.model_support import applying
from opbridge.model_support.applying import applied, applied_to_sizes_in_python, noting
from opbridge.model_support.entries import CaptureContext, CodeReplacement, FunctionReplacement, ModelSupport
from opbridge.model_support.fingerprints import fingerprint


def doubled(x, **kwargs):
    return x + x


def offset():
    return 10


def by_default(x, function=doubled):
    return function(x)


def counting(function):
    """A decorator, which says how often it has been called."""

    @functools.wraps(function)
    def around(*args):
        around.count += 1
        return function(*args)

    around.count = 0
    return around


class Layer(torch.nn.Module):
    def forward(self, x):
        return doubled(x)

    def used(self, x):
        return self.shift(x)

    def shift(self, x):
        return x + 1

    @counting
    def counted(self, x):
        return x


class Holding(torch.nn.Module):
    """Holds the function under other names, its class and itself."""

    static = staticmethod(doubled)

    def __init__(self):
        super().__init__()
        self.own = doubled

    def forward(self, x):
        return self.static(x), self.own(x)


class Inheriting(Layer):
    pass


class Overriding(Layer):
    def shift(self, x):
        return x + 2


_HERE = __name__
_DOUBLED = FunctionReplacement(
    targets=(f"{_HERE}:doubled",),
    sources=(fingerprint(doubled),),
    replacement=lambda arguments: arguments["x"] * 2 + arguments["offset"]() if arguments["x"] else None,
    applies=lambda arguments: not arguments["kwargs"],
    uses=("offset",),
)
_USED = FunctionReplacement(
    targets=(f"{_HERE}:Layer.used",),
    sources=(fingerprint(Layer.used),),
    replacement=lambda arguments: arguments["x"] + 100,
    calls={"shift": fingerprint(Layer.shift)},
)
_COUNTED = FunctionReplacement(
    targets=(f"{_HERE}:Layer.counted",),
    sources=(fingerprint(Layer.counted.__wrapped__),),
    replacement=lambda arguments: arguments["x"] + 1000,
    owner_suffix="yer",
    decorators=("counting",),
)


@pytest.fixture
def knowing(monkeypatch):
    """Makes entries those that are known."""

    def know(*entries):
        monkeypatch.setattr(applying, "supports", lambda: (ModelSupport(package=_HERE, entries=entries),))

    return know


def test_a_function_is_replaced_in_the_modules_of_a_model(knowing):
    knowing(_DOUBLED)
    layer = Layer()
    with applied(layer):
        assert layer(3) == 16
        assert layer(0) == 0  # the replacement gives None
        assert doubled(3, other=1) == 6  # it does not apply
    assert layer(3) == 6


def test_a_function_is_replaced_where_it_is_defined(knowing):
    """A model may call it through its module, which is none of those that its classes come from."""
    knowing(_DOUBLED)
    with applied(torch.nn.ReLU()):
        assert doubled(3) == 16


def test_a_function_is_replaced_as_a_default_argument(knowing):
    knowing(_DOUBLED)
    with applied(torch.nn.ReLU()):
        assert by_default(3) == 16
    assert by_default(3) == 6 and by_default.__defaults__ == (doubled,)


def test_a_function_is_replaced_under_another_name(knowing, monkeypatch):
    """In a module that no class of the model comes from, in a class, and in a module of the model."""
    knowing(_DOUBLED)
    module = types.ModuleType("module_of_the_user")
    module.twice = doubled
    monkeypatch.setitem(sys.modules, module.__name__, module)
    model = torch.nn.Sequential(Holding())
    with applied(model):
        assert module.twice(3) == 16 and model(3) == (16, 16) and Holding.static(3) == 16
    assert module.twice is doubled and model[0].own is doubled and vars(Holding)["static"].__func__ is doubled


def test_a_module_that_is_imported_meanwhile(knowing, monkeypatch, tmp_path):
    """It takes what its name stands for, and has the function itself afterwards."""
    (tmp_path / "imported_meanwhile.py").write_text(f"import sys\n\ntwice = sys.modules[{_HERE!r}].doubled\n")
    monkeypatch.syspath_prepend(tmp_path)
    knowing(_DOUBLED)
    with applied(Layer()):
        module = importlib.import_module("imported_meanwhile")
        assert module.twice(3) == 16
    assert module.twice is doubled
    monkeypatch.delitem(sys.modules, "imported_meanwhile")


def test_what_is_said_of_a_replacement_that_is_computed(knowing):
    said = dataclasses.replace(_DOUBLED, note=lambda arguments: "of three" if arguments["x"] == 3 else "")
    knowing(said)
    with noting() as notes, applied(Layer()):
        for number in (3, 1, 3, 0):
            doubled(number)
        assert list(notes) == ["of three"]
    with applied(Layer()):
        assert doubled(3) == 16  # nothing is noted there


def test_all_is_as_it_was_after_an_error(knowing):
    knowing(_DOUBLED, _USED)
    before = doubled, Inheriting.used
    with pytest.raises(ZeroDivisionError), applied(Inheriting()):
        assert doubled is not before[0] and "used" in vars(Inheriting)
        raise ZeroDivisionError
    assert (doubled, Inheriting.used) == before and "used" not in vars(Inheriting)


def test_another_source_is_left(knowing):
    changed = FunctionReplacement(targets=_DOUBLED.targets, sources=("0",), replacement=_DOUBLED.replacement)
    knowing(changed)
    with applied(Layer()):
        assert doubled(3) == 6


def test_a_method_is_replaced_where_what_it_calls_is_known(knowing):
    knowing(_USED)
    layer, inheriting, overriding = Layer(), Inheriting(), Overriding()
    with applied(torch.nn.ModuleList([layer, inheriting, overriding])):
        assert [each.used(1) for each in (layer, inheriting)] == [101, 101]
    with applied(overriding):
        assert overriding.used(1) == 3
    with applied(layer):
        vars(layer)["shift"] = lambda x: x + 3
        assert layer.used(1) == 4
    assert layer.used(1) == 4


def test_decorators_are_put_around_the_replacement(knowing):
    knowing(_COUNTED)
    layer = Layer()
    with applied(layer):
        assert layer.counted(1) == 1001 and Layer.counted.count == 1
    assert layer.counted(1) == 1
    knowing(
        FunctionReplacement(
            targets=_COUNTED.targets, sources=_COUNTED.sources, replacement=_COUNTED.replacement, owner_suffix="yer"
        )
    )
    with applied(layer):
        assert layer.counted(1) == 1  # it has a decorator that the entry does not know


def test_a_code_is_replaced_in_whatever_holds_the_function(knowing):
    def tripled(x, **kwargs):
        return x * 3

    held = doubled
    entry = CodeReplacement(
        targets=_DOUBLED.targets, sources=_DOUBLED.sources, replacement=lambda function: tripled.__code__
    )
    knowing(entry)
    with applied(Layer()):
        assert held(3) == 9
    assert held(3) == 6
    knowing(CodeReplacement(targets=entry.targets, sources=entry.sources, replacement=lambda function: None))
    with applied(Layer()):
        assert held(3) == 6


def test_contexts(knowing):
    entered = []

    def context(name):
        @contextlib.contextmanager
        def entering(model):
            entered.append((name, model))
            yield

        return entering

    common = {"targets": ("a:b",), "sources": ("0",)}
    knowing(
        CaptureContext(**common, context=context("all")),
        CaptureContext(**common, context=context("sizes"), sizes_in_python=True),
    )
    model = types.SimpleNamespace(modules=lambda: iter(()))
    with applied(model):
        assert entered == [("all", model)]
    with applied_to_sizes_in_python(model):
        assert entered == [("all", model), ("sizes", model)]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"targets": ("a.b",)}, "is not of the form"),
        ({"targets": ()}, "needs at least one target"),
        ({"sources": ()}, "needs at least one target"),
        ({"targets": ("a:b", "a:C.d")}, "are functions of several names"),
    ],
)
def test_entries_that_are_none(given, said):
    with pytest.raises(ValueError, match=said):
        FunctionReplacement(**{"targets": ("a:b",), "sources": ("0",), "replacement": print} | given)
    with pytest.raises(TypeError, match="3 is not an entry"):
        ModelSupport(package="a", entries=(3,))
