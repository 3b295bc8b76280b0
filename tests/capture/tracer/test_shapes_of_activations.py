"""The shapes, dtypes and strides of activations with numbers, which are given without asking torch."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from helpers.captures import assert_same

from opbridge.capture import capture
from opbridge.capture.tracer.shape_functions import shape_function

aten = torch.ops.aten
IMAGE = torch.randn(2, 3, 5, 6)
LAST = IMAGE.to(memory_format=torch.channels_last)
CALLS: list[tuple[Any, tuple[Any, ...]]] = [
    (aten.elu.default, ()),
    (aten.elu.default, (0.5, 2.0, 3)),
    (aten.hardtanh.default, (0.0, 6.0)),
    (aten.leaky_relu.default, (0.1,)),
]


@pytest.mark.parametrize("x", [IMAGE.half(), IMAGE.transpose(1, 3), LAST, LAST[:, :2], IMAGE[:0]])
@pytest.mark.parametrize("function, numbers", CALLS)
def test_they_are_torchs(function: Any, numbers: tuple[Any, ...], x: torch.Tensor) -> None:
    shape = shape_function(function, (x, *numbers))
    assert shape is not None
    made, expected = shape(x, *numbers), function(x, *numbers)
    assert (made.shape, made.dtype, made.stride()) == (expected.shape, expected.dtype, expected.stride())


def test_torch_is_asked_for_integers() -> None:
    assert shape_function(aten.hardtanh.default, (torch.arange(3), 0, 2)) is None


def test_of_dynamic_sizes() -> None:
    def model(x: torch.Tensor) -> list[torch.Tensor]:
        return [function(x.transpose(1, 2)[:, 1:], *numbers) for function, numbers in CALLS]

    taken = capture(model, (torch.randn(2, 3, 4),), dynamic_shapes={"x": {0: "batch", 2: "length"}})
    for sizes in ((2, 3, 4), (1, 3, 2), (5, 3, 9)):
        assert_same(taken, torch.randn(sizes))
