"""Random numbers after a seed that the model sets: the file has those that eager PyTorch draws."""

from __future__ import annotations

import pytest
import torch

import opbridge


def _drawn(x):
    torch.manual_seed(3)
    y = x + torch.randn(4) * torch.rand_like(x)
    return y, torch.randperm(5), torch.empty(2, 3).uniform_(1, 2), torch.randint(0, 9, (3,)), torch.rand(2).double()


def _in_iterations(x):
    torch.manual_seed(5)
    for _ in range(3):
        x = x @ torch.randn(4, 4)
    torch.manual_seed(5)
    return x - torch.randn(4)


def _on_a_side(x):
    if x.sum() > 0:
        torch.manual_seed(7)
        return x * torch.rand(4)
    return x


@pytest.mark.parametrize("model", [_drawn, _in_iterations, _on_a_side])
@pytest.mark.parametrize("seed", [3, 1234])  # that which the model sets, and another
def test_what_a_seed_gives_is_in_the_file(model, seed):
    torch.manual_seed(seed)
    program = opbridge.export(model, (torch.randn(4),))
    assert program.verification is not None and program.verification.ok
    assert not program.verification.random
    assert not {"RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike"} & {
        node.op_type for node in program.model.graph.all_nodes()
    }


def test_the_generator_is_as_it_was():
    before = torch.get_rng_state()
    opbridge.check(_drawn, (torch.randn(4, generator=torch.Generator()),))
    assert torch.equal(before, torch.get_rng_state())


def test_numbers_from_outside_of_a_seed_stay_random():
    def model(x):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(5)
            y = torch.rand(4)
        return x + y, torch.rand(4)

    program = opbridge.export(model, (torch.randn(4),))
    assert program.verification is not None and program.verification.ok
    assert program.verification.random == ("output_1",)


def test_numbers_that_depend_on_values_are_not_taken_for_known():
    def model(x):
        torch.manual_seed(3)
        return torch.nn.functional.dropout(x, 0.5, training=True), x + torch.randn(4)

    with pytest.raises(opbridge.VerificationError):
        opbridge.export(model, (torch.ones(4),))
