"""What torch's errors mean, by those that this torch raises."""

from __future__ import annotations

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from opbridge.base.torch_private import torch_failures


def error_of(call):
    with pytest.raises(Exception) as raised:
        call()
    return raised.value


class Function(torch.nn.Module):
    def __init__(self, function) -> None:
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


def exported(function, *, shapes=None, strict=False):
    return lambda: torch.export.export(Function(function), (torch.ones(3),), dynamic_shapes=shapes, strict=strict)


def without_values(function, **options):
    def call():
        with FakeTensorMode(**options) as mode:
            function(mode.from_tensor(torch.ones(3)))

    return call


@pytest.mark.slow
@pytest.mark.parametrize(
    "call",
    [
        without_values(lambda x: x.sum().item()),
        without_values(lambda x: bool(x.sum() > 0), shape_env=ShapeEnv()),
        without_values(lambda x: range(x.sum().long().item()), shape_env=ShapeEnv()),
        exported(lambda x: x if x.sum() > 0 else -x),
        exported(lambda x: x[:2] if int(x.sum()) > 2 else x),
    ],
    ids=["item", "bool", "range", "export", "number"],
)
def test_a_value_that_depends_on_data(call):
    error = error_of(call)
    assert torch_failures.is_data_dependent(error)
    assert not torch_failures.is_shape_violation(error)


@pytest.mark.slow
@pytest.mark.parametrize("strict", [False, True])
def test_sizes_that_the_model_does_not_take(strict):
    shapes = {"x": {0: torch.export.Dim("n", min=2, max=9)}}
    error = error_of(exported(lambda x: -x if x.shape[0] == 3 else x, shapes=shapes, strict=strict))
    assert torch_failures.is_shape_violation(error)
    assert not torch_failures.is_data_dependent(error)


def test_an_operator_without_a_fake_implementation():
    with torch.library._scoped_library("failuretest", "DEF") as library:
        library.define("without_fake(Tensor x) -> Tensor")
        library.impl("without_fake", lambda x: x.clone(), "CPU")
        error = error_of(without_values(lambda x: torch.ops.failuretest.without_fake(x)))
    assert torch_failures.lacks_fake_implementation(error)
    assert not torch_failures.is_data_dependent(error)
    assert not torch_failures.lacks_fake_implementation(error_of(without_values(lambda x: x.item())))


class Opaque:
    pass


@pytest.mark.slow
def test_an_output_of_an_unknown_class():
    error = error_of(exported(lambda x: Opaque()))
    assert torch_failures.has_unknown_output(error)
    assert not torch_failures.has_unknown_output(error_of(exported(lambda x: 1 / 0)))


def test_an_input_of_an_unknown_class():
    error = error_of(lambda: torch.export.export(Function(lambda x: torch.ones(2)), (Opaque(),)))
    assert torch_failures.unknown_input(error) == f"{__name__}.Opaque"
    assert torch_failures.unknown_input(ValueError("Unsupported input")) is None
