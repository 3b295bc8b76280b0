"""Facts hold in the bodies of If and Loop too, with what comes into them from outside, and with sequences."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.tiny_models import model_of as _model
from onnx import TensorProto, helper

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
I64 = np.int64

BODIES = {
    "If": _model(
        "y = If (c) <then_branch = t () => (float[4] a) { a = Elu<alpha = 2.0> (x) },"
        " else_branch = e () => (float[4] b) { b = Neg (x) }>",
        inputs="bool c, float[4] x",
    ),
    "Loop": _model(
        "y = Loop (n, c, x) <body = b (int64 i, bool more, float[4] v) => (bool more_too, float[4] w)"
        " { more_too = Identity (more)  w = Elu<alpha = 2.0> (v) }>",
        inputs="int64 n, bool c, float[4] x",
    ),
    "a Loop in an If": _model(
        "y = If (c) <then_branch = t () => (float[4] a) { a = Loop (n, c, x)"
        " <body = b (int64 i, bool more, float[4] v) => (bool more_too, float[4] w)"
        " { more_too = Identity (more)  w = Elu<alpha = 2.0> (v) }> },"
        " else_branch = e () => (float[4] b) { b = Neg (x) }>",
        inputs="bool c, int64 n, float[4] x",
    ),
}


@pytest.mark.parametrize("case", BODIES)
def test_facts_hold_in_bodies(found, case):
    fact = {"kind": "attribute", "operators": ["Elu"], "attribute": "alpha", "allowed": [1.0]}
    rules, _ = found(BODIES[case], fact)
    assert rules == [("unsupported-attribute", "Elu")]


def test_a_body_reads_constants_from_outside(found):
    model = _model(
        "y = If (c) <then_branch = t () => (float[] a) { a = Expand (x, s) },"
        " else_branch = e () => (float[] b) { b = Expand (x, r) }>",
        inputs="bool c, float[4] x, int64[2] r",
        constants={"s": I64([2, 4])},
    )
    rules, messages = found(model, {"kind": "constant", "operators": ["Expand"], "inputs": ["shape"]})
    assert rules == [("constant-input", "Expand")], messages


def test_what_an_iteration_carries_is_no_constant(found):
    model = _model(
        "y = Loop (n, c, s) <body = b (int64 i, bool more, int64[2] v) => (bool more_too, int64[2] v_too)"
        " { more_too = Identity (more)  z = Expand (x, v)  v_too = Identity (v) }>",
        inputs="int64 n, bool c, float[4] x",
        constants={"s": I64([2, 4])},
    )
    rules, _ = found(model, {"kind": "constant", "operators": ["Expand"], "inputs": ["shape"]})
    assert rules == [("constant-input", "Expand")]


def _sequences():
    """A model that collects the turns of a Loop in a sequence, and joins them in a branch."""
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["more"], ["more_too"]),
            helper.make_node("SequenceInsert", ["s", "x"], ["s_too"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("i", INT64, []),
            helper.make_tensor_value_info("more", BOOL, []),
            helper.make_tensor_sequence_value_info("s", FLOAT, None),
        ],
        [
            helper.make_tensor_value_info("more_too", BOOL, []),
            helper.make_tensor_sequence_value_info("s_too", FLOAT, None),
        ],
    )
    branches = [
        helper.make_graph(
            [
                helper.make_node("SequenceInsert", ["all", "x"], [f"{name}_more"]),
                helper.make_node("ConcatFromSequence", [f"{name}_more"], [f"{name}_out"], axis=axis),
            ],
            name,
            [],
            [helper.make_tensor_value_info(f"{name}_out", FLOAT, None)],
        )
        for name, axis in (("then", 0), ("else", 1))
    ]
    graph = helper.make_graph(
        [
            helper.make_node("SequenceEmpty", [], ["none"]),
            helper.make_node("Loop", ["n", "", "none"], ["all"], body=body),
            helper.make_node("If", ["c"], ["y"], then_branch=branches[0], else_branch=branches[1]),
        ],
        "g",
        [
            helper.make_tensor_value_info("x", FLOAT, [2, "N"]),
            helper.make_tensor_value_info("n", INT64, []),
            helper.make_tensor_value_info("c", BOOL, []),
        ],
        [helper.make_tensor_value_info("y", FLOAT, None)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


@pytest.mark.parametrize(
    ("fact", "wanted"),
    [
        ({"kind": "missing", "operators": ["SequenceInsert"]}, [("missing-operator", "SequenceInsert")] * 3),
        ({"kind": "rank", "operators": ["SequenceInsert"], "allowed": [4]}, []),
        ({"kind": "rank", "operators": ["SequenceInsert"], "input": "tensor", "allowed": [2]}, []),
        (
            {"kind": "attribute", "operators": ["ConcatFromSequence"], "attribute": "axis", "allowed": [0]},
            [("unsupported-attribute", "ConcatFromSequence")],
        ),
        (
            {"kind": "static", "operators": ["SequenceInsert"], "inputs": ["tensor"]},
            [("dynamic-shape", "SequenceInsert")] * 3,
        ),
        ({"kind": "types", "operators": ["SequenceInsert"], "inputs": ["tensor"], "allowed": ["float32"]}, []),
        ({"kind": "pattern", "rule": "branch-ranks"}, []),
    ],
)
def test_sequences_in_bodies(found, fact, wanted):
    rules, messages = found(_sequences(), fact)
    assert rules == wanted, messages


def test_a_sequence_of_a_type_that_the_target_has_not_is_found(found):
    rules, _ = found(_sequences(), {"kind": "unstored", "types": ["float32"]})
    assert {operator for _, operator in rules} >= {"SequenceInsert"}
