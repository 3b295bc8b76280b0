"""Calls of Python's own types and functions in a model's code."""

from __future__ import annotations

import builtins
import functools
import sys
import types

import pytest
import torch
from helpers.captures import assert_same
from torch import nn

from opbridge.base.attributes import replacing
from opbridge.capture import capture
from opbridge.capture.tracer import number_calls
from opbridge.capture.tracer.model_functions import functions_of
from opbridge.errors import CaptureError

X = torch.randn(3, 4)


def _of_another_function(x):
    return int(x.shape[0]) * 2


class Calling(nn.Module):
    def forward(self, x):
        sizes = [int(size) for size in x.shape]
        as_type = torch.zeros(sizes, dtype=int) if isinstance(sizes[0], int) else None
        return x * float(sizes[0]), as_type, x.new_zeros(_of_another_function(x))


def test_a_size_stays_dynamic_and_a_type_a_type():
    code = Calling.forward.__code__
    taken = capture(Calling(), X, dynamic_shapes={"x": {0: "n"}})
    assert taken.notes == ()
    for size in (1, 3, 8):
        assert_same(taken, torch.randn(size, 4))
    assert Calling.forward.__code__ is code and not [name for name in globals() if name.startswith("__opbridge")]


class Holding(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


def test_functions_that_a_module_holds_are_of_the_model(monkeypatch):
    elsewhere = types.ModuleType("a_package_of_functions")
    monkeypatch.setitem(sys.modules, elsewhere.__name__, elsewhere)
    code = """
def center(x):
    return float(x.shape[0] - 1) / 2

def centered(x):
    return x - center(x)
"""
    exec(code, vars(elsewhere))
    for function in (elsewhere.centered, functools.partial(elsewhere.centered)):
        taken = capture(Holding(function), X, dynamic_shapes={"x": {0: "n"}})
        for size in (1, 3, 8):
            assert_same(taken, torch.randn(size, 4))


@pytest.mark.parametrize(
    ("code", "is_found"),
    [
        ("def model(x):\n    return x + 1", False),
        ("def model(x):\n    return elsewhere.center(x)", True),
        ("def model(x):\n    return centers(x)\nfrom a_package_of_functions import Centers\ncenters = Centers()", True),
        ("def model(x):\n    return (lambda: partial(x))()\npartial = functools.partial(elsewhere.center)", True),
    ],
    ids=["not named", "module", "instance", "partial"],
)
def test_functions_of_other_packages_are_of_the_model_where_it_names_them(monkeypatch, code, is_found):
    elsewhere, own = types.ModuleType("a_package_of_functions"), types.ModuleType("a_package_of_models")
    for each in (elsewhere, own):
        monkeypatch.setitem(sys.modules, each.__name__, each)
    exec("def center(x):\n    return float(len(x))\nclass Centers:\n    __call__ = center", vars(elsewhere))
    vars(own).update(elsewhere=elsewhere, functools=functools)
    exec(code, vars(own))
    found = list(functions_of(Holding(own.model), everywhere=True))
    assert own.model in found and (elsewhere.center in found) == is_found


@pytest.mark.parametrize("held", ["object", "method", "global method", "captured method"])
def test_functions_of_what_a_model_holds_are_of_the_model(monkeypatch, held):
    elsewhere, own = types.ModuleType("a_package_of_processors"), types.ModuleType("a_package_of_models")
    for each in (elsewhere, own):
        monkeypatch.setitem(sys.modules, each.__name__, each)
    exec("def rescale(x):\n    return len(x)\nclass P:\n    def run(self, x): return rescale(x)", vars(elsewhere))
    processor = elsewhere.P()
    vars(own).update(processor=processor, run=processor.run)
    exec("def model(x):\n    return run(x)" if held == "global method" else "def model(x):\n    return x", vars(own))
    model = Holding((lambda run: lambda x: run(x))(processor.run) if held == "captured method" else own.model)
    if held in ("object", "method"):
        model.held = processor if held == "object" else processor.run
    assert elsewhere.rescale in list(functions_of(model, everywhere=True))


def test_the_code_is_put_back_after_a_failure():
    class Failing(nn.Module):
        def forward(self, x):
            raise KeyError(int(x.shape[0]))

    code = Failing.forward.__code__
    with pytest.raises(Exception, match="KeyError"):
        capture(Failing(), X, dynamic_shapes={"x": {0: "n"}})
    assert Failing.forward.__code__ is code


def range(*limits):  # a name of the module's own
    return list(builtins.range(2))


class OwnNames(nn.Module):
    def forward(self, x):
        return x * len(range(int(x.shape[0])))


def test_names_of_the_model_come_first():
    taken = capture(OwnNames(), X, dynamic_shapes={"x": {0: "n"}})
    assert_same(taken, torch.randn(5, 4))


def test_this_python_says_what_is_called(monkeypatch):
    assert number_calls._says_what_is_called()
    monkeypatch.setattr(number_calls, "_LOAD_GLOBAL", None)
    assert not number_calls._says_what_is_called()


class OfInt(nn.Module):
    def forward(self, x):
        return x * int(x.shape[0])


_range = builtins.range


class OfRange(nn.Module):
    def forward(self, x):
        return sum(x[i] for i in _range(x.shape[0]))


class OfLists(nn.Module):
    def forward(self, x):
        return x.new_zeros(list(map(int, tuple(x.shape))))


@pytest.mark.slow
@pytest.mark.parametrize("model", [OfInt(), OfLists(), OfRange(), Calling()], ids=lambda model: type(model).__name__)
def test_a_python_that_does_not_say_what_is_called_fixes_the_size(monkeypatch, model):
    monkeypatch.setattr(number_calls, "_SAYS_WHAT_IS_CALLED", False)
    code = type(model).forward.__code__
    with pytest.raises(CaptureError, match="requires n == 3") as caught:
        capture(model, X, dynamic_shapes={"x": {0: "n"}})
    assert "test_number_calls.py" in str(caught.value)
    assert type(model).forward.__code__ is code
    assert_same(capture(model, X), X, model=model)


class _Plain(nn.Module):
    """Its own code calls nothing that takes symbolic numbers, so that it is followed as it is."""

    def forward(self, x):
        return x


def test_the_code_that_is_in_the_place_of_a_functions_own_is_followed():
    def counted(self, x):
        return len(x)

    calls, own = number_calls.FollowingCalls(_Plain(), everywhere=False), _Plain.forward.__code__
    with calls.following():
        assert _Plain.forward.__code__ is own
    with replacing((_Plain.forward, "__code__", counted.__code__)):
        with calls.following():
            assert _Plain.forward.__code__ is not counted.__code__
        assert _Plain.forward.__code__ is counted.__code__
    assert _Plain.forward.__code__ is own
