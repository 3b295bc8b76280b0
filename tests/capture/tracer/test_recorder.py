"""The operators that are recorded, and those that are not."""

from __future__ import annotations

import pytest
import torch
from helpers.captures import LAYER, X, assert_same, operators
from helpers.matching import assert_matches
from torch.nn import functional

from opbridge.capture import capture
from opbridge.capture.config import CaptureConfig
from opbridge.errors import CaptureError


def _grad(function):
    @torch.enable_grad()
    def model(x):
        x = x.detach().requires_grad_()
        return torch.autograd.grad(function(x).sum(), x)[0]

    return model


def test_a_composite_operator_is_one_node():
    assert operators(capture(LAYER, X)) == ["aten.linear.default"]
    taken = capture(lambda x: functional.scaled_dot_product_attention(x, x, x), X[None, None])
    assert operators(taken) == ["aten.scaled_dot_product_attention.default"]


def test_the_derivatives_of_a_composite_operator_are_those_of_its_parts():
    taken = capture(_grad(LAYER), X)
    assert "aten.linear.default" not in operators(taken)
    assert "aten.mm.default" in operators(taken)
    assert_same(taken)


def test_operators_outside_of_a_gradient_are_whole():
    taken = capture(lambda x: (LAYER(x), _grad(torch.sin)(x)), X)
    assert operators(taken)[0] == "aten.linear.default"
    assert_same(taken)


def test_attention_has_derivatives_without_a_fused_operator():
    def attention(x):
        return functional.scaled_dot_product_attention(x, x, x)

    taken = capture(_grad(attention), X[None, None])
    assert not any("flash" in each or "efficient" in each for each in operators(taken))
    assert_same(taken)


@pytest.mark.slow
def test_tangents_of_constants_are_zeros():
    taken = capture(lambda x: torch.func.jvp(lambda given: given * torch.ones(4) + LAYER(given).sum(), (x,), (x,)), X)
    assert not any("zerotensor" in each or "feature_meta" in each for each in operators(taken))
    assert_same(taken)


def test_a_batch_of_gradients_has_symbolic_sizes():
    @torch.enable_grad()
    def model(x):
        x = x.detach().requires_grad_()
        y = x.square().sum(1)
        return torch.autograd.grad(y, x, torch.eye(y.shape[0]), is_grads_batched=True)[0]

    taken = capture(model, X, dynamic_shapes={"x": {0: "batch"}})
    assert_same(taken, torch.randn(5, 4))
    assert_same(taken, torch.randn(1, 4))


@pytest.mark.slow
def test_linearize_has_symbolic_sizes():
    taken = capture(lambda x: torch.func.linearize(LAYER, x)[1](x + 1), X, dynamic_shapes={"x": {0: "batch"}})
    assert_same(taken, torch.randn(5, 4))


def test_questions_about_metadata_are_no_nodes():
    taken = capture(lambda x: x * x.size(0) * x.numel() * x.dim() * x.stride(0), X)
    assert set(operators(taken)) == {"aten.mul.Tensor"}


def test_arithmetic_of_sizes_that_nothing_reads_is_no_node():
    def model(x):
        _ = x.shape[0] * 2 + 1
        return x + 1

    assert operators(capture(model, X, dynamic_shapes={"x": {0: "batch"}})) == ["aten.add.Tensor"]


def test_a_tensor_of_an_earlier_run_is_refused():
    kept = []

    def model(x):
        kept.append(x + 1)
        return kept[0] * 2

    capture(model, X)
    with pytest.raises(CaptureError):
        capture(model, X, config=CaptureConfig("auto"))


def test_where_a_part_begins_in_memory_is_no_number_of_the_model():
    def model(x):
        rows = x.view(-1)[x.shape[0] * 3 - 1 :]
        return x[:, -1] * (x.shape[1] - 1), x[:, 1:-1] * (x.shape[1] - 2), rows * (x.shape[0] * 3 - 1)

    given = [(torch.randn(4, size),) for size in (3, 4, 9)]
    assert_matches(model, torch.randn(4, 5), others=given, dynamic_shapes=({1: "columns"},))
    given = [(torch.randn(size, 3),) for size in (2, 3, 7)]
    assert_matches(model, torch.randn(4, 3), others=given, dynamic_shapes=({0: "rows"},))
