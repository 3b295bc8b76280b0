"""Paths on which a model's own line raises an error, as a variable has no value there, or is None."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch

import opbridge


def _best(size: Sequence[Any], possible: Sequence[tuple[int, int]]) -> Any:
    """The resolution that an image fills most of, as models with images of any size choose it."""
    fit, most = None, 0
    for height, width in possible:
        scale = min(width / size[1], height / size[0])
        area = int(size[1] * scale) * int(size[0] * scale)
        if area > most:
            most, fit = area, (height, width)
    return fit


def chosen_of_none(x: torch.Tensor, size: torch.Tensor) -> torch.Tensor:
    height, width = _best(size.tolist(), [(4, 8), (8, 8)])
    return x[:height] * width


def variable_without_a_value(x: torch.Tensor, size: torch.Tensor) -> torch.Tensor:
    if size.sum() > 2:
        y = x + 1
    return y * size[0]


@pytest.mark.slow
@pytest.mark.parametrize("model", [chosen_of_none, variable_without_a_value])
def test_the_other_paths_are_in_the_file(model: Callable[..., torch.Tensor]) -> None:
    x = torch.randn(9, 3)
    program = opbridge.export(model, (x, torch.tensor([5, 6])))
    session = program.session()
    for size in ([5, 6], [3, 20], [10, 10], [20, 4]):
        given = torch.tensor(size)
        (found,) = session.run(None, {"x": x.numpy(), "size": given.numpy()})
        np.testing.assert_array_equal(found, model(x, given).numpy())


def takes_none_of_a_tensor(x: torch.Tensor) -> torch.Tensor:
    chosen: Any = None
    return x + chosen[0] if x.sum() > 0 else x - chosen[0]


def test_where_every_path_raises_the_model_does() -> None:
    with pytest.raises(opbridge.UsageError, match="NoneType"):
        opbridge.export(takes_none_of_a_tensor, (torch.ones(2),))


def sizes_that_fit_one_path(x: torch.Tensor, size: torch.Tensor) -> torch.Tensor:
    """Which parts there are depends on data, and one of the answers does not fit an input of five rows."""
    lengths = [2, 3] if size.sum() > 2 else [2, 2]
    first, second = x.split(lengths)
    return first.sum(0) + second.amax(0)


@pytest.mark.slow
def test_a_path_whose_sizes_an_operator_refuses() -> None:
    program = opbridge.export(sizes_that_fit_one_path, (torch.randn(5, 3), torch.tensor([5, 6])))
    x = torch.randn(5, 3)
    (found,) = program.session().run(None, {"x": x.numpy(), "size": np.array([1, 2])})
    np.testing.assert_allclose(found, sizes_that_fit_one_path(x, torch.tensor([1, 2])).numpy(), rtol=1e-6)
    assert any("raises an error at" in note for note in program.plan.notes), program.plan.notes
