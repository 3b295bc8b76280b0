"""Operators that torch cannot capture by itself, or only for the example's sizes."""

from __future__ import annotations

import pytest
import torch
from helpers.matching import assert_matches
from torch.export import Dim

import opbridge

F = torch.nn.functional


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_a_check_of_values_is_left_out(full: bool, reduction: str) -> None:
    def loss(x: torch.Tensor, y: torch.Tensor, variance: torch.Tensor) -> torch.Tensor:
        return F.gaussian_nll_loss(x, y, variance, full=full, reduction=reduction)

    assert_matches(loss, torch.randn(3, 4), torch.randn(3, 4), torch.rand(3, 4) - 0.0)
    assert_matches(loss, torch.randn(3, 4), torch.randn(3, 4), torch.zeros(3))
    assert_matches(lambda x: F.gaussian_nll_loss(x, x + 1, 0.5, full=full, reduction=reduction), torch.randn(3, 4))


def test_the_gradient_of_gaussian_nll_loss_passes_over_its_bound() -> None:
    def gradient(x: torch.Tensor, variance: torch.Tensor) -> torch.Tensor:
        variance = variance.detach().requires_grad_()
        return torch.autograd.grad(F.gaussian_nll_loss(x, x + 1, variance, eps=0.5), variance)[0]

    program = opbridge.export(gradient, (torch.randn(6), torch.tensor([0.1, 0.4, 0.5, 0.6, 2.0, 3.0])))
    assert program.verification is not None and program.verification.ok


def test_one_hot_of_as_many_classes_as_there_are() -> None:
    others = [[torch.tensor([[0, 7], [1, 1]])], [torch.tensor([[0, 0], [0, 0]])]]
    assert_matches(F.one_hot, torch.tensor([[1, 2], [0, 4]]), others=others)
    assert_matches(lambda x: F.one_hot(x).sum(0) + 1, torch.tensor([1, 2, 0]), others=[[torch.tensor([0, 0, 0])]])


def test_narrow_from_where_a_tensor_says() -> None:
    x = torch.randn(5, 4)
    assert_matches(lambda x, start: torch.narrow(x, 0, start, 2), x, torch.tensor(1), others=[[x, torch.tensor(-3)]])


def test_tensor_split_where_a_tensor_says() -> None:
    x = torch.randn(3, 7)
    others = [[x, torch.tensor(each)] for each in ([0, 7], [5, 2], [-3, -1], [3, 30])]
    assert_matches(lambda x, places: torch.tensor_split(x, places, 1), x, torch.tensor([1, 3]), others=others)


def test_tensor_split_into_as_many_parts_as_a_tensor_says() -> None:
    with pytest.raises(opbridge.CaptureError, match="Python needs a number here"):
        opbridge.export(lambda x, count: torch.tensor_split(x, count), (torch.randn(6), torch.tensor(2)))


@pytest.mark.parametrize("layer", [torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN])
@pytest.mark.parametrize("batch_first", [False, True])
def test_recurrent_layers_of_any_length(layer: type[torch.nn.Module], batch_first: bool) -> None:
    model = layer(4, 5, num_layers=2, bidirectional=True, batch_first=batch_first).eval()
    others = [[torch.randn(1, 6, 4)], [torch.randn(9, 1, 4)]]
    program = assert_matches(model, torch.randn(3, 2, 4), others=others, dynamic_shapes="auto", rtol=1e-4, atol=1e-5)
    assert [note for note in program.plan.notes if "the model only where" in note] == [
        "the capture is the model only where input.shape[2] == 4; other sizes are not covered"
    ]
    assert not any("forward() sets" in note for note in program.plan.notes)


def test_distances_between_few_and_many() -> None:
    sizes = {"x": {0: Dim("m")}, "y": {0: Dim("n")}}
    others = [[torch.randn(m, 3), torch.randn(n, 3)] for m, n in ((1, 1), (25, 25), (26, 2), (2, 40))]
    assert_matches(
        lambda x, y: torch.cdist(x, y), torch.randn(4, 3), torch.randn(5, 3), others=others, dynamic_shapes=sizes,
        rtol=1e-3, atol=1e-3,
    )  # fmt: skip


def test_nothing_is_left_behind() -> None:
    before = {name: dict(getattr(torch.ops.aten, name).default.py_kernels) for name in ("cov", "cdist", "one_hot")}
    opbridge.export(torch.cov, (torch.randn(3, 5),), verify=False)
    after = {name: dict(getattr(torch.ops.aten, name).default.py_kernels) for name in before}
    assert after == before
