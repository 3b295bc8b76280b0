"""Random numbers of float64 for TensorRT-RTX, which draws float32 and float16."""

from __future__ import annotations

import pytest
from helpers.repairs import fix, model, operators


@pytest.mark.parametrize("operator", ["RandomNormalLike", "RandomUniformLike"])
def test_numbers_are_drawn_in_float32(operator):
    fixed = fix(
        model(f"(float[n] x) => (double[n] y) {{ y = {operator} <dtype = 11, seed = 3.0> (x) }}"), "tensorrt-rtx"
    )
    (change,) = (each for each in fixed.changes if each.finding.rule == "unsupported-form")
    assert "float32" in change.done and operators(fixed) == {operator, "Cast"}
    drawn = next(each for each in fixed.model.graph if each.op_type == operator)
    assert drawn.attributes["dtype"].value == 1 and drawn.attributes["seed"].value == 3.0
