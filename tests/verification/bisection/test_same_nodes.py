"""Tests of giving a model the names of another one with the same nodes."""

import onnx
import pytest

from opbridge.verification.bisection.same_nodes import with_names_of

_TEXT = """
<ir_version: 8, opset_import: ["" : 18, "own" : 1]>
graph (float[2] x) => (float[2] {0}) <int64 {1} = {{3}}, float[2] {2} = {{1.0, 2.0}}> {{
    {3} = Sin(x)
    {0} = Loop({1}, , {3}) <body = inner (int64 {4}, bool {5}, float[2] {6}) => (bool {7}, float[2] {8}) {{
        {7} = Identity({5})
        {9} = own.f({6})
        {8} = {OP}({9}, {2})
    }}>
}}
<domain: "own", opset_import: ["" : 18]>
f (a) => (b) {{
    c = {INNER}(a)
    b = {LAST}(c)
}}
"""


def _model(names, op="Add", inner="Neg", last="Abs"):
    text = _TEXT.format(*names, OP=op, INNER=inner, LAST=last)
    return onnx.parser.parse_model(text)


_MINE = ["y", "n", "w", "s", "i", "go", "v", "on", "next", "f"]
_THEIRS = ["out", "count", "weight", "sine", "turn", "is_on", "value", "stays", "result", "called"]


def _names(graph):
    for node in graph.node:
        yield from node.output
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from (each.name for each in attribute.g.input)
                yield from _names(attribute.g)
                yield from (each.name for each in attribute.g.output)


def test_values_of_bodies_take_the_names_of_those_in_the_same_places():
    other = _model(_THEIRS, op="Sub")
    found = with_names_of(_model(_MINE), other)
    onnx.checker.check_model(found)
    assert list(_names(found.graph)) == list(_names(other.graph))
    assert [each.name for each in found.graph.initializer] == ["n", "w"] and found.graph.output[0].name == "out"


def test_a_constant_gives_way_to_a_value_of_its_name():
    other = _model([*_THEIRS[:3], "w", *_THEIRS[4:]])
    found = with_names_of(_model(_MINE), other)
    onnx.checker.check_model(found)
    assert list(_names(found.graph)) == list(_names(other.graph))
    assert "w" not in [each.name for each in found.graph.initializer]


@pytest.mark.parametrize("changed", [{"op": "Sub"}, {"inner": "Exp"}, {}])
def test_a_changed_operator_leaves_the_nodes_the_same(changed):
    assert with_names_of(_model(_MINE), _model(_THEIRS, **changed)) is not None


def test_models_with_other_nodes_have_no_values_in_the_same_places():
    longer = _model(_THEIRS)
    longer.graph.node.append(onnx.helper.make_node("Neg", ["out"], ["negative"]))
    longer.graph.output[0].name = "negative"
    in_body = _model(_THEIRS)
    body = in_body.graph.node[1].attribute[0].g
    body.node.insert(0, onnx.helper.make_node("Neg", [_THEIRS[6]], ["negative"]))
    in_function = _model(_THEIRS)
    in_function.functions[0].node.insert(0, onnx.helper.make_node("Neg", ["a"], ["negative"]))
    for other in (longer, in_body, in_function):
        assert with_names_of(_model(_MINE), other) is None


def test_models_that_have_few_operators_in_common_have_not_the_same_nodes():
    other = _model(_THEIRS, op="Sub", inner="Exp", last="Log")
    other.graph.node[0].op_type = "Cos"
    assert with_names_of(_model(_MINE), other) is None
