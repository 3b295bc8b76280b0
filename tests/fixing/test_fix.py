"""Repairs: each where it fires, where it does not, and the results before and after."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir
import pytest
from onnx.reference import ReferenceEvaluator

import opbridge
from opbridge import fixing
from opbridge.fixing import site


def model(text: str, opset: int = 17, ir_version: int = 8) -> bytes:
    head = f'<ir_version: {ir_version}, opset_import: ["" : {opset}]>'
    return onnx.parser.parse_model(head + text).SerializeToString()


SCATTER = model("g (float[4] x, int64[2, 1] i, double[2] u) => (float[4] y) { y = ScatterND (x, i, u) }")
POW = model("g (float[4] x) => (float[4] y) { k = Constant <value_ints = [2]> () y = Pow (x, k) }")
NORM = model(
    "g (float[n, 3] x, float[3] s, float[3] b) => (float[n, 3] y) { y = LayerNormalization <epsilon = 0.5> (x, s, b) }"
)
GELU = model("g (float[4, 3] x) => (float[4, 3] y) { y = Gelu (x) }", 20, 9)
UNUSED = model("g (float[4] x) => (float[4] y) <float[2] w = {1, 2}> { y = Relu (x) }")
NAMES = model("g (float[4] x) => (float[4] y) { [n] a = Relu (x) [n] y = Abs (a) }")
FOLDED = model(
    "g (float[n, 4] x) => (float[k, 1] y) { a = Constant <value_ints = [1]> () b = Constant <value_ints = [0]> ()"
    " c = Add (a, b) y = ReduceSum <keepdims = 1> (x, c) }"
)
DECIDED = model(
    "g (float[2] x) => (float[2] y) { c = Constant <value = bool {1}> () y = If (c) <then_branch = t () => (float[2] a)"
    " { a = Relu (x) }, else_branch = e () => (float[2] b) { b = Abs (x) }> }"
)
IN_BRANCH = model(
    "g (bool c, float[2, 3] x, float[3] s) => (float[2, 3] y) { y = If (c) <then_branch = t () => (float[2, 3] a)"
    " { a = LayerNormalization (x, s) }, else_branch = e () => (float[2, 3] b) { b = Abs (x) }> }"
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("data", "target", "rule", "operators"),
    [
        (SCATTER, (), "mixed-types", ["Cast", "ScatterND"]),
        (POW, "tensorrt", "mixed-pow", ["Constant", "Cast", "Pow"]),
        (UNUSED, (), "unused-initializer", ["Relu"]),
        (NAMES, (), "duplicate-names", ["Relu", "Abs"]),
        (DECIDED, (), "constant-condition", ["Relu"]),
    ],
    ids=["scatter", "pow", "unused", "names", "decided"],
)
@pytest.mark.usefixtures("one_process")
def test_a_repair_leaves_nothing_and_gives_the_same(data, target, rule, operators):
    fixed = opbridge.fix(data, target)
    assert {each.finding.rule for each in fixed.changes} == {rule}
    assert not fixed.left
    assert fixed.comparison.runs and fixed.comparison.ok and fixed.comparison.largest == 0
    assert [each.op_type for each in fixed.model.graph] == operators


@pytest.mark.slow
def test_folded_constants_are_initializers():
    fixed = opbridge.fix(FOLDED, "tensorrt:10.1")
    assert not fixed.left and [each.finding.rule for each in fixed.changes] == ["constant-input"]


@pytest.mark.slow
@pytest.mark.parametrize(("data", "feeds"), [(NORM, ("x", "s", "b")), (IN_BRANCH, ("c", "x", "s"))], ids=["norm", "if"])
def test_an_operator_in_other_operators(tmp_path, data, feeds):
    fixed = opbridge.fix(data, "tensorrt:8.5", tmp_path / "fixed.onnx", ignore=["branch-names"])
    assert "LayerNormalization" not in {each.op_type for each in fixed.model.graph.all_nodes()}
    assert not [each for each in fixed.left if each.rule == "missing-operator"]
    generator = np.random.default_rng(5)
    given = {
        "x": generator.standard_normal((2, 3)).astype("f") * 9,
        "s": generator.standard_normal(3).astype("f"),
        "b": generator.standard_normal(3).astype("f"),
        "c": np.array(True),
    }
    inputs = {name: given[name] for name in feeds}
    (expected,) = ReferenceEvaluator(onnx.ModelProto.FromString(data)).run(None, inputs)
    (found,) = opbridge.session(tmp_path / "fixed.onnx").run(None, inputs)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.slow
def test_what_comes_of_a_repair_is_repaired_too():
    fixed = opbridge.fix(GELU, "tensorrt:8.6", ignore=["opset-range"])
    assert not {"Gelu", "CastLike"} & {each.op_type for each in fixed.model.graph}
    assert [each.rule for each in fixed.left] == ["opset-range"]


@pytest.mark.slow
def test_source_lines_stay_with_the_nodes_in_its_place():
    data = onnx.ModelProto.FromString(NORM)
    data.graph.node[0].metadata_props.add(key="opbridge.source", value="net.py:7")
    fixed = opbridge.fix(data.SerializeToString(), "tensorrt:8.5")
    assert {each.metadata_props.get("opbridge.source") for each in fixed.model.graph} == {"net.py:7"}


@pytest.mark.parametrize(
    "text",
    [
        "g (int64[4] x, float[4] e) => (int64[4] y) { y = Pow (x, e) }",  # a fraction would be lost
        "g (float16[4] x, int64[4] e) => (float16[4] y) { y = Pow (x, e) }",  # float16 does not hold every number
    ],
)
def test_a_repair_that_could_change_results_is_none(text):
    fixed = opbridge.fix(model(text), "tensorrt:10.1")
    assert not fixed.changes and "mixed-pow" in [each.rule for each in fixed.left]
    assert fixed.summary().startswith("No repair was made. Remaining: ")


@pytest.mark.slow
def test_a_repair_that_changes_results_is_not_written(tmp_path, monkeypatch):
    def wrong(found):
        found.node.replace_input_with(1, found.node.inputs[0])
        return "replaced the exponent"

    monkeypatch.setitem(site._REPAIRS, "mixed-pow", [(frozenset(), wrong)])
    with pytest.raises(opbridge.FixError, match="The results differ in ONNX Runtime by"):
        opbridge.fix(POW, "tensorrt", tmp_path / "fixed.onnx")
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_elements_that_may_come_in_any_order_are_sorted(tmp_path):
    data = model(
        "g (float[n, 9] x) => (float[n, 5] y, int64[n, 5] i) { k = Constant <value_ints = [5]> () y, i = TopK <sorted ="
        " 0> (x, k) }"
    )
    fixed = opbridge.fix(data, "tensorrt:10.1", tmp_path / "fixed.onnx")
    assert [each.finding.rule for each in fixed.changes] == ["unsupported-attribute"] and fixed.comparison.ok
    x = np.float32([[3, 1, 4, 1, 5, 9, 2, 6, 8]])
    assert opbridge.session(fixed.path).run(None, {"x": x})[0].tolist() == [[9, 8, 6, 5, 4]]
    sorted_ = model(
        "g (float[n, 9] x) => (float[n, 5] y, int64[n, 5] i) { k = Constant <value_ints = [5]> () y, i = TopK (x, k) }"
    )
    assert not opbridge.fix(sorted_, "tensorrt:10.1").changes


TWO = model(
    "g (float[4] x, float[4] e, int64[2, 1] i, double[2] u) => (float[4] y, float[4] z) { k = Constant <value_ints ="
    " [2]> () y = Pow (x, k) z = ScatterND (x, i, u) }"
)


def _wrong(found):
    found.node.replace_input_with(1, found.node.inputs[0])
    return "replaced the exponent"


def _failing(found):
    found.node.replace_input_with(1, None)
    raise KeyError("exponent")


@pytest.mark.slow
@pytest.mark.parametrize(("repair", "why"), [(_wrong, "The results differ in ONNX Runtime by"), (_failing, "KeyError")])
def test_a_repair_that_fails_is_undone_and_the_others_are_kept(tmp_path, monkeypatch, repair, why):
    monkeypatch.setitem(site._REPAIRS, "mixed-pow", [(frozenset(), repair)])
    fixed = opbridge.fix(TWO, "tensorrt:10.1", tmp_path / "fixed.onnx")
    assert "mixed-types" in {each.finding.rule for each in fixed.changes} and fixed.comparison.ok
    [(undone, said)] = fixed.undone
    assert undone.finding.rule == "mixed-pow" and why in said
    assert [why in each.remedy for each in fixed.left if each.rule == "mixed-pow"] == [True]
    assert "1 repair undone" in fixed.summary() and fixed.document()["undone"][0]["rule"] == "mixed-pow"
    feeds = {"x": np.float32([1, 2, 3, 4]), "i": np.int64([[0], [1]]), "u": np.float64([5, 6]), "e": np.ones(4, "f")}
    found = opbridge.session(fixed.path).run(None, feeds)
    assert found[0].tolist() == [1, 4, 9, 16] and found[1].tolist() == [5, 6, 3, 4]


def test_a_model_without_findings_is_written_as_it_is(tmp_path):
    data = model("g (float[4] x) => (float[4] y) { y = Relu (x) }")
    fixed = opbridge.fix(data, "tensorrt:8.5", tmp_path / "fixed.onnx")
    assert fixed.comparison is None and fixed.path == str(tmp_path / "fixed.onnx")
    assert opbridge.session(fixed.path).run(None, {"x": np.float32([-1, 0, 1, 2])})[0].tolist() == [0, 0, 1, 2]


def test_the_model_itself_is_not_overwritten(tmp_path):
    path = tmp_path / "model.onnx"
    path.write_bytes(UNUSED)
    with pytest.raises(opbridge.UsageError, match="is the input model itself"):
        opbridge.fix(path, (), path)
    assert path.read_bytes() == UNUSED


@pytest.mark.slow
def test_many_nodes_of_one_name_are_renamed_in_little_time():
    made = onnx.ModelProto.FromString(NAMES)

    for number in range(20_000):
        made.graph.node.add(op_type="Relu", name="n", input=["x"], output=[f"r{number}"])

    changes, _ = fixing.repaired(onnx_ir.from_proto(made), [])
    assert "duplicate-names" in {each.finding.rule for each in changes}
