"""Facts from measurements: what follows from cases, the file that is written, and what lint reads of it."""

from __future__ import annotations

import dataclasses
import importlib
import tomllib

import numpy as np
import onnx
import pytest

import opbridge
from opbridge.cli import main
from opbridge.coverage.measuring import cases, work
from opbridge.coverage.measuring.kernel_lists import LISTED
from opbridge.coverage.measuring.learning import Example, learn
from opbridge.coverage.measuring.writing import written
from opbridge.onnx import reading
from opbridge.rules.forms import OUTER, conditions, holds
from opbridge.rules.looking import Looked
from opbridge.targets import find_target, measured
from opbridge.targets.facts import Form


def node(operator: str, *held: str) -> list[Example]:
    return [Example(operator, frozenset(held))]


def learnt(right: dict, failing: dict) -> list[tuple]:
    found = learn(right, failing, dict.fromkeys(failing, "refused: no"))
    return sorted((each.operator, each.form, tuple(each.cases)) for each in found)


def test_an_operator_that_never_runs_is_missing():
    assert learnt({"a": node("Relu", "X is float32")}, {"b": node("Det", "X is float32"), "c": node("Det")}) == [
        ("Det", (), ("b", "c"))
    ]


def test_the_shortest_condition_that_no_right_case_has_is_the_fact():
    right = {"a": node("Resize", "X is float32", "mode = linear"), "b": node("Resize", "X is int8", "mode = nearest")}
    failing = {
        "c": node("Resize", "X is float32", "mode = cubic"),
        "d": node("Resize", "X is int8", "mode = linear"),
    }
    assert learnt(right, failing) == [
        ("Resize", ("X is int8", "mode = linear"), ("d",)),
        ("Resize", ("mode = cubic",), ("c",)),
    ]


def test_a_case_that_fails_for_its_values_alone_makes_the_operator_partly_there():
    (found,) = learn({"a": node("TopK", "axis = 1")}, {"b": node("TopK", "axis = 1")}, {"b": "wrong: differs"})
    assert (found.operator, found.form, found.certain) == ("TopK", (), False)
    failing = {name: node("BitShift", "X is int8") for name in "bcd"}
    (mostly,) = learn({"a": node("BitShift", "X is int8")}, failing, dict.fromkeys(failing, "wrong: differs"))
    assert mostly.form == ("X is int8",) and mostly.right == 1 and mostly.certain


def test_the_condition_that_an_error_names_is_preferred():
    right = {"a": node("AveragePool", "kernel_shape = [3, 3]")}
    failing = {"b": node("AveragePool", "strides = [1, 1]", "dilations = [2, 2]", "kernel_shape = [3, 3]")}
    (found,) = learn(right, failing, {"b": "refused: does not support dilations other than 1"})
    assert (found.form, found.certain) == (("dilations = [2, 2]",), True)
    # A number that no other test has proves nothing where nothing is said of it.
    (found,) = learn(right, failing, {"b": "refused: no kernel"})
    assert not found.certain


@pytest.mark.slow
def test_a_case_with_one_output_leaves_out_the_others():
    case = cases.case("test_layer_normalization_default_axis", "one output")
    assert list(case.model.graph.node[0].output) == ["Y"] and len(case.model.graph.output) == len(case.expected) == 1
    onnx.checker.check_model(case.model, full_check=True)
    assert cases.case("test_relu", "one output") is None
    weights = cases.case("test_layer_normalization_default_axis", "one output weights")
    assert len(weights.model.graph.input) == 1
    wanted = set(cases.forms())
    assert ("test_layer_normalization_default_axis", "one output weights") in wanted
    assert not any(name.startswith("test_split_") and form == "one output" for name, form in wanted)


@pytest.mark.slow
def test_models_that_the_tests_lack_are_valid_and_tried_as_they_are():
    own = [(name, form) for name, form in cases.forms() if name not in cases.names()]
    assert len(own) > 30 and not any(form for _, form in own)
    for name, _ in own:
        onnx.checker.check_model(cases.case(name, "").model, full_check=True)
    name = "model_if_of_outer_values"
    assert not work.is_own("test_relu") and work.is_own(name)
    case = cases.case(name, "")
    assert work._expected(case) is not None and [each.dtype.name for each in case.inputs] == [
        "bool",
        "float32",
        "float32",
    ]


