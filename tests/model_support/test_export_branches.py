"""What transformers does otherwise in an export, for want of an operator."""

from __future__ import annotations

import functools
import importlib
import sys
import types

import pytest
import torch
from helpers.captures import operators

import opbridge
from opbridge.model_support.transformers.export_branches import as_outside_of_exports

_SOURCE = """
import functools
import torch
from helpers.captures import operators
from torch.compiler import is_exporting as is_torchdynamo_exporting

def passing_on(function):
    @functools.wraps(function)
    def around(*args):
        return function(*args)
    return around

@passing_on
def solved(system, right):
    if not is_torchdynamo_exporting():
        return torch.linalg.solve_triangular(system, right, upper=False, unitriangular=True)
    raise NotImplementedError("in an export")  # which a capture must not come to

class Model(torch.nn.Module):
    def forward(self, system, right):
        return solved(system, right)
"""
_ASKING_ELSEWHERE = """
def others(x):
    return x if is_torchdynamo_exporting() else x + 1
"""


@pytest.fixture
def defined(monkeypatch):
    """A module of Python with a source."""

    def define(source):
        module = types.ModuleType("models_of_this_test")
        monkeypatch.setitem(sys.modules, module.__name__, module)
        exec(source, vars(module))
        return module

    return define


def test_a_choice_of_an_operator_is_as_outside_of_an_export(defined):
    pytest.importorskip("transformers", reason="not installed")  # what is known of it holds where it is imported
    module = defined(_SOURCE)
    before = module.is_torchdynamo_exporting
    inputs = torch.randn(2, 5, 5), torch.randn(2, 5, 3)
    program = opbridge.export(module.Model(), inputs, dynamic_shapes=({0: "batch"}, {0: "batch"}))
    assert any("linalg_solve_triangular" in each for each in operators(program.capture))
    assert module.is_torchdynamo_exporting is before


def test_other_choices_stay(defined):
    module = defined(_SOURCE + _ASKING_ELSEWHERE)
    before = module.is_torchdynamo_exporting
    with as_outside_of_exports(module.Model()):
        assert module.is_torchdynamo_exporting is before


@pytest.mark.parametrize("name", ["qwen3_5", "qwen3_next", "olmo_hybrid"])
def test_transformers_models_choose_so(name):
    try:
        module = importlib.import_module(f"transformers.models.{name}.modeling_{name}")
    except ImportError:
        pytest.skip("this transformers has no such model")  # the package is not pinned
    if not hasattr(module, "is_torchdynamo_exporting"):
        pytest.skip("this transformers does not choose")  # the package is not pinned
    kind = next(each for each in vars(module).values() if isinstance(each, type) and each.__module__ == module.__name__)
    one = types.SimpleNamespace(modules=functools.partial(iter, [kind.__new__(kind)]))
    with as_outside_of_exports(one):
        assert module.is_torchdynamo_exporting() is False
