"""`round(number, places)` of numbers that only a run tells: the same doubles as Python's."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
import torch

import opbridge

_PLACES = (2, 1, 0, -1, -3, 5, 15)


def _decimals(x):
    number = x[0].item()
    return torch.tensor([round(number, places) for places in _PLACES], dtype=torch.float64)


def _integers(x):
    number = x[0].item()
    return torch.tensor([round(number), round(number, 1), round(number, -1), round(number, -2)])


def _found(session, value):
    (found,) = session.run(None, {"x": value.numpy()})
    return found


@pytest.mark.slow
def test_decimals():
    session = opbridge.export(_decimals, (torch.tensor([1.5], dtype=torch.float64),), verify=False).session()
    drawn = random.Random(0)
    near = [each * 0.005 for each in range(-300, 300)] + [each * 5.0 for each in range(-50, 50)]
    numbers = [
        2.675,
        1.005,
        0.285,
        5e-324,
        1e22,
        1e300,
        4503599627370497.5,
        12345.675,
        -0.0,
        math.inf,
        -math.inf,
        math.nan,
    ]
    for number in (*numbers, *near, *(round(drawn.uniform(-100, 100), 3) for _ in range(300))):
        value = torch.tensor([number], dtype=torch.float64)
        np.testing.assert_array_equal(_found(session, value), _decimals(value).numpy(), str(number))


@pytest.mark.slow
def test_integers():
    session = opbridge.export(_integers, (torch.tensor([3]),), verify=False).session()
    for number in range(-300, 300, 5):
        value = torch.tensor([number])
        np.testing.assert_array_equal(_found(session, value), _integers(value).numpy(), str(number))