def test_an_input_that_older_forms_do_not_have_is_not_left_out():
    text = """<ir_version: 10, opset_import: ["" : 23]> g (float[1,2,4,8] q) => (float[1,2,4,8] y)
    { y = Attention (q, q, q) }"""
    for opset, expected in ((23, False), (24, True)):
        model = onnx.parser.parse_model(text.replace("23", str(opset)))
        looked = Looked(reading.load(model.SerializeToString()))
        assert holds("nonpad_kv_seqlen is left out", looked.nodes[0], looked) == expected
        assert ("nonpad_kv_seqlen is left out" in conditions(looked.nodes[0], looked)) == expected


@pytest.mark.slow
def test_a_runtime_that_builds_is_asked_how_far_a_case_gets(monkeypatch):
    said = {"parse": "refused", "build": "not built", "partly": "partly built", "built": "built"}
    case = cases.case("test_relu", "")
    for stage, outcome in said.items():
        monkeypatch.setattr(work.known, "built", lambda name, model, feeds, stage=stage: (stage, "why"))
        assert work._tried("tensorrt-rtx", case, case.expected) == (outcome, "why")


def test_what_is_built_for_some_gpus_only_is_a_warning():
    examples = {"a": node("Gemm", "A is float16"), "b": node("Gemm", "A is float32")}
    (found,) = learn({"a": examples["a"]}, {"b": examples["b"]}, {"b": "partly built: for sm_75: FP32 GEMM"})
    text = written(
        ("chip", "Chip"), "1.0", "measured: here", [dataclasses.replace(found, small=True)], {"b": "partly built: why"},
        taken=["Gemm"], newest=None, contradicted={},
    )  # fmt: skip
    (fact,) = tomllib.loads(text)["fact"]
    assert fact["severity"] == "warning" and "rejects the model for some GPUs" in fact["note"]


def test_a_condition_under_which_nothing_runs_is_no_evidence_for_another_one():
    right = {"a": [*node("Cast", "input is float32", "to = 2"), *node("Relu")]}
    failing = {name: node("Cast", "input is uint4", "to = 2") for name in "bcd"}
    assert learnt(right, failing) == [("Cast", ("input is uint4",), ("b", "c", "d"))]


