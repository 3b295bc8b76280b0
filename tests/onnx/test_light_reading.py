"""Large files are read without their weights, which are the same as those of the whole file."""

from __future__ import annotations

import os

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import helper, numpy_helper

from opbridge.onnx import light_reading, reading


@pytest.fixture
def path(tmp_path, monkeypatch):
    monkeypatch.setattr(light_reading, "_LEAST_BYTES", 1)
    weights = {
        "w": np.arange(4096, dtype=np.float32).reshape(64, 64),
        "b": np.float32([1] * 64),
        "h": np.ones((64, 64), np.float16),
    }
    nodes = [
        helper.make_node("Gemm", ["x", "w", "b"], ["a"]),
        helper.make_node("Cast", ["a"], ["c"], to=10),
        helper.make_node("MatMul", ["c", "h"], ["y"]),
    ]
    ends = [helper.make_tensor_value_info("x", 1, ["n", 64]), helper.make_tensor_value_info("y", 10, ["n", 64])]
    graph = helper.make_graph(
        nodes, "g", ends[:1], ends[1:], [numpy_helper.from_array(v, k) for k, v in weights.items()]
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), tmp_path / "m.onnx")
    return tmp_path / "m.onnx"


def test_the_weights_are_the_same(path):
    light, whole = light_reading.load(str(path)), reading.load(str(path))
    kinds = {name: type(value.const_value) for name, value in light.graph.initializers.items()}
    assert kinds["w"] is kinds["h"] is ir.ExternalTensor and kinds["b"] is not ir.ExternalTensor
    for name, value in whole.graph.initializers.items():
        np.testing.assert_array_equal(light.graph.initializers[name].const_value.numpy(), value.const_value.numpy())
    assert [each.op_type for each in light.graph] == [each.op_type for each in whole.graph]


def test_a_file_with_several_links_is_read_too(path):
    os.link(path, path.with_name("other.onnx"))
    loaded = reading.load_with_clashes(str(path))
    assert loaded.graph.initializers["w"].const_value.numpy()[1, 1] == 65


def test_a_cut_file_is_left_to_the_reader_of_whole_files(path):
    path.write_bytes(path.read_bytes()[:9000])
    assert light_reading.load(str(path)) is None


def test_small_files_are_read_as_a_whole(path, monkeypatch):
    monkeypatch.undo()
    assert light_reading.load(str(path)) is None
