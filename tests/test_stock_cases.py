"""The operators that torch.onnx.export gets wrong without a word: its output fails the test that ours passes."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import stock_cases
import torch
from support import run

import opbridge

WRONG_IN = ("2.13", "2.15")
"""The releases that the stock exporter was seen to be wrong in; in others only opbridge's output is tested."""


@pytest.fixture(scope="module")
def stock(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stock")
    subprocess.run([sys.executable, stock_cases.__file__, str(folder)], check=True, timeout=300, capture_output=True)
    return lambda name: list(np.load(folder / f"{name}.npz").values())


def _agree(got, expected):
    try:
        for actual, want in zip(got, expected, strict=True):
            torch.testing.assert_close(torch.from_numpy(np.asarray(actual)), want, equal_nan=True)
    except (AssertionError, ValueError):
        return False
    return True


@pytest.mark.slow
@pytest.mark.parametrize("name", stock_cases.CASES)
def test_ours_is_right_where_the_stock_exporter_is_wrong(name, stock):
    function, args = stock_cases.CASES[name]
    expected = function(*(value.clone() for value in args))
    expected = list(expected) if isinstance(expected, tuple) else [expected]
    program = opbridge.export(stock_cases.as_module(function), args, verify=False)
    assert _agree(run(program, args), expected)
    if torch.__version__.startswith(WRONG_IN):
        assert not _agree(stock(name), expected), "the stock exporter has become right: take it off the list"