def test_what_a_node_leaves_out_is_a_condition():
    text = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[2, 3] x, int64[1] none) => (float[0, 3] y) { y = Slice (x, none, none) z = LogSoftmax (x)
        d = Dropout (x) }"""
    looked = Looked(reading.load(onnx.parser.parse_model(text).SerializeToString()))
    slice_, softmax, dropout = looked.nodes
    assert "output comes out empty" in set(conditions(slice_, looked))
    assert {"no attribute axis", "axis = -1"} <= set(conditions(softmax, looked))
    assert "mask has no name" in set(conditions(dropout, looked))
    for each in (slice_, softmax, dropout):
        assert all(holds(condition, each, looked) for condition in conditions(each, looked))
    assert not holds("output has no name", softmax, looked) and not holds("output comes out empty", softmax, looked)


def test_of_several_nodes_the_one_that_the_error_names_is_missing():
    failing = {"a": [*node("Loop"), *node("Det")]}
    (found,) = learn({}, failing, {"a": "refused: no rule for operations: Det-22"})
    assert (found.operator, found.form) == ("Det", ())
    assert learn({}, failing, {"a": "refused: no"}) == []


def test_a_sequence_at_the_ends_of_a_model_says_nothing_of_the_operator():
    end = "it gives an output of the model that is a sequence"
    assert learnt({}, {"a": node("SplitToSequence", end, "axis = 0")}) == [("SplitToSequence", (end,), ("a",))]


def test_conditions_that_tell_the_same_cases_are_in_the_fact_together():
    """Which of them it is, is not known: the fact holds of no other nodes than those that failed."""
    right = {"a": node("LSTM", "X is float32", "layout = 0")}
    failing = {"b": node("LSTM", "X is float32", "P is given", "P is float32", "seq is int32", "W has rank 3")}
    assert learnt(right, failing) == [("LSTM", ("P is float32", "seq is int32"), ("b",))]
    failing = {"b": node("Conv", "X is float16", "W is float16")}  # of one type they are together
    assert learnt({"a": node("Conv", "X is float32", "W is float32")}, failing) == [("Conv", ("X is float16",), ("b",))]


def test_a_place_in_a_model_of_several_nodes_is_no_reason():
    """The node may be in a branch that never runs, or another one be at fault: that is a warning."""
    right = {"a": node("GatherElements", "data is float32", "axis = 1")}
    failing = {"b": [*node("GatherElements", "data is float32", "axis = 2"), *node("If")]}
    (found,) = learn(right, failing, {"b": "refused: GatherElements-20: shapes are not consistent"})
    assert (found.operator, found.form, found.certain) == ("GatherElements", ("axis = 2",), False)
    failing = {"b": [*node("GatherElements", "data is float16"), *node("If")]}
    (found,) = learn({**right, "c": node("If")}, failing, {"b": "wrong: output 'y' differs by 1"})
    assert (found.form, found.certain) == (("data is float16",), False)
    (found,) = learn({**right, "c": node("If")}, failing, {"b": "refused: no GatherElements of float16"})
    assert (found.form, found.certain) == (("data is float16",), True)


def test_an_opset_is_no_reason_for_other_values():
    right, failing = {"a": node("Round", "of opset 11")}, {"b": node("Round", "of opset 22")}
    (found,) = learn(right, failing, {"b": "wrong: output 'y' differs by 0.3"})
    assert (found.form, found.certain) == ((), False)
    (found,) = learn(right, failing, {"b": "refused: no rule for Round-22"})
    assert (found.form, found.certain) == (("of opset 22",), True)


def test_what_differs_by_little_is_a_warning():
    failing = {"b": node("Gelu", "X is float32", "approximate = none"), "c": node("Gelu", "X is float16")}
    said = {"b": "nearly: output 'y' differs by 0.0002", "c": "nearly: output 'y' differs by 0.0003"}
    facts = learn({"a": node("Gelu", "X is float32")}, failing, said)
    text = written(
        ("web", "A runtime"),
        "9.1.3",
        "measured: here",
        [dataclasses.replace(each, small=True) for each in facts],
        said,
        taken=["Gelu"],
        newest=None,
        contradicted={},
    )
    assert len(tomllib.loads(text)["fact"]) == 2
    assert all(each["severity"] == "warning" for each in tomllib.loads(text)["fact"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("want", "have", "outcome"),
    [
        ([1.0, 2.0], [1.0, 2.0], "right"),
        ([1.0, 2.0], [1.0, 2.005], "nearly"),
        ([1.0, 2.0], [1.0, 2.1], "wrong"),
        ([0.01, 0.02], [0.01, 0.021], "wrong"),  # small, and not small beside the numbers
        ([np.inf, 2.0], [3.4e38, 2.0], "nearly"),
        ([np.nan, 2.0], [0.0, 2.1], "wrong"),
        ([np.inf, np.nan], [0.0, 0.0], "wrong"),
    ],
)
def test_small_differences_and_those_of_infinities_are_told_from_others(want, have, outcome):
    case = cases.case("test_abs", "")
    case = dataclasses.replace(case, rtol=1e-5, atol=1e-7)
    assert work._compared(case, [np.float32(want)], [np.float32(have)])[0] == outcome


@pytest.mark.slow
def test_a_node_of_a_test_is_a_case_alone_with_what_it_reads_there():
    case = cases.case("test_reduce_log_sum_asc_axes_expanded", "node 0")
    (alone,) = case.model.graph.node
    whole = cases.case("test_reduce_log_sum_asc_axes_expanded", "")
    assert alone == whole.model.graph.node[0]
    onnx.checker.check_model(case.model, full_check=True)
    np.testing.assert_allclose(case.expected[0].sum(), whole.inputs[0].sum(), rtol=1e-5)
    assert cases.case("test_if", "node 0") is None  # a body reads what is not there alone


def test_a_body_that_reads_what_stands_outside_is_a_condition():
    text = """<ir_version: 8, opset_import: ["" : 17]>
    g (bool c, float[2] x) => (float[2] y, float[2] z) {
      y = If (c) <then_branch = a () => (float[2] u) { u = Abs (x) },
                  else_branch = b () => (float[2] v) { v = Constant <value_floats = [1.0, 2.0]> () }>
      z = If (c) <then_branch = d () => (float[2] s) { s = Constant <value_floats = [1.0, 2.0]> () },
                  else_branch = e () => (float[2] t) { t = Constant <value_floats = [3.0, 4.0]> () }>
    }"""
    looked = Looked(reading.load(onnx.parser.parse_model(text).SerializeToString()))
    reads, does_not = (each for each in looked.nodes if each.op_type == "If")
    assert OUTER in set(conditions(reads, looked)) and holds(OUTER, reads, looked)
    assert OUTER not in set(conditions(does_not, looked)) and not holds(OUTER, does_not, looked)


MODEL = """<ir_version: 8, opset_import: ["" : 18]>
g (float16[2, 3] x, int64[2] at) => (float16[n] y, float16[2, 3] z) {
  one = Constant <value_int = 1> ()
  y = GatherND (x, at)
  z = Softmax <axis = 0> (x)
  c = Add (one, one)
}"""


def test_conditions_say_what_nodes_are():
    looked = Looked(reading.load(onnx.parser.parse_model(MODEL).SerializeToString()))
    gather, softmax, add = (each for each in looked.nodes if each.op_type != "Constant")
    assert set(conditions(gather, looked)) == {
        "of opset 13",
        "batch_dims = 0",
        "no attribute batch_dims",
        "data is float16",
        "data has rank 2",
        "indices is computed",
        "indices is int64",
        "indices has rank 1",
        "indices is not empty",
        "indices has length 2",
    }
    assert "axis = 0" in set(conditions(softmax, looked))
    assert not any(each.startswith("no attribute") for each in conditions(softmax, looked))
    assert "B is a constant" in set(conditions(add, looked))
    for each in (gather, softmax, add):
        assert all(holds(condition, each, looked) for condition in conditions(each, looked))
    assert not holds("data is float32", gather, looked) and not holds("axis = 1", softmax, looked)
    assert not holds("indices is a constant", gather, looked) and not holds("indices has length 3", gather, looked)


@pytest.mark.parametrize(
    ("text", "other", "from_the_end"),
    [
        ("y = Softmax <axis = 1> (x)", False, False),
        ("y = Softmax (x)", False, True),
        ("y = Softmax <axis = -2> (x)", True, True),
        ("y = CumSum (x, one)", False, False),
        ("y = CumSum (x, z)", None, False),
        ("y = DFT (x)", True, True),
    ],
)
def test_an_axis_is_a_dimension_of_the_first_input(text, other, from_the_end):
    graph = f"""<ir_version: 8, opset_import: ["" : 20]>
    g (float[2, 3] x, int64 z) => (float[] y) <int64 one = {{1}}> {{ {text} }}"""
    looked = Looked(reading.load(onnx.parser.parse_model(graph).SerializeToString()))
    (node_,) = looked.nodes
    assert holds("axis is not dimension 1", node_, looked) == bool(other)
    assert holds("axis counts from the end", node_, looked) == from_the_end


def test_two_axes_are_tried_in_the_place_of_one():
    case = cases.case("test_reduce_l1_do_not_keepdims_random", "two axes")
    assert case.inputs[1].tolist() == [0, 2] and case.expected is None
    stored = cases.case("test_reduce_l1_do_not_keepdims_random", "two axes constants")
    assert len(stored.inputs) == 1 and len(stored.model.graph.initializer) == 1
    assert cases.case("test_relu", "two axes") is None


def test_operators_are_tried_with_all_that_they_give():
    case = cases.case("test_lstm_defaults", "outputs weights")
    assert len(case.inputs) == 1 and len(case.model.graph.output) == 3
    assert cases.case("test_lstm_defaults", "").model.graph.node[0].output[0] == ""
    assert cases.case("test_relu", "outputs") is None


def test_what_was_an_attribute_is_one_at_an_older_opset():
    case = cases.case("test_reduce_log_sum_asc_axes", "opset 13")
    (node_,) = case.model.graph.node
    assert [each.ints for each in node_.attribute if each.name == "axes"] == [[0, 1]]
    assert len(node_.input) == len(case.inputs) == len(case.model.graph.input) == 1


def test_what_is_written_is_read_as_facts():
    right = {"a": node("Relu", "X is float32")}
    failing = {"b": node("Det"), "c": node("Relu", "X is float16"), "d": node("Relu", "X is float32")}
    said = {"b": "refused: no", "c": "wrong: differs by 3", "d": "crash: SIGSEGV"}
    text = written(
        ("web", "A runtime"),
        "9.1.3",
        "measured: here",
        learn(right, failing, said),
        said,
        taken=["Relu"],
        newest=20,
        contradicted={"rank": ["Relu"]},
    )
    document = tomllib.loads(text)
    assert document["versions"] == ["9.1"]
    published = {
        "name": "web",
        "versions": ["8", "9", "10"],
        "fact": [
            {"kind": "only", "operators": ["Abs"], "source": "published: there"},
            {"kind": "rank", "operators": ["Relu", "Abs"], "allowed": [4], "source": "published: there"},
        ],
    }
    both = measured.combined(published, document)
    assert both["versions"] == ["8", "9", "9.1", "10"]
    ranks = [
        (each["operators"], each.get("since"), each.get("until")) for each in both["fact"] if each["kind"] == "rank"
    ]
    assert ranks == [(["Relu", "Abs"], None, "9"), (["Abs"], "9.1", "9.1"), (["Relu", "Abs"], "10", None)]
    assert [each["operators"] for each in both["fact"] if each["kind"] == "only"] == [["Abs"], ["Relu"]]
    assert both["opsets"] == [
        {"oldest": 1, "newest": 20, "source": "measured", "since": "9.1", "until": "9.1"},
    ]
    kinds = {each["kind"]: each for each in both["fact"]}
    assert kinds["missing"]["operators"] == ["Det"] and kinds["form"]["form"] == ["X is float16"]
    assert kinds["partly"]["severity"] == "warning"


@pytest.mark.parametrize("name", [each for each in measured.names() if each not in LISTED])
def test_measured_facts_are_there_and_say_where_they_are_from(name):
    target = find_target(name)
    found = [each for each in target.facts if each.source.startswith("measured: ONNX's node tests")]
    assert len(found) > 20 and any(isinstance(each, Form) for each in found)


def test_lint_finds_what_was_measured():
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17]> g (bfloat16[2, 3] x) => (bfloat16[2, 3] y) { y = Abs (x) }"""
    ).SerializeToString()
    (found,) = [each for each in opbridge.lint(model, "web:1.30") if each.severity == "error"]
    assert found.rule == "unsupported-form" and "X is bfloat16" in found.message and "measured:" in found.source


