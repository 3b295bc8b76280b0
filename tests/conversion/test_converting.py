"""Whole models: what survives, what is said, and when nothing is written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import opbridge
from opbridge.conversion import Conversion, converting
from opbridge.errors import ConversionError, ModelFileError, UsageError
from opbridge.side_by_side import SideBySide, difference

F, INT64, B = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


def infos(**shapes: list[object]) -> list[onnx.ValueInfoProto]:
    return [helper.make_tensor_value_info(name, F, shape) for name, shape in shapes.items()]


def ints(name: str, *numbers: int) -> onnx.TensorProto:
    return numpy_helper.from_array(np.asarray(numbers, np.int64), name)


def made(
    nodes: list[onnx.NodeProto],
    opset: int = 20,
    stored: list[onnx.TensorProto] | None = None,
    functions: list[onnx.FunctionProto] | None = None,
) -> onnx.ModelProto:
    graph = helper.make_graph(nodes, "g", infos(x=["n", 1, 4]), infos(y=[None, None]), stored or [])
    imports = [helper.make_opsetid("", opset)]
    if functions:
        imports.append(helper.make_opsetid("local", 1))
    model = helper.make_model(graph, opset_imports=imports, functions=functions or [])
    model.ir_version = helper.find_min_ir_version_for([helper.make_opsetid("", opset)])
    return model


def squeeze_and(op: str, **attributes: object) -> onnx.ModelProto:
    nodes = [
        helper.make_node("Squeeze", ["x", "axes"], ["s"], name="first"),
        helper.make_node(op, ["s"], ["y"], name="second", **attributes),
    ]
    return made(nodes, stored=[ints("axes", 1)])


def convert(model: Any, **options: Any) -> Conversion:
    """In this process, which is quicker."""
    return opbridge.convert(model, **options, isolated=False)


@pytest.mark.slow
def test_converts_and_compares() -> None:
    found = opbridge.convert(squeeze_and("Gelu"), opset_version=11)
    assert found.counted() == [("Squeeze", "axes are an attribute", 1), ("Gelu", "composed of Erf or Tanh", 1)]
    assert found.summary() == "Opset 20 to 11, IR version 9 to 6: 2 nodes changed."
    assert found.comparison.ok and len(found.comparison.runs) == 4  # several sizes
    assert "The results agree in ONNX Runtime on 4 sets" in found.comparison.summary()
    assert found.document()["opset"] == {"from": 20, "to": 11}


def test_lists_all_refusals_with_their_lines() -> None:
    nodes = [
        helper.make_node("Squeeze", ["x", "axes"], ["s"], name="first"),
        helper.make_node("BitShift", ["a", "a"], ["b"], name="shift", direction="LEFT"),
        helper.make_node("Cast", ["b"], ["c"], to=F),
        helper.make_node("Add", ["s", "c"], ["d"]),
        helper.make_node("Round", ["d"], ["r"]),
        helper.make_node("Resize", ["r", "", "scales"], ["y"], name="resize", mode="cubic"),
    ]
    nodes[1].metadata_props.add(key="opbridge.source", value="model.py:7")
    stack = 'File "model.py", line 8, in forward\n    y = resize(r)\n'
    nodes[5].metadata_props.add(key="pkg.torch.onnx.stack_trace", value=stack)
    stored = [
        ints("axes", 1),
        numpy_helper.from_array(np.ones(4, np.uint8), "a"),
        numpy_helper.from_array(np.asarray([1, 2], np.float32), "scales"),
    ]
    with pytest.raises(ConversionError) as refused:
        convert(made(nodes, stored=stored), opset_version=10)
    first, second = refused.value.refusals
    assert (first.operator, first.place, first.needed) == ("BitShift", "model.py:7", 11)
    assert (second.operator, second.place, second.needed) == ("Resize", "model.py:8", 11)
    text = str(refused.value)
    assert "2 nodes" in text and "model.py:7" in text and "model.py:8" in text and "Opset 11 supports all" in text


def test_writes_nothing_where_results_differ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, output = tmp_path / "model.onnx", tmp_path / "older.onnx"
    onnx.save(squeeze_and("Gelu"), path)
    output.write_bytes(b"as it was")
    monkeypatch.setattr(converting, "compare", lambda *_, **__: SideBySide(failed="it does not run"))
    with pytest.raises(ConversionError, match="Nothing was written"):
        convert(path, opset_version=13, output=output)
    assert output.read_bytes() == b"as it was"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["model.onnx", "older.onnx"]


def test_keeps_external_data(tmp_path: Path) -> None:
    weight = numpy_helper.from_array(np.random.default_rng(0).standard_normal((4, 300)).astype(np.float32), "w")
    nodes = [
        helper.make_node("Squeeze", ["x", "axes"], ["s"]),
        helper.make_node("MatMul", ["s", "w"], ["y"]),
    ]
    path, output = tmp_path / "model.onnx", tmp_path / "older.onnx"
    onnx.save(
        made(nodes, stored=[ints("axes", 1), weight]),
        path,
        save_as_external_data=True,
        location="w.bin",
        size_threshold=64,
    )
    found = convert(path, opset_version=11, output=output)
    assert found.comparison.ok and found.comparison.runs
    assert [each.suffix for each in found.files] == [".onnx", ".data"]
    again = convert(output, opset_version=20, output=output)  # over itself
    assert again.comparison.ok and again.comparison.runs
    stored = [numpy_helper.to_array(each) for each in onnx.load(output).graph.initializer]
    assert any(np.array_equal(each, numpy_helper.to_array(weight)) for each in stored)


def test_converts_bodies_and_keeps_metadata() -> None:
    def branch(axis: int) -> onnx.GraphProto:
        nodes = [
            helper.make_node("Constant", [], ["a"], value_ints=[axis]),
            helper.make_node("ReduceMean", ["s", "a"], ["r"], name=f"mean{axis}"),
            helper.make_node("Add", ["s", "r"], ["out"]),
        ]
        nodes[1].metadata_props.add(key="opbridge.source", value=f"model.py:{axis}")
        return helper.make_graph(nodes, f"branch{axis}", [], [onnx.ValueInfoProto(name="out")])

    nodes = [
        helper.make_node("Squeeze", ["x", "axes"], ["s"]),
        helper.make_node("ReduceSum", ["s"], ["total"], keepdims=0),
        helper.make_node("Constant", [], ["zero"], value_float=0.0),
        helper.make_node("Greater", ["total", "zero"], ["positive"]),
        helper.make_node("If", ["positive"], ["y"], then_branch=branch(0), else_branch=branch(1)),
    ]
    found = convert(made(nodes, stored=[ints("axes", 1)]), opset_version=11)
    assert found.comparison.ok and found.comparison.runs
    proto = onnx.ModelProto.FromString(found.to_bytes())
    (node,) = (each for each in proto.graph.node if each.op_type == "If")
    for axis, attribute in zip((0, 1), sorted(node.attribute, key=lambda each: each.name, reverse=True), strict=True):
        (mean,) = (each for each in attribute.g.node if each.op_type == "ReduceMean")
        assert len(mean.input) == 1
        assert [each.value for each in mean.metadata_props] == [f"model.py:{axis}"]


def test_converts_functions_and_keeps_them() -> None:
    body = [
        helper.make_node("Constant", [], ["a"], value_ints=[-1]),
        helper.make_node("ReduceMean", ["v", "a"], ["m"]),
        helper.make_node("Sub", ["v", "m"], ["c"]),
        helper.make_node("Gelu", ["c"], ["w"]),
    ]
    function = helper.make_function("local", "Centre", ["v"], ["w"], body, [helper.make_opsetid("", 20)])
    nodes = [
        helper.make_node("Squeeze", ["x", "axes"], ["s"]),
        helper.make_node("Centre", ["s"], ["y"], domain="local"),
    ]
    found = convert(made(nodes, stored=[ints("axes", 1)], functions=[function]), opset_version=13)
    assert found.comparison.ok and found.comparison.runs
    proto = onnx.ModelProto.FromString(found.to_bytes())
    assert proto.ir_version == 8  # the oldest that holds functions
    (kept,) = proto.functions
    assert {each.domain: each.version for each in kept.opset_import} == {"": 13}
    assert "Gelu" not in [each.op_type for each in kept.node]


@pytest.mark.parametrize(("ir_version", "expected"), [(None, 7), (5, 5), (3, 3)])
def test_ir_version(ir_version: int | None, expected: int) -> None:
    found = convert(squeeze_and("Relu"), opset_version=13, ir_version=ir_version)
    proto = onnx.ModelProto.FromString(found.to_bytes())
    assert proto.ir_version == expected and found.comparison.ok and found.comparison.runs


def test_wrong_use(tmp_path: Path) -> None:
    for opset in (6, onnx.defs.onnx_opset_version() + 1):
        with pytest.raises(UsageError, match="Use 7 to"):
            convert(squeeze_and("Relu"), opset_version=opset)
    with pytest.raises(UsageError, match="ir_version=99"):
        convert(squeeze_and("Relu"), opset_version=13, ir_version=99)
    with pytest.raises(ModelFileError):
        convert(tmp_path / "none.onnx", opset_version=13)
    (tmp_path / "damaged.onnx").write_bytes(b"\x08\x08nothing of the kind")
    with pytest.raises(ModelFileError):
        convert(tmp_path / "damaged.onnx", opset_version=13)


def test_says_why_it_did_not_compare() -> None:
    nodes = [helper.make_node("Bernoulli", ["x"], ["y"])]
    assert "random" in convert(made(nodes), opset_version=15).comparison.summary()
    unknown = made([helper.make_node("Nowhere", ["x"], ["y"], domain="com.example")])
    unknown.opset_import.add(domain="com.example", version=1)
    assert "cannot load the original model" in convert(unknown, opset_version=13).comparison.summary()


def test_difference() -> None:
    one = np.asarray([1.0, np.nan, np.inf], np.float32)
    assert difference(one, one) == (0.0, True)
    assert not difference(one, np.asarray([1.0, np.nan, -np.inf], np.float32))[1]
    assert not difference(one, np.asarray([1.0, 0.0, np.inf], np.float32))[1]
    assert not difference(one, np.asarray([1.1, np.nan, np.inf], np.float32))[1]
    assert not difference(one, one[:2])[1] and not difference(one, one.astype(np.float64))[1]
    assert not difference(np.asarray([1, 2]), np.asarray([1, 3]))[1]
    assert difference(np.zeros((0, 3), np.float32), np.zeros((0, 3), np.float32)) == (0.0, True)


def test_a_model_older_than_all_opsets_is_refused_with_what_to_do(tmp_path):
    old = onnx.parser.parse_model(
        '<ir_version: 3, opset_import: ["" : 6]> g (float[2] x) => (float[2] y) { y = Abs (x) }'
    )
    onnx.save(old, tmp_path / "old.onnx")
    with pytest.raises(opbridge.UsageError, match="has opset 6; .* Convert it to opset 7 first"):
        opbridge.convert(tmp_path / "old.onnx", opset_version=13, output=tmp_path / "new.onnx")
