"""`opbridge profile`."""

from __future__ import annotations

import json

import pytest
from onnx import TensorProto, helper, save

from opbridge.cli import main

SPEC = """
import torch

class Net(torch.nn.Module):
    def forward(self, x):
        return (x @ x).relu()

def net():
    return Net(), (torch.ones(4, 4),)
"""


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", "n"]) for name in ("x", "y")]
    nodes = [
        helper.make_node("MatMul", ["x", "x"], ["a"], name="product"),
        helper.make_node("Relu", ["a"], ["y"], name="act"),
    ]
    for node, line in zip(nodes, (6, 6), strict=True):
        node.metadata_props.add(key="opbridge.source", value=f"spec.py:{line}")
    graph = helper.make_graph(nodes, "g", value[:1], value[1:])
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10), "net.onnx")
    (tmp_path / "spec.py").write_text(SPEC)
    return tmp_path


@pytest.mark.parametrize(
    "options, message",
    [
        (["--by", "lines"], "Invalid value for --by: 'lines'. Expected operator, module, line or node."),
        (["--depth", "2"], "--depth is valid only with --by module."),
        (["--size", "n"], "Invalid value for --size: 'n'. Expected NAME=SIZE, such as n=8."),
        (["spec.py:net", "--size", "n=2"], "--size is valid only without SPEC"),
        (["--task", "text-generation"], "--task is valid only with SPEC."),
        (["--runtime", "mnn"], "The runtime 'mnn' has no profiler that opbridge reads."),
        (["--html", "page.txt"], "page.txt is not the name of an HTML file."),
    ],
)
def test_wrong_use_is_said_in_one_line(file, capsys, options, message):
    assert main(["profile", "net.onnx", *options]) == 2
    said = capsys.readouterr().err
    assert message in said and "Traceback" not in said


@pytest.mark.slow
def test_tables_and_json(file, capsys):
    assert main(["profile", "net.onnx", "--size", "n=32", "--runs", "2", "--threads", "1"]) == 0
    said = capsys.readouterr().out
    assert "net.onnx in onnxruntime" in said and "sizes n=32" in said
    assert "spec.py:6" in said and "return (x @ x).relu()" in said and "MatMul" in said
    assert (
        main(["profile", "net.onnx", "spec.py:net", "--runs", "2", "--threads", "1", "--json", "--html", "p.html"]) == 0
    )
    found = json.loads(capsys.readouterr().out)
    assert found["ok"] and found["page"] == "p.html" and (file / "p.html").exists()
    (line,) = found["lines"]
    assert line["torch_ms"] > 0 and line["lost_ms"] == pytest.approx(line["ms"] - line["torch_ms"])