def test_the_command_says_what_it_cannot_measure(capsys):
    assert main(["targets", "measure"]) == 2
    assert "openvino, web, mnn, ncnn, tensorrt-rtx or cuda" in capsys.readouterr().err
    assert main(["targets", "measure", "tensorrt"]) == 2
    assert "cannot be measured" in capsys.readouterr().err
    assert main(["targets", "openvino", "--jobs", "2"]) == 2
    assert "jobs is valid only for 'opbridge targets measure NAME'" in capsys.readouterr().err


@pytest.mark.slow
def test_cases_run_on_a_runtime_and_are_compared():
    from opbridge.coverage.measuring import tried

    wanted = [("test_abs", ""), ("test_abs", "bfloat16"), ("test_abs", "opset 6"), ("test_clip", "constants")]
    found, _ = tried("reference", [*wanted, ("test_identity_sequence", "")], jobs=1)
    assert {key: each.outcome for key, each in found.items()} == {
        ("test_abs", ""): "right",
        ("test_abs", "bfloat16"): "right",
        ("test_clip", "constants"): "right",
        ("test_identity_sequence", ""): "right",
    } or found[("test_abs", "opset 6")].outcome == "right"


def test_other_numbers_are_negative_too():
    case = cases.case("test_less", "values")
    assert all((each < 0).any() and (each > 0).any() for each in case.inputs) and case.expected is None
    assert cases.case("test_add", "values").inputs[0].shape == cases.case("test_add", "").inputs[0].shape
    assert cases.case("test_acos", "values") is None  # not of any number
    (alone,) = cases.case("test_clip_expanded", "node 0 values").model.graph.node
    assert alone.op_type == "Less"


def test_what_is_right_for_its_values_alone_is_no_evidence():
    (one,), (other,) = node("Less", "A is float32"), node("Less", "A is int32")
    found = {
        "right": {"test_less": [one], "test_less_int": [other], "test_range": [other, one]},
        "nearly": {},
        "failing": {"test_less (values)": [one]},
    }
    importlib.import_module("opbridge.coverage.measuring.measure")._drop_right_by_chance(found)
    assert found["right"] == {"test_less_int": [other], "test_range": [other]}


def test_a_second_condition_makes_a_fact_one_that_no_right_case_has():
    both, first = node("Less", "A is float16", "B is float32"), node("Less", "B is float32")
    failing = dict.fromkeys("abcd", both)
    failing["e"] = [*first, *node("Cast", "to = 1"), *both]
    assert learnt({"f": [*first, *node("Relu")]}, failing) == [("Less", ("A is float16",), tuple("abcde"))]
