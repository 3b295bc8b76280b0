"""Operators of tensors of fewer dimensions than TensorRT-RTX takes."""

from __future__ import annotations

import pytest
from helpers.repairs import model, operators, repaired

_TARGET = "tensorrt-rtx"
_RULE = "unsupported-form"


@pytest.mark.parametrize(
    ("operator", "made"),
    [
        *((f"Reduce{each}", "Identity") for each in ("LogSumExp", "Max", "Mean", "Min", "Prod", "Sum")),
        *(("ReduceL1", "Abs"), ("ReduceL2", "Abs"), ("ReduceLogSum", "Log"), ("ReduceSumSquare", "Mul")),
    ],
)
def test_a_reduction_of_one_number(operator, made):
    fixed = repaired(model(f"(float x) => (float y) {{ y = {operator} (x) }}"), _TARGET, _RULE)
    assert operators(fixed) == {made}


@pytest.mark.parametrize("operator", ["Hardmax", "LogSoftmax", "Softmax"])
def test_a_softmax_of_a_vector(operator):
    fixed = repaired(model(f"(float[n] x) => (float[n] y) {{ y = {operator} (x) }}"), _TARGET, _RULE)
    assert {"Unsqueeze", operator, "Squeeze"} <= operators(fixed)
