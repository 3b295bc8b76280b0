"""Copies have the strides that torch gives them, and ask nothing about dynamic sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv

import opbridge
from opbridge.base.torch_private import torch_sizes
from opbridge.base.torch_private.torch_overrides import telling_overlaps_by_strides
from opbridge.capture import capture
from opbridge.capture.fake_implementations import replacing_fake_implementations
from opbridge.capture.tracer import rewritten
from opbridge.capture.tracer.shape_functions import shape_function

VIEWS: list[Callable[[torch.Tensor], torch.Tensor]] = [
    lambda x: x,
    lambda x: x[1:],
    lambda x: x[:, 1:3],
    lambda x: x[..., 2, :2],
    lambda x: x[..., :2, 1],
    lambda x: x.transpose(0, 1),
    lambda x: x.transpose(-1, -2),
    lambda x: x.permute(3, 0, 2, 1)[1:],
    lambda x: x[:, :1].expand(-1, 6, -1, -1),
    lambda x: x.unsqueeze(1),
    lambda x: x[::2, ::2],
    lambda x: x.contiguous(memory_format=torch.channels_last),
]


@pytest.fixture
def fake_mode() -> Iterator[FakeTensorMode]:
    with replacing_fake_implementations():
        yield FakeTensorMode(shape_env=ShapeEnv())


@pytest.mark.parametrize("view", VIEWS)
def test_clones_have_torch_s_strides(fake_mode: FakeTensorMode, view: Callable[[torch.Tensor], torch.Tensor]) -> None:
    real = torch.randn(3, 4, 5, 6)
    given = fake_mode.from_tensor(real, static_shapes=False)
    with fake_mode:
        viewed = view(given)
        found = (shape_function(torch.ops.aten.clone.default, (viewed,)) or torch.clone)(viewed)
    expected = view(real).clone()
    sizes = [int(torch_sizes.example_with(each, {})) for each in found.shape]
    strides = [int(torch_sizes.example_with(each, {})) for each in found.stride()]
    assert (sizes, strides) == (list(expected.shape), list(expected.stride()))


@pytest.mark.parametrize(
    "strides, descending", [((6, 2, 1), True), ((6, 6, 1), True), ((2, 6, 1), False), ((4, 0, 1), False), ((), True)]
)
def test_descending_strides(strides: tuple[int, ...], descending: bool) -> None:
    assert torch_sizes.descends(strides) is descending


class Rows(torch.nn.Module):
    """Each row is made of those before it, in place."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x * 1
        for i in range(1, 4):
            row = x[..., i, :i].clone()
            x[..., i, :i] = row + (row.unsqueeze(-1) * x[..., :i, :i].clone()).sum(-2)
            x[:, :, i, i:] = 0.5
        return x


class Overlapping(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x[:1].expand(3, -1)
        y[:] = x[1]
        return y


@pytest.mark.slow
def test_writes_of_rows_ask_nothing_about_sizes() -> None:
    x = torch.randn(2, 3, 4, 4)
    program = opbridge.export(Rows(), (x,), dynamic_shapes={"x": {0: "batch", 1: "heads"}})
    assert program.plan.to_json()["ok"]
    session = program.session()
    for sizes in [(1, 1), (0, 2), (5, 7), (2, 0)]:
        given = torch.randn(*sizes, 4, 4)
        (found,) = session.run(None, {"x": given.numpy()})
        np.testing.assert_allclose(found, Rows()(given).numpy(), rtol=1e-5, atol=1e-6)


def test_writes_to_memory_that_elements_share_stay_errors() -> None:
    with pytest.raises(opbridge.OpbridgeError, match="single memory location"):
        opbridge.export(Overlapping(), (torch.randn(2, 4),), dynamic_shapes={"x": {1: "width"}})


class TooWide(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x.clone()
        y[:, :2] = x
        return y


def test_writes_of_other_sizes_stay_errors() -> None:
    with pytest.raises(opbridge.OpbridgeError):
        opbridge.export(TooWide(), (torch.randn(2, 4),), dynamic_shapes={"x": {0: "rows"}})


def test_a_write_that_is_rewritten_does_not_ask_whether_elements_share_memory() -> None:
    class Columns(torch.nn.Module):
        def forward(self, x):
            found = x.new_zeros(x.shape[0], 3, x.shape[1] + 1)
            found[:, :, -1] = x[:, 0]
            return found

    taken = capture(Columns(), (torch.randn(2, 5, 3),), dynamic_shapes={"x": {0: "batch", 1: "rows"}})
    conditions = rewritten(taken.graph, by_running=True).conditions
    assert not [each.expression for each in conditions if ">= 2" in each.expression]


def test_overlaps_of_known_sizes_are_told_by_torch() -> None:
    with telling_overlaps_by_strides():
        assert torch._debug_has_internal_overlap(torch.zeros(2, 3)) == 0
        assert torch._debug_has_internal_overlap(torch.zeros(2, 1).expand(2, 3)) == 1
