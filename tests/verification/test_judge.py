"""With which runs of PyTorch's a difference beyond the tolerance is judged."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch

from opbridge.verification.compare import compare
from opbridge.verification.float64 import MANY_RUNS, NEARBY_RUNS
from opbridge.verification.judge import Judge


class _Outputs:
    """A model that gives what it is made with, and counts how it was run."""

    def __init__(self, output: torch.Tensor) -> None:
        self.output = output
        self.runs: Counter[str] = Counter()

    def __call__(self, args: Any, kwargs: Any, *, in_float64: bool = False, rounding: int | None = None) -> Any:
        self.runs["float64" if in_float64 else "beside" if rounding is None else "rounded"] += 1
        return [self.output.double() if in_float64 else self.output]


@pytest.mark.parametrize("given", [torch.linspace(0, 1, 4), torch.arange(4)], ids=["floats", "integers"])
def test_as_many_runs_judge_a_model_of_integers_as_one_of_floats(given):
    expected = torch.linspace(-1, 1, 100)
    outputs = _Outputs(expected)
    judge = Judge(outputs, lambda args, kwargs: None, 0)
    actual = expected + 0.1
    (found,) = judge.judged([compare("y", expected, actual)], (given,), {}, [expected], [actual], ())
    assert not found.ok
    beside = NEARBY_RUNS if given.is_floating_point() else 0
    assert outputs.runs == Counter(float64=1, beside=beside, rounded=2 * NEARBY_RUNS - beside)


@pytest.mark.parametrize(("error", "is_right", "many"), [(1.4, True, True), (1.9, False, True), (2.1, False, False)])
def test_an_error_that_is_little_beyond_pytorchs_is_judged_by_more_runs(
    error: float, is_right: bool, many: bool
) -> None:
    """PyTorch's own errors are 1 here, in one run 1.5: four times the largest that it has shown is allowed."""
    truth = torch.linspace(-1, 1, 100)
    unit = 1e-3

    class Rounded(_Outputs):
        def __call__(self, args: Any, kwargs: Any, *, in_float64: bool = False, rounding: int | None = None) -> Any:
            given = super().__call__(args, kwargs, in_float64=in_float64, rounding=rounding)
            if in_float64:
                return given
            return [truth + unit * (1.5 if rounding == 8 else 1)]

    expected = truth + unit
    outputs = Rounded(truth)
    judge = Judge(outputs, lambda args, kwargs: None, 0)
    actual = truth.clone()
    actual[3] += unit * 4 * error
    comparison = compare("y", expected, actual)
    assert not comparison.ok
    (found,) = judge.judged([comparison], (torch.linspace(0, 1, 4),), {}, [expected], [actual], ())
    assert found.ok is is_right
    assert outputs.runs["rounded"] == (MANY_RUNS if many else 2 * NEARBY_RUNS) - NEARBY_RUNS


@pytest.mark.parametrize(
    ("of_pytorch", "nearby", "rounded", "found", "counted"),
    [
        (2e-7, 0.0, 0.0, False, {"float64": 1}),
        (0.0, 2e-7, 0.0, False, {"float64": 1, "beside": NEARBY_RUNS}),
        (0.0, 0.0, 2e-7, False, {"float64": 1, "beside": NEARBY_RUNS, "rounded": 1}),
        (0.0, 0.0, 0.0, True, {"float64": 1, "beside": NEARBY_RUNS, "rounded": NEARBY_RUNS}),
    ],
)
def test_a_small_difference_is_explained_by_as_few_runs_as_do(
    of_pytorch: float, nearby: float, rounded: float, found: bool, counted: dict[str, int]
) -> None:
    """The file's error is 4e-6, within the tolerance: 20 times that of PyTorch's runs of some kind."""
    truth = torch.linspace(-1, 1, 100)

    class Erring(_Outputs):
        def __call__(self, args: Any, kwargs: Any, *, in_float64: bool = False, rounding: int | None = None) -> Any:
            super().__call__(args, kwargs, in_float64=in_float64, rounding=rounding)
            if in_float64:
                return [truth.double()]
            return [truth.double() + (nearby if rounding is None else rounded)]

    expected, actual = truth.double() + of_pytorch, truth.double() + 4e-6
    outputs = Erring(truth)
    judge = Judge(outputs, lambda args, kwargs: None, 0)
    comparison = compare("y", expected, actual, rtol=0, atol=1e-5)
    assert comparison.ok
    unexplained = judge.unexplained([comparison], (torch.linspace(0, 1, 4),), {}, [expected], [actual], ())
    assert list(unexplained) == [0] * found
    assert outputs.runs == Counter(counted)
