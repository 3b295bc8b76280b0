"""The nodes of a file, under names of their own."""

from __future__ import annotations

import pytest
from onnx import TensorProto, helper

import opbridge
from opbridge.profiling.file_graph import graph_of, read, short_name, with_own_names


def model(*nodes):
    value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [None]) for name in ("x", "y")]
    return helper.make_model(helper.make_graph(list(nodes), "g", value[:1], value[1:]))


def test_nodes_without_a_name_get_one_and_are_shown_by_their_output():
    found = model(helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Relu", ["a"], ["y"], name="r"))
    renamed = with_own_names(found)
    assert renamed == {"a": "a"}
    assert [node.shown for node in graph_of(found.graph, renamed).nodes] == ["a", "r"]


def test_two_nodes_of_one_name_are_told_apart_also_in_a_body():
    body = helper.make_graph([helper.make_node("Relu", ["x"], ["b"], name="r")], "b", [], [])
    branch = helper.make_node("If", ["c"], ["i"], name="if", then_branch=body, else_branch=body)
    found = model(helper.make_node("Relu", ["x"], ["y"], name="r"), branch)
    renamed = with_own_names(found)
    assert renamed == {"r#2": "r", "r#3": "r"}
    graph = graph_of(found.graph, renamed)
    assert [node.name for node in graph.all_nodes()] == ["r", "if", "r#2", "r#3"]
    assert graph.nodes[1].inputs == ("c", "x")  # what the bodies read belongs to the node


def test_a_file_with_names_of_its_own_is_left_as_it_is():
    found = model(helper.make_node("Relu", ["x"], ["y"], name="r"))
    before = found.SerializeToString()
    assert with_own_names(found) == {} and found.SerializeToString() == before


def test_lines_and_modules_are_those_that_the_exporters_note():
    ours, theirs, plain = (
        helper.make_node("Relu", [a], [b], name=name)
        for a, b, name in (("x", "a", "n1"), ("a", "b", "n2"), ("b", "y", "/layer1/layer1.0/relu/Relu"))
    )
    for node, said in (
        (ours, {"opbridge.operator": "aten::relu", "opbridge.module": "act", "opbridge.source": "net.py:3"}),
        (
            theirs,
            {
                "pkg.torch.onnx.stack_trace": 'File "/home/net.py", line 7, in forward\n    return x.relu()',
                "pkg.torch.onnx.name_scopes": "['', 'layer2', 'layer2.act', 'relu']",
            },
        ),
    ):
        for key, value in said.items():
            node.metadata_props.add(key=key, value=value)
    found = graph_of(model(ours, theirs, plain).graph, {}).nodes
    assert [(each.module, each.line, each.torch) for each in found] == [
        ("act", "net.py:3", "aten::relu"),
        ("layer2.act", "/home/net.py:7", ""),
        ("layer1.0.relu", "", ""),
    ]


def test_files_that_cannot_be_profiled_are_refused():
    with pytest.raises(opbridge.ModelFileError, match="cut.onnx cannot be read as an ONNX model .* Export or copy it"):
        read(b"\x08\x07\x3a\xff", "cut.onnx")
    with pytest.raises(opbridge.ModelFileError, match="none.onnx has no nodes"):
        read(model().SerializeToString(), "none.onnx")


def test_short_names():
    assert [short_name(each) for each in ("Conv", "com.microsoft.nchwc::Conv", "my::Conv")] == [
        "Conv",
        "Conv",
        "my::Conv",
    ]


def test_a_constant_is_no_node():
    constant = helper.make_node("Constant", [], ["c"], value_float=1.0)
    found = graph_of(model(constant, helper.make_node("Add", ["x", "c"], ["y"], name="a")).graph, {})
    assert [node.name for node in found.nodes] == ["a"] and found.constants == {"c"}
