"""The checks of torch.distributions in a capture."""

from __future__ import annotations

import pytest
import torch
from helpers.captures import X, assert_same
from torch.distributions import MultivariateNormal, Normal, constraints

import opbridge
from opbridge.base.torch_private.torch_overrides import asserting_valid_distributions
from opbridge.capture import capture


def model(x):
    return Normal(x, 1.0, validate_args=True).log_prob(x * 2)


def test_checks_are_no_decisions():
    taken = capture(model, X)
    assert taken.notes == ()
    called = [str(node.target) for node in taken.graph.graph.nodes]
    assert sum("_assert_async" in each for each in called) == 3  # of two parameters, and of a value
    assert not any("cond" in each for each in called)
    assert_same(taken, X + 1)


def test_a_checked_distribution_needs_no_permission():
    program = opbridge.export(model, (X,))
    assert program.capture.mode == "direct"
    assert program.verification is not None and program.verification.ok


@pytest.mark.slow
def test_checks_of_matrices_are_no_decisions():
    def of_covariance(x):
        matrix = x.T @ x + torch.eye(x.shape[1])
        return MultivariateNormal(torch.zeros(x.shape[1]), matrix, validate_args=True).log_prob(x)

    taken = capture(of_covariance, X)
    assert not any("cond" in str(node.target) for node in taken.graph.graph.nodes)
    program = opbridge.export(of_covariance, (X,), dynamic_shapes=({0: "n"},))
    assert program.verification is not None and program.verification.ok


@pytest.mark.parametrize("name", ["symmetric", "positive_definite", "positive_semidefinite"])
def test_matrices_are_judged_as_by_torch(name):
    matrices = torch.tensor([[[2.0, 1.0], [1.0, 2.0]], [[1.0, 2.0], [2.0, 1.0]], [[1.0, 1.0], [1.0, 1.0]]])
    constraint = getattr(constraints, name)
    for given in (matrices, matrices + torch.tensor([[0.0, 1.0], [0.0, 0.0]])):
        with asserting_valid_distributions():
            found = constraint.check(given)
        assert bool(found.all()) == bool(constraint.check(given).all())


@pytest.mark.slow
def test_other_questions_of_the_same_function_are_decisions():
    def asking(x):
        return x + 1 if torch._is_all_true(x > 0) else x - 1

    for x in (X + 1, X - 1):
        assert_same(capture(asking, X), x, model=asking)


def test_they_refuse_values_again_afterwards():
    with asserting_valid_distributions():
        pass
    with pytest.raises(ValueError, match="loc"):
        model(X * torch.nan)
