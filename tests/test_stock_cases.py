"""The operators that torch.onnx.export gets silently wrong: its output fails the test that ours passes."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import stock_cases
from helpers.matching import assert_same_results
from helpers.running import run
from helpers.scripts import run_script

import opbridge


@pytest.fixture(scope="module")
def stock(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stock")
    run_script(stock_cases.__file__, folder).check_returncode()
    return lambda name: list(np.load(folder / f"{name}.npz").values())


def _agree(got, function, args):
    try:
        assert_same_results(got, function, args)
    except AssertionError:
        return False
    return True


@pytest.mark.slow
@pytest.mark.parametrize("name", stock_cases.CASES)
def test_ours_is_right_where_the_stock_exporter_is_wrong(name, stock):
    function, args = stock_cases.CASES[name]
    program = opbridge.export(stock_cases.as_module(function), args, verify=False)
    assert _agree(run(program, args), function, args)
    assert not _agree(stock(name), function, args), "the stock exporter has become right: take it off the list"
