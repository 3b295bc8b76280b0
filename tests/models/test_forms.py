"""Models in every form that users write: exported, read from the file, and equal to PyTorch on fresh inputs."""

from __future__ import annotations

import contextlib
import dataclasses
from typing import Any

import pytest
import torch
from helpers.rows import one_in
from models.forms import FORMS
from torch.utils import _pytree as pytree

import opbridge
from opbridge.errors import CaptureError
from opbridge.graph.values import as_tensor
from opbridge.verification import exchange

pytestmark = pytest.mark.slow

_OF_NUMBERS = {"lengths", "loops", "nested", "recurrences", "sizes"}
"""Families whose sizes are Python's numbers: where they are static, other code runs. The others are dynamic only."""

_OF_ARITHMETIC = {
    *("attentions", "codebooks", "factorisations", "fourier", "gradients", "gradients_of_layers", "graphs"),
    *("higher_order", "loops", "recurrences", "transforms", "written", "parts", "data_sizes"),
}
"""Families of float32 tensors, of which export's own verification says nothing that the comparison here does not."""


@pytest.fixture(autouse=True)
def _no_transforms_left():
    """A failure inside a transform of torch.func must not leave the transform on, which breaks what comes next."""
    yield
    left = 0
    while torch._C._functorch.peek_interpreter_stack() is not None:
        torch._C._functorch.pop_dynamic_layer_stack()
        left += 1
    if left:
        with contextlib.suppress(RuntimeError):  # where no level of forward mode is open
            torch._C._exit_dual_level(0)
        torch._C._autograd._saved_tensors_hooks_enable()
    assert not left, f"{left} transforms of torch.func are still on"


_STATIC = [
    name for name, form in FORMS.items() if not form.is_dynamic or form.refused_dynamic or form.family in _OF_NUMBERS
]


@pytest.mark.parametrize("name", one_in(2, _STATIC))
def test_static(name, tmp_path):
    form = FORMS[name]
    _export(form, None, form.refused, tmp_path / "model.onnx", [form.inputs(seed=seed) for seed in (1, 2)])


_DYNAMIC = [name for name, form in FORMS.items() if form.is_dynamic]
_OF_LISTS = [name for name in _DYNAMIC if FORMS[name].family == "parts"]
"""Forms that are captured several times each, for the same operations on lists."""


@pytest.mark.parametrize(
    "name", [*one_in(2, (name for name in _DYNAMIC if name not in _OF_LISTS)), *one_in(8, _OF_LISTS)]
)
def test_dynamic(name, tmp_path):
    form = FORMS[name]
    shapes, refused = form.dynamic_shapes(form.model()), form.refused or form.refused_dynamic
    _export(form, shapes, refused, tmp_path / "model.onnx", [form.inputs(seed=2), *form.at_other_sizes()])


def _export(form, shapes, refused, path, inputs) -> None:
    """Exports a form and compares the file with it; with dynamic sizes, verified by the export too."""
    model, args, kwargs = form.make()
    verify = shapes is not None and form.family not in _OF_ARITHMETIC
    options = {"kwargs": kwargs, "dynamic_shapes": shapes, "verify": verify, **form.export}
    if refused:
        with pytest.raises(CaptureError, match=refused):
            opbridge.export(model, args, **options)
        return
    opbridge.export(model, args, path, **options)
    session = opbridge.session(path)
    for given in inputs:
        _assert_same(session, form, *given)


def test_export_leaves_the_model_as_it_is():
    """Buffers and gradients are those of before, so that a second export gives the same."""
    for name in ("CountedCalls", "ReassignedBuffer", "GradientOfParameter", "BackwardOfInnerLoss"):
        model, args, kwargs = FORMS[name].make()
        before = {key: value.clone() for key, value in model.state_dict().items()}
        opbridge.export(model, args, kwargs=kwargs)
        torch.testing.assert_close(dict(model.state_dict()), before, rtol=0, atol=0)
        assert all(parameter.grad is None for parameter in model.parameters())


def _assert_same(session, form, args, kwargs) -> None:
    """The file gives what a new instance of the model gives, with gradients on as a user calls it."""
    given = pytree.tree_map_only(torch.Tensor, torch.clone, (args, kwargs))
    tensors = [leaf for leaf in pytree.tree_leaves(given) if isinstance(leaf, torch.Tensor)]
    names = [each.name for each in session.get_inputs()]
    actual = exchange.run(session, dict(zip(names, tensors, strict=True)))
    expected = [as_tensor(leaf) for leaf in _leaves(form.model()(*args, **kwargs)) if leaf is not None]
    assert len(actual) == len(expected)
    for got, want in zip(actual, expected, strict=True):
        want = exchange.runtime_form(want)
        torch.testing.assert_close(got, want, rtol=form.rtol, atol=form.atol)


def _leaves(result: Any) -> list[Any]:
    """The leaves of a model's result, where dataclasses are structures too."""
    if dataclasses.is_dataclass(result):
        result = [getattr(result, each.name) for each in dataclasses.fields(result)]
    return pytree.tree_leaves(result)
