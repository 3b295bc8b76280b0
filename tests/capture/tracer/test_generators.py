"""Random numbers from a torch.Generator, and from none that is given by name."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import opbridge
from opbridge.errors import VerificationError

X = torch.randn(3, 4)
OWN = torch.Generator().manual_seed(3)


@pytest.mark.parametrize(
    "draw",
    [
        lambda x, g: torch.randn(x.shape, generator=g, dtype=x.dtype, device=x.device, layout=torch.strided),
        lambda x, g: torch.rand(*x.shape, generator=g),
        lambda x, g: torch.randint(7, x.shape, generator=g),
        lambda x, g: torch.randint(2, 7, x.shape, generator=g),
        lambda x, g: torch.normal(0.0, 1.0, x.shape, generator=g),
        lambda x, g: torch.normal(x, 1.0, generator=g),
        lambda x, g: torch.bernoulli(x.sigmoid(), generator=g),
        lambda x, g: torch.empty(x.shape).uniform_(generator=g),
    ],
)
@pytest.mark.parametrize("generator", [None, OWN], ids=["none", "own"])
def test_a_generator_that_is_given_by_name(draw, generator):
    program = opbridge.export(lambda x: draw(x, generator) + x * 0, (X,), dynamic_shapes=({0: "batch"},))
    session = program.session()
    name = session.get_inputs()[0].name
    first, second = (session.run(None, {name: np.zeros((50, 4), np.float32)})[0] for _ in range(2))
    assert first.shape == (50, 4) and np.isfinite(first).all() and first.std() > 0.1
    assert not np.array_equal(first, second)


@pytest.mark.slow
def test_a_permutation():
    program = opbridge.export(lambda x: x[torch.randperm(x.shape[0], generator=None)], (X,), dynamic_shapes=({0: "n"},))
    session = program.session()
    x = np.arange(40, dtype=np.float32).reshape(10, 4)
    (found,) = session.run(None, {session.get_inputs()[0].name: x})
    assert sorted(found[:, 0]) == list(x[:, 0])


def test_numbers_that_a_seed_in_the_model_fixes_are_not_those_of_the_file():
    def model(x):
        return x + torch.randn(x.shape, generator=torch.Generator().manual_seed(0))

    with pytest.raises(VerificationError, match="differ"):
        opbridge.export(model, (X,))
