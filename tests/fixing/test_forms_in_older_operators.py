"""Forms that a target was measured to refuse or to compute wrongly, in the operator's older forms."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.repairs import fix, kept, model

from opbridge.fixing import has_repair

RNG = np.random.default_rng(0)


def _recurrent(operator: str, gates: int, extra: str = "") -> object:
    weights = {"w": RNG.standard_normal((1, gates * 4, 3)), "r": RNG.standard_normal((1, gates * 4, 4))}
    return model(
        "(float[2, 5, 3] x) => (float[2, 5, 1, 4] y)"
        f" {{ y = {operator} <hidden_size = 4, layout = 1> (x, w, r{extra}) }}",
        22,
        10,
        **{name: value.astype(np.float32) for name, value in weights.items()},
    )


_FORM = '[[fact]]\nkind = "form"\noperators = ["GRU", "LSTM", "RNN"]\nform = ["layout = 1"]\nsource = "measured: x"\n'


@pytest.mark.parametrize(("operator", "gates"), [("LSTM", 4), ("GRU", 3), ("RNN", 1)])
def test_a_batch_that_comes_first(lacking, operator, gates):
    made = _recurrent(operator, gates)
    fixed = fix(made, lacking(facts=_FORM))
    assert [each.done for each in fixed.changes] == [f"replaced {operator} by Transpose, {operator}"] and not fixed.left
    # ONNX Runtime does not support layout=1: the target's fact, and the repair for it, are the same as its own.
    for_runtime = fix(made, "onnxruntime")
    assert [each.op_type for each in for_runtime.model.graph] == [each.op_type for each in fixed.model.graph]


def test_the_measured_release_of_openvino_has_it_too():
    fixed = fix(_recurrent("LSTM", 4), "openvino:2026.4")
    assert "unsupported-form" in {each.finding.rule for each in fixed.changes}
    assert not [each for each in fixed.left if "layout" in each.message]


def test_a_form_without_older_operators_is_kept_and_not_offered(lacking):
    facts = '[[fact]]\nkind = "form"\noperators = ["Sin"]\nform = ["input has rank 2"]\nsource = "measured: x"\n'
    made = model("(float[2, 2] x) => (float[2, 2] y) { y = Sin (x) }")
    kept(made, lacking(facts=facts), "unsupported-form")
    (finding,) = fix(made, lacking(facts=facts)).left
    assert not has_repair(finding)
