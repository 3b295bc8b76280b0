"""How far outputs are apart."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from opbridge.precision.judging import apart

INF = float("inf")


def test_floats_relative_to_their_rms() -> None:
    found = apart(np.full(4, 10.0, np.float32), np.array([10, 10, 10, 10.5], np.float16))
    assert found.error == pytest.approx(0.025) and found.largest == pytest.approx(0.05)


def test_bfloat16() -> None:
    assert apart(np.ones(4, np.float32), np.ones(4, ml_dtypes.bfloat16)).error == 0


@pytest.mark.parametrize(
    ("want", "have", "error"),
    [
        ([1, INF], [1, INF], 0),
        ([1, 2], [1, INF], INF),
        ([1, INF], [1, 65504], INF),
        ([1, float("nan")], [1, float("nan")], 0),
        ([1, 2], [1, float("nan")], INF),
        ([0, 0], [0, 0], 0),
        ([], [], 0),
        ([1, 2], [1, 2, 3], INF),
    ],
)
def test_what_is_not_finite(want: list[float], have: list[float], error: float) -> None:
    assert apart(np.array(want, np.float32), np.array(have, np.float32)).error == error


def test_integers_by_the_share_that_differs() -> None:
    assert apart(np.array([1, 2, 3, 4]), np.array([1, 2, 3, 5])).error == 0.25
    assert apart(np.array([True, False]), np.array([True, False])).error == 0


def test_lists() -> None:
    one, two = np.ones(2, np.float32), np.zeros(2, np.float32)
    assert apart([one, two], [one, two]).error == 0 and apart([one], [one, two]).error == INF
    assert apart(None, None).error == 0 and apart(None, one).error == INF
