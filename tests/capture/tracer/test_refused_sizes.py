"""Errors of operators: those that PyTorch raises too, and those of a description alone."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from opbridge.capture.tracer.refused_sizes import is_of_sizes, note_error

aten = torch.ops.aten


def noted(function: Any, *args: Any, error: type[Exception] = RuntimeError, **kwargs: Any) -> bool:
    made = error("refused")
    note_error(made, function, args, kwargs)
    return is_of_sizes(made)


@pytest.fixture
def symbolic() -> Any:
    """Makes a tensor without values; a size of None is one that only a run tells."""
    env = ShapeEnv()

    def make(*sizes: int | None) -> torch.Tensor:
        with FakeTensorMode(shape_env=env):
            known = [env.create_unbacked_symint() if size is None else size for size in sizes]
            for size in known:
                torch._check(size >= 0)
            return torch.empty(known)

    return make


def test_sizes_that_do_not_fit() -> None:
    x = torch.empty(5, 3, device="meta")
    assert noted(aten.split_with_sizes.default, x, [2, 2])
    assert noted(aten.mm.default, x, x, error=ValueError)
    assert noted(aten.view.default, x, [4, 4])


def test_what_pytorch_takes_is_for_want_of_values() -> None:
    x = torch.empty(5, 3, device="meta")
    assert not noted(aten.split_with_sizes.default, x, [2, 3])
    assert not noted(aten.mm.default, x, x.t())
    assert not noted(aten.view.default, x, [4, 4], error=KeyError)
    assert not noted(aten.view.default, x, [4, 4], error=NotImplementedError)


def test_a_size_that_only_a_run_tells(symbolic: Any) -> None:
    assert not noted(aten.mm.default, symbolic(None, 3), symbolic(4, 2))
    assert not noted(aten.view.default, symbolic(None, 3), [2, 5])


def test_no_elements_whatever_the_other_sizes_are(symbolic: Any) -> None:
    assert noted(aten.im2col.default, symbolic(1, 3, 0, None), [2, 2], [1, 1], [0, 0], [2, 2])
    assert not noted(aten.sum.default, symbolic(1, 3, 0, None))
